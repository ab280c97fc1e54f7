//! Alert: what enters it, how it looks meanwhile, and what it takes to leave. The faults are real.
use crate::fixture::{HOUR, Place, Running, SOON, node, until};
use bugle::Bugle;
use bugle_testkit::postgres::{Backend, terminate_backend};
use bugle_testkit::proxy::{Cut, Fault};
use bugle_wake::{Options, Policy, Why};
use sqlx::Connection as _;
use std::time::{Duration, Instant};

const MINIMUM: Duration = Duration::from_millis(300);

/// Alerts that a test can wait for.
fn quick(options: &mut Options) {
    options.times.alert_interval = Duration::from_millis(20);
    options.times.alert_minimum = MINIMUM;
    options.alert_empty_looks = 3;
}

async fn is_on(bugle: &Bugle) {
    until("it is on alert", async || node(bugle).status().alert).await;
}

/// It leaves, and is asleep afterwards.
async fn leaves(place: &Place, bugle: &Bugle) {
    until("the alert is over", async || !node(bugle).status().alert).await;
    place.asleep(bugle, 1).await;
}

/// A node with a worker, asleep.
async fn sleeper(place: &Place) -> (Bugle, Running) {
    let bugle = place.node(quick).await;
    let worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    assert_eq!(node(&bugle).counters().alerts.get(), 0);
    (bugle, worker)
}

const BREAK_LOOKS: &str = "ALTER TABLE bugle.cursor RENAME TO cursor_away";
const MEND_LOOKS: &str = "ALTER TABLE bugle.cursor_away RENAME TO cursor";

#[tokio::test]
async fn looks_that_are_refused_enter_and_hold_it_and_the_work_is_found_when_they_succeed() {
    let place = Place::new().await;
    let (bugle, mut worker) = sleeper(&place).await;
    let counters = node(&bugle).counters();
    place.execute(BREAK_LOOKS).await;
    let id = place.enqueue("q", 1).await[0];
    is_on(&bugle).await;
    let begun = Instant::now();
    until("it keeps trying, longer than the minimum", async || {
        assert!(node(&bugle).status().alert, "it stays while looks fail");
        counters.failed_looks.get() >= 4 && begun.elapsed() > 3 * MINIMUM
    })
    .await;
    place.execute(MEND_LOOKS).await;
    assert_eq!(worker.next().await.id, id);
    leaves(&place, &bugle).await;
    assert_eq!(counters.alerts.get(), 1, "one alert all the while");
    assert!(counters.looks_by(Why::Retry) >= 4);
    worker.stop().await;
}

#[tokio::test]
async fn a_look_whose_session_is_ended_enters_and_is_repeated() {
    let place = Place::new().await;
    let (bugle, mut worker) = sleeper(&place).await;
    let stranger = place.hold_claims("q").await;
    let id = place.enqueue("q", 1).await[0];
    place.claims_held(1).await;
    let pid: i32 = place
        .one("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND classid::bigint = bugle.claim_class()::bigint & 4294967295")
        .await;
    assert_eq!(terminate_backend(place.db.connect_options(), Backend::Pid(pid)).await.unwrap(), 1);
    is_on(&bugle).await;
    stranger.goes().await;
    let job = worker.next().await;
    assert_eq!((job.id, job.attempt), (id, 1));
    assert!(node(&bugle).counters().failed_looks.get() >= 1);
    leaves(&place, &bugle).await;
    worker.stop().await;
}

#[tokio::test]
async fn a_node_without_its_listener_polls_at_the_pace_of_the_alert() {
    let place = Place::new().await;
    let proxy = place.proxy().await;
    // Longer than a listener waits before it tries again: each time that it fails is a reason to be on alert.
    let stay = |options: &mut Options| {
        quick(options);
        options.times.alert_minimum = Duration::from_secs(3);
    };
    let bugle = place.node_with(Some(proxy.rewrite(place.db.connect_options())), stay).await;
    let mut worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    let counters = node(&bugle).counters();

    let cut = proxy.set(Fault::cut(Cut::Reset)); // also every new connection
    cut.has_hit(1).await;
    is_on(&bugle).await;
    for _ in 0..3 {
        let id = place.enqueue("q", 1).await[0];
        assert_eq!(worker.next().await.id, id, "the heartbeat is an hour away");
    }
    let looks = counters.looks_by(Why::Alert);
    until("it looks and looks", async || counters.looks_by(Why::Alert) > looks + 10).await;
    cut.has_hit(3).await;
    let status = node(&bugle).status();
    assert!(status.alert && !status.listening, "it stays while the listener is away: {status:?}");

    proxy.heal();
    leaves(&place, &bugle).await;
    let rings = counters.rings.get();
    place.enqueue("q", 1).await;
    worker.next().await;
    until("it is rung for again", async || counters.rings.get() == rings + 1).await;
    worker.stop().await;
}

#[tokio::test]
async fn a_listener_whose_session_was_ended_comes_back_and_is_rung_for() {
    let place = Place::new().await;
    let (bugle, mut worker) = sleeper(&place).await;
    let counters = node(&bugle).counters();
    assert_eq!(place.end_listeners().await, 1);
    until("it is back", async || counters.connects.get() == 2).await;
    assert_eq!((counters.disconnects.get(), counters.alerts.get()), (1, 1));
    leaves(&place, &bugle).await;
    assert!(counters.looks_by(Why::Connected) >= 1 || counters.looks_by(Why::Alert) >= 1);
    place.enqueue("q", 1).await;
    worker.next().await;
    assert_eq!(counters.looks_by(Why::Ring), 1);
    worker.stop().await;
}

#[tokio::test]
async fn what_came_while_the_listener_was_away_is_found_when_it_is_back() {
    let place = Place::new().await;
    let proxy = place.proxy().await;
    let bugle = place
        .node_with(Some(proxy.rewrite(place.db.connect_options())), |options| {
            let times = &mut options.times;
            (times.alert_interval, times.poll_busy, times.poll_quiet, times.poll_idle) =
                (HOUR, HOUR, HOUR, HOUR);
        })
        .await;
    let mut worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    let cut = proxy.set(Fault::cut(Cut::Reset));
    cut.has_hit(4).await; // the pause before the next try is long by now
    cut.lift();
    let id = place.enqueue("q", 1).await[0];
    assert_eq!(worker.next().await.id, id, "a connection wakes everybody");
    worker.stop().await;
}

#[tokio::test]
async fn a_ring_that_no_look_answers_in_time_enters() {
    let place = Place::new().await;
    let (bugle, mut worker) = sleeper(&place).await;
    let counters = node(&bugle).counters();
    let stranger = place.hold_claims("q").await;
    place.enqueue("q", 1).await;
    place.claims_held(1).await; // the look of the first ring hangs
    assert_eq!(counters.delivery_timeouts.get(), 0);
    place.enqueue("q", 1).await;
    until("the second ring is overdue", async || counters.delivery_timeouts.get() == 1).await;
    is_on(&bugle).await;
    stranger.goes().await;
    worker.next().await;
    worker.next().await;
    leaves(&place, &bugle).await;
    assert_eq!(counters.delivery_timeouts.get(), 1, "told once");
    worker.stop().await;
}

#[tokio::test]
async fn more_notifications_than_are_read_one_by_one_enter_and_everybody_looks() {
    let place = Place::new().await;
    let bugle = place
        .node(|options| {
            quick(options);
            options.times.answer_within = SOON * 4;
        })
        .await;
    let mut worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    let counters = node(&bugle).counters();
    let channel: String = place.one("SELECT bugle.bell_channel()").await;
    let notify = "SELECT count(pg_notify($1, $2 || n)) FROM generate_series(1, $3) AS n";

    // The listener's session hangs in the answer to a control ring; whatever is rung meanwhile comes all at once.
    let mut slow = place.session().await;
    let lock = "BEGIN; LOCK TABLE bugle.control IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(place.db.sql(lock).unwrap()).execute(&mut slow).await.unwrap();
    sqlx::query("SELECT pg_notify($1, '0')").bind(&channel).execute(place.db.pool()).await.unwrap();
    until("the listener waits", async || {
        place
            .one::<i64>(
                "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'bugle.control'::regclass",
            )
            .await
            == 1
    })
    .await;
    let id = place.enqueue("q", 1).await[0];
    sqlx::query(notify).bind(&channel).bind("noise").bind(12_000).execute(place.db.pool()).await.unwrap();
    sqlx::raw_sql("ROLLBACK").execute(&mut slow).await.unwrap();
    slow.close().await.unwrap();

    assert_eq!(worker.next().await.id, id, "its ring was among those thrown away");
    is_on(&bugle).await;
    assert_eq!((counters.rings.get(), counters.garbage.get()), (0, 0), "none was read");
    assert_eq!(counters.connects.get(), 1, "and the session was kept");
    leaves(&place, &bugle).await;
    worker.stop().await;
}

#[tokio::test]
async fn it_stays_while_work_is_found_and_leaves_afterwards() {
    let place = Place::new().await;
    let bugle = place
        .node(|options| {
            quick(options);
            options.alert_empty_looks = 100; // two seconds without work
        })
        .await;
    let mut worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    place.end_listeners().await;
    is_on(&bugle).await;
    let begun = Instant::now();
    while begun.elapsed() < 10 * MINIMUM {
        place.enqueue("q", 1).await;
        worker.next().await;
        assert!(node(&bugle).status().alert, "there was work");
    }
    leaves(&place, &bugle).await;
    assert_eq!(node(&bugle).counters().alerts.get(), 1);
    worker.stop().await;
}

#[tokio::test]
async fn it_leaves_only_when_the_minimum_has_passed() {
    let place = Place::new().await;
    let minimum = Duration::from_secs(2);
    let bugle = place
        .node(|options| {
            quick(options);
            options.times.alert_minimum = minimum;
        })
        .await;
    let worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    let begun = Instant::now();
    place.end_listeners().await;
    is_on(&bugle).await;
    leaves(&place, &bugle).await;
    assert!(begun.elapsed() >= minimum, "{:?}", begun.elapsed());
    worker.stop().await;
}

#[tokio::test]
async fn it_leaves_only_after_enough_empty_looks() {
    let place = Place::new().await;
    let bugle = place
        .node(|options| {
            quick(options);
            options.times.alert_minimum = Duration::from_millis(1);
            options.alert_empty_looks = 40;
        })
        .await;
    let worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    let before = place.looks().await;
    place.end_listeners().await;
    is_on(&bugle).await;
    leaves(&place, &bugle).await;
    assert!(place.looks().await - before >= 40);
    worker.stop().await;
}

/// A ring, a timer and a heartbeat happen to a node, each alone; how many alerts each of them was.
async fn plain_wakes(policy: Policy) -> [u64; 3] {
    let place = Place::new().await;
    let mut alerts = [0; 3];
    for (n, heartbeat) in [HOUR, HOUR, Duration::from_secs(1)].into_iter().enumerate() {
        let bugle = place
            .node(|options| {
                quick(options);
                options.alert = policy;
                options.times.heartbeat = heartbeat;
            })
            .await;
        let counters = || node(&bugle).counters();
        let queue = format!("q{n}");
        if n == 1 {
            place.enqueue_in(&queue, Duration::from_secs(2)).await;
        }
        let mut worker = Running::on(&bugle, &queue);
        if n == 0 {
            place.asleep(&bugle, 1).await;
            place.enqueue(&queue, 1).await;
            worker.next().await;
            assert_eq!(counters().looks_by(Why::Ring), 1);
        } else if n == 1 {
            worker.next().await;
            assert!(counters().looks_by(Why::Timer) > 0);
            assert_eq!(counters().rings.get(), 0);
        } else {
            until("it has looked", async || {
                bugle.node().is_some_and(|node| node.counters().looks_by(Why::Heartbeat) > 0)
            })
            .await;
        }
        alerts[n] = counters().alerts.get();
        assert_eq!(alerts[n] > 0, policy == Policy::OnWake, "wake {n} under {}", policy.as_str());
        if heartbeat == HOUR {
            leaves(&place, &bugle).await;
        }
        worker.stop().await;
    }
    alerts
}

#[tokio::test]
async fn under_on_wake_a_ring_a_timer_and_a_heartbeat_each_enter() {
    assert_eq!(plain_wakes(Policy::OnWake).await, [1, 1, 1]);
}

#[tokio::test]
async fn under_on_fault_no_plain_wake_enters() {
    assert_eq!(plain_wakes(Policy::OnFault).await, [0, 0, 0]);
}
