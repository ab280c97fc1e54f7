//! Whatever becomes runnable by time or by hand wakes whoever sleeps, on time and never early.

use crate::fixture::{HOUR, NOW, Place, SOON, activity, begin, raised, start, started, turn, work};
use bugle_duroxide::PostgresProvider;
use duroxide::EventKind;
use duroxide::providers::{ExecutionMetadata, Provider as _, SessionFetchConfig, TagFilter, WorkItem};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// So late may a wake be on a machine that is busy with other tests; the heartbeat is at least seven seconds away.
const LATE: Duration = Duration::from_secs(5);

/// A fetch that sleeps in a node of its own, and when it returned.
async fn sleeping_turn(place: &Place) -> (PostgresProvider, tokio::task::JoinHandle<(String, Instant)>) {
    let node = place.waiting().await;
    let fetch = tokio::spawn({
        let node = node.clone();
        async move { (turn(&node, HOUR, SOON).await.expect("it was woken").0.instance, Instant::now()) }
    });
    place.asleep(&node, 1).await;
    (node, fetch)
}

async fn sleeping_work(place: &Place) -> (PostgresProvider, tokio::task::JoinHandle<Instant>) {
    let node = place.waiting().await;
    let fetch = tokio::spawn({
        let node = node.clone();
        async move {
            work(&node, HOUR, SOON).await.expect("it was woken");
            Instant::now()
        }
    });
    place.asleep(&node, 1).await;
    (node, fetch)
}

#[track_caller]
fn on_time(woken: Instant, since: Instant, due: Duration) {
    let after = woken.duration_since(since);
    assert!(after >= due, "early: after {after:?} instead of {due:?}");
    assert!(after < due + LATE, "late: after {after:?} instead of {due:?}");
}

const DELAY: Duration = Duration::from_millis(700);

#[tokio::test]
async fn a_timer_fires_on_time() {
    let place = Place::new().await;
    let other = place.at_once().await;
    other.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    let (_, token, _) = turn(&other, HOUR, NOW).await.unwrap();
    let (_node, fetch) = sleeping_turn(&place).await;
    let begun = Instant::now();
    let fire_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + DELAY;
    let fire_at_ms = u64::try_from(fire_at.as_millis()).unwrap();
    let timer = WorkItem::TimerFired { instance: "i".to_owned(), execution_id: 1, id: 2, fire_at_ms };
    let created = crate::fixture::event("i", 2, EventKind::TimerCreated { fire_at_ms });
    crate::fixture::ack(&other, &token, vec![started("i"), created], vec![timer]).await.unwrap();
    let (instance, woken) = fetch.await.unwrap();
    assert_eq!(instance, "i");
    on_time(woken, begun, DELAY.saturating_sub(Duration::from_millis(1))); // fire_at is cut to milliseconds
}

#[tokio::test]
async fn the_second_timer_is_not_forgotten_for_the_first() {
    let place = Place::new().await;
    let producer = place.at_once().await;
    let node = place.waiting().await;
    let begun = Instant::now();
    producer.enqueue_for_orchestrator(start("late"), Some(DELAY * 2)).await.unwrap();
    producer.enqueue_for_orchestrator(start("soon"), Some(DELAY)).await.unwrap();
    for (instance, due) in [("soon", DELAY), ("late", DELAY * 2)] {
        assert_eq!(turn(&node, HOUR, SOON).await.unwrap().0.instance, instance);
        on_time(Instant::now(), begun, due);
    }
}

/// Whoever sleeps until a later one hears of it.
#[tokio::test]
async fn an_earlier_timer_that_comes_later_fires_at_its_own_time() {
    let place = Place::new().await;
    let producer = place.at_once().await;
    producer.enqueue_for_orchestrator(start("late"), Some(HOUR)).await.unwrap();
    let (_node, fetch) = sleeping_turn(&place).await;
    let begun = Instant::now();
    producer.enqueue_for_orchestrator(start("soon"), Some(DELAY)).await.unwrap();
    let (instance, woken) = fetch.await.unwrap();
    assert_eq!(instance, "soon");
    on_time(woken, begun, DELAY);
}

#[tokio::test]
async fn a_turn_that_is_given_back_wakes_at_once_or_after_its_delay() {
    for delay in [None, Some(DELAY)] {
        let place = Place::new().await;
        let other = place.at_once().await;
        other.enqueue_for_orchestrator(start("i"), None).await.unwrap();
        let (_, token, _) = turn(&other, HOUR, NOW).await.unwrap();
        let (_node, fetch) = sleeping_turn(&place).await;
        let begun = Instant::now();
        other.abandon_orchestration_item(&token, delay, false).await.unwrap();
        on_time(fetch.await.unwrap().1, begun, delay.unwrap_or_default());
    }
}

#[tokio::test]
async fn work_that_is_given_back_wakes_at_once_or_after_its_delay() {
    for delay in [None, Some(DELAY)] {
        let place = Place::new().await;
        let other = place.at_once().await;
        other.enqueue_for_worker(activity("i", 1, None)).await.unwrap();
        let (_, token, _) = work(&other, HOUR, NOW).await.unwrap();
        let (_node, fetch) = sleeping_work(&place).await;
        let begun = Instant::now();
        other.abandon_work_item(&token, delay, false).await.unwrap();
        on_time(fetch.await.unwrap(), begun, delay.unwrap_or_default());
    }
}

#[tokio::test]
async fn the_leases_of_a_dead_node_end_on_time() {
    let place = Place::new().await;
    let dead = place.at_once().await;
    let lease = Duration::from_secs(2);
    dead.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    dead.enqueue_for_worker(activity("i", 1, None)).await.unwrap();
    let begun = Instant::now();
    turn(&dead, lease, NOW).await.unwrap();
    work(&dead, lease, NOW).await.unwrap();
    drop(dead);
    let node = place.waiting().await;
    let ((item, _, attempt), (_, _, work_attempt)) =
        tokio::join!(async { turn(&node, HOUR, SOON).await.expect("the turn comes back") }, async {
            work(&node, HOUR, SOON).await.expect("the work comes back")
        });
    on_time(Instant::now(), begun, lease);
    assert_eq!((item.instance.as_str(), attempt, work_attempt), ("i", 2, 2));
}

#[tokio::test]
async fn a_lease_that_is_shortened_ends_on_time() {
    let place = Place::new().await;
    let other = place.at_once().await;
    other.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    let (_, token, _) = turn(&other, HOUR, NOW).await.unwrap();
    let (_node, fetch) = sleeping_turn(&place).await;
    let begun = Instant::now();
    other.renew_orchestration_item_lock(&token, DELAY).await.unwrap();
    on_time(fetch.await.unwrap().1, begun, DELAY);
}

#[tokio::test]
async fn work_of_a_session_is_anybodys_when_the_session_ends() {
    let place = Place::new().await;
    let dead = place.at_once().await;
    let session = |owner: &str, lease| SessionFetchConfig { owner_id: owner.to_owned(), lock_timeout: lease };
    let until_end = Duration::from_secs(2);
    for id in [1, 2] {
        dead.enqueue_for_worker(activity("i", id, Some("s"))).await.unwrap();
    }
    let begun = Instant::now();
    let claimed = dead
        .fetch_work_item(HOUR, NOW, Some(&session("dead", until_end)), &TagFilter::default())
        .await
        .unwrap();
    assert!(claimed.is_some());
    let node = place.waiting().await;
    let heir = session("heir", HOUR);
    let (item, ..) = node
        .fetch_work_item(HOUR, SOON, Some(&heir), &TagFilter::default())
        .await
        .unwrap()
        .expect("the session ended");
    on_time(Instant::now(), begun, until_end);
    assert_eq!(item, activity("i", 2, Some("s")));
}

/// What arrives during a turn is due when the turn ends, for whoever sleeps.
#[tokio::test]
async fn what_came_during_a_turn_wakes_at_its_end() {
    let place = Place::new().await;
    let other = place.at_once().await;
    begin(&other, "i", vec![started("i")]).await;
    other.enqueue_for_orchestrator(raised("i", "first"), None).await.unwrap();
    let (_, token, _) = turn(&other, HOUR, NOW).await.unwrap();
    other.enqueue_for_orchestrator(raised("i", "second"), None).await.unwrap();
    let (_node, fetch) = sleeping_turn(&place).await;
    let begun = Instant::now();
    let none = ExecutionMetadata::default();
    other.ack_orchestration_item(&token, 1, vec![], vec![], vec![], none, vec![]).await.unwrap();
    on_time(fetch.await.unwrap().1, begun, Duration::ZERO);
}
