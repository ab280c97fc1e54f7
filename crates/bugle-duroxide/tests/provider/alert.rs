//! Fast polling after a fault: what begins it, how it goes on, what it takes to end it. The faults are real.

use crate::fixture::{
    HOUR, Place, Turn, ack, counters, patient, soon, start, started, turn, until, waiting_turn,
};
use bugle_duroxide::{LongPollConfig, PostgresProvider};
use bugle_testkit::proxy::{Cut, Fault};
use bugle_wake::Why;
use duroxide::providers::Provider as _;
use sqlx::{Connection as _, PgConnection};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

const MINIMUM: Duration = Duration::from_millis(300);

/// Alerts that a test can wait for.
fn quick() -> LongPollConfig {
    LongPollConfig { aggressive_poll_duration: MINIMUM, aggressive_exit_threshold: 3, ..patient() }
}

/// A node with a fetch that sleeps.
async fn sleeper(place: &Place, config: LongPollConfig) -> (PostgresProvider, JoinHandle<Option<Turn>>) {
    let node = place.provider(place.options(config)).await;
    let fetch = waiting_turn(&node);
    place.asleep(&node, 1).await;
    assert_eq!(counters(&node).alerts.get(), 0);
    (node, fetch)
}

/// The next instance that a dispatcher has served.
async fn next(told: &mut mpsc::UnboundedReceiver<String>) -> String {
    soon("an instance is served", told.recv()).await.unwrap()
}

fn is_on(node: &PostgresProvider) -> bool {
    node.node().unwrap().status().alert
}

async fn begins(node: &PostgresProvider) {
    until("it is on alert", async || is_on(node)).await;
}

async fn ends(node: &PostgresProvider) {
    until("the alert is over", async || !is_on(node)).await;
}

async fn served(fetch: JoinHandle<Option<Turn>>, instance: &str) {
    assert_eq!(fetch.await.unwrap().expect("it is served").0.instance, instance);
}

/// The seeds poll fast after every wake; here nothing was wrong.
#[tokio::test]
async fn neither_a_ring_nor_a_timer_is_an_alert() {
    let place = Place::new().await;
    let producer = place.at_once().await;
    let (node, fetch) = sleeper(&place, quick()).await;
    producer.enqueue_for_orchestrator(start("now"), None).await.unwrap();
    served(fetch, "now").await;
    let fetch = waiting_turn(&node);
    place.asleep(&node, 1).await;
    producer.enqueue_for_orchestrator(start("later"), Some(Duration::from_secs(1))).await.unwrap();
    served(fetch, "later").await;
    let counters = counters(&node);
    assert!(counters.looks_by(Why::Ring) > 0 && counters.looks_by(Why::Timer) > 0);
    assert_eq!(counters.alerts.get(), 0);
}

/// Looks that would claim something are refused, others are not.
const BREAK_LOOKS: &str = "ALTER TABLE bugle.kv RENAME TO kv_away";
const MEND_LOOKS: &str = "ALTER TABLE bugle.kv_away RENAME TO kv";

#[tokio::test]
async fn looks_that_are_refused_begin_an_alert_and_prolong_it() {
    let place = Place::new().await;
    let producer = place.at_once().await;
    let (node, fetch) = sleeper(&place, quick()).await;
    place.execute(BREAK_LOOKS).await;
    producer.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    begins(&node).await;
    let begun = Instant::now();
    until("it goes on for longer than the shortest alert", async || {
        assert!(is_on(&node), "it must last while looks are refused");
        counters(&node).failed_looks.get() >= 4 && begun.elapsed() > 3 * MINIMUM
    })
    .await;
    place.execute(MEND_LOOKS).await;
    let (item, _, attempt) = fetch.await.unwrap().expect("it is found when looks succeed");
    assert_eq!((item.instance.as_str(), attempt), ("i", 1), "what was refused never was");
    let _fetch = waiting_turn(&node);
    place.asleep(&node, 1).await;
    assert_eq!(counters(&node).alerts.get(), 1, "one alert all the while");
}

#[tokio::test]
async fn an_alert_ends_after_its_shortest_time_and_enough_empty_looks() {
    for (minimum, empty_looks) in [(Duration::from_secs(2), 1), (Duration::from_millis(1), 15)] {
        let place = Place::new().await;
        let config = LongPollConfig {
            aggressive_poll_duration: minimum,
            aggressive_exit_threshold: empty_looks,
            ..quick()
        };
        let (node, _fetch) = sleeper(&place, config).await;
        let (begun, before) = (Instant::now(), counters(&node).empty_looks.get());
        assert_eq!(place.end_listeners().await, 1);
        begins(&node).await;
        ends(&node).await;
        assert!(begun.elapsed() >= minimum, "after {:?}", begun.elapsed());
        let empty = counters(&node).empty_looks.get() - before;
        assert!(empty >= u64::from(empty_looks), "after {empty} empty looks");
        place.asleep(&node, 1).await;
    }
}

/// Dispatchers that ack the first turn of whatever starts, and tell of it.
fn dispatchers(node: &PostgresProvider, number: usize) -> mpsc::UnboundedReceiver<String> {
    let (tell, told) = mpsc::unbounded_channel();
    for _ in 0..number {
        let (node, tell) = (node.clone(), tell.clone());
        tokio::spawn(async move {
            while !tell.is_closed() {
                let Some((item, token, _)) = turn(&node, HOUR, HOUR).await else { continue };
                ack(&node, &token, vec![started(&item.instance)], vec![]).await.unwrap();
                let _ = tell.send(item.instance);
            }
        });
    }
    told
}

#[tokio::test]
async fn an_alert_lasts_while_turns_are_found() {
    let place = Place::new().await;
    let producer = place.at_once().await;
    let config = LongPollConfig { aggressive_exit_threshold: 20, ..quick() }; // two seconds without a turn
    let node = place.provider(place.options(config)).await;
    let mut told = dispatchers(&node, 4);
    place.asleep(&node, 4).await;
    assert_eq!(place.end_listeners().await, 1);
    begins(&node).await;
    let begun = Instant::now();
    for n in 0.. {
        let instance = format!("i{n}");
        producer.enqueue_for_orchestrator(start(&instance), None).await.unwrap();
        assert_eq!(next(&mut told).await, instance);
        assert!(is_on(&node), "a turn was found");
        if begun.elapsed() > Duration::from_millis(2_500) {
            break;
        }
    }
    ends(&node).await;
    assert_eq!(counters(&node).alerts.get(), 2, "one of turns and one of work, all the while");
}

#[tokio::test]
async fn a_ring_that_no_look_follows_in_time_begins_an_alert() {
    let place = Place::new().await;
    let producer = place.at_once().await;
    let config = LongPollConfig { notify_delivery_timeout: Duration::from_millis(100), ..quick() };
    let node = place.provider(place.options(config)).await;
    let mut told = dispatchers(&node, 2);
    place.asleep(&node, 2).await;
    // A stranger's transaction holds up whatever claims something.
    let mut stranger = PgConnection::connect_with(place.db.connect_options()).await.unwrap();
    let lock = place.db.sql("BEGIN; LOCK TABLE bugle.kv IN ACCESS EXCLUSIVE MODE").unwrap();
    sqlx::raw_sql(lock).execute(&mut stranger).await.unwrap();
    producer.enqueue_for_orchestrator(start("first"), None).await.unwrap();
    let held = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'bugle.kv'::regclass";
    until("the look of the first ring hangs", async || place.one::<i64>(held).await == 1).await;
    let before = counters(&node).delivery_timeouts.get();
    producer.enqueue_for_orchestrator(start("second"), None).await.unwrap();
    until("the second ring is overdue", async || counters(&node).delivery_timeouts.get() > before).await;
    begins(&node).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut stranger).await.unwrap();
    let mut served = [next(&mut told).await, next(&mut told).await];
    served.sort();
    assert_eq!(served, ["first", "second"]);
    ends(&node).await;
}

#[tokio::test]
async fn a_listener_whose_session_was_ended_comes_back_and_is_rung_for() {
    let place = Place::new().await;
    let producer = place.at_once().await;
    let (node, fetch) = sleeper(&place, quick()).await;
    let counters = counters(&node);
    assert_eq!(place.end_listeners().await, 1);
    until("it is back", async || counters.connects.get() == 2).await;
    assert_eq!(counters.disconnects.get(), 1);
    place.asleep(&node, 1).await;
    let looks = counters.looks_by(Why::Ring);
    producer.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    served(fetch, "i").await;
    assert_eq!(counters.looks_by(Why::Ring), looks + 1);
}

#[tokio::test]
async fn without_its_listener_a_node_polls_until_it_has_one_again() {
    let place = Place::new().await;
    let (producer, proxy) = (place.at_once().await, place.proxy().await);
    let node = place.heard_through(&proxy, quick()).await;
    let mut told = dispatchers(&node, 2);
    place.asleep(&node, 2).await;
    let cut = proxy.set(Fault::cut(Cut::Reset)); // also every new connection
    cut.has_hit(1).await;
    begins(&node).await;
    for instance in ["a", "b", "c"] {
        producer.enqueue_for_orchestrator(start(instance), None).await.unwrap();
        assert_eq!(next(&mut told).await, instance, "nobody can ring, and it is found");
    }
    cut.has_hit(3).await;
    begins(&node).await;
    assert!(!node.node().unwrap().status().listening);
    assert_eq!(counters(&node).rings.get(), 0);
    proxy.heal();
    place.asleep(&node, 2).await;
    producer.enqueue_for_orchestrator(start("d"), None).await.unwrap();
    assert_eq!(next(&mut told).await, "d");
    assert_eq!(counters(&node).rings.get(), 1, "it is rung for again");
}
