//! Every figure moves when its thing happens, and by as much.

use crate::fixture::{
    HOUR, NOW, Place, SOON, ack, activity, begin, patient, raised, start, started, turn, until, work,
};
use bugle_duroxide::{LongPollConfig, Metrics, PostgresProvider, Value, Why};
use duroxide::providers::Provider as _;
use std::time::Duration;
use tokio::task::JoinHandle;

fn looks(metrics: &Metrics, why: Why) -> u64 {
    metrics.wakes.iter().find(|(known, _)| *known == why).unwrap().1
}

/// What the engine counts under a name.
fn engine(metrics: &Metrics, name: &str) -> u64 {
    metrics.engine.iter().find(|(known, ..)| *known == name).unwrap().1
}

/// A node in which one fetch of a turn sleeps.
async fn sleeper(place: &Place, config: LongPollConfig) -> (PostgresProvider, JoinHandle<bool>) {
    let node = place.provider(place.options(config)).await;
    let fetch = wait(&node);
    place.asleep(&node, 1).await;
    (node, fetch)
}

fn wait(node: &PostgresProvider) -> JoinHandle<bool> {
    let node = node.clone();
    tokio::spawn(async move { turn(&node, HOUR, SOON).await.is_some() })
}

/// Every look has one reason.
fn adds_up(node: &PostgresProvider) {
    let metrics = node.metrics();
    let all: u64 = metrics.wakes.iter().map(|(_, looks)| looks).sum();
    assert_eq!(all, engine(&metrics, "looks"), "{:?}", metrics.wakes);
}

#[tokio::test]
async fn fetches_are_counted_by_kind_and_by_what_came_of_them() {
    let place = Place::new().await;
    let node = place.waiting().await;
    assert!(turn(&node, HOUR, NOW).await.is_none());
    node.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    node.enqueue_for_worker(activity("i", 1, None)).await.unwrap();
    let (_, token, _) = turn(&node, HOUR, NOW).await.unwrap();
    ack(&node, &token, vec![started("i")], vec![]).await.unwrap();
    let (_, token, _) = work(&node, HOUR, SOON).await.unwrap();
    node.ack_work_item(&token, None).await.unwrap();
    assert!(work(&node, HOUR, Duration::from_millis(20)).await.is_none());
    let metrics = node.metrics();
    let counts = |kind: &bugle_duroxide::KindMetrics| {
        [
            kind.fetches,
            kind.fetches_waited,
            kind.fetches_empty,
            kind.fetches_failed,
            kind.acks,
            kind.leases_lost,
        ]
    };
    assert_eq!(counts(&metrics.turns), [2, 0, 1, 0, 1, 0]);
    assert_eq!(counts(&metrics.work), [2, 2, 1, 0, 1, 0]);
    assert_eq!((metrics.turns.claim_latency.count, metrics.work.claim_latency.count), (1, 1));
    adds_up(&node);
}

#[tokio::test]
async fn a_fetch_that_fails_is_counted_as_such() {
    let place = Place::new().await;
    let node = place.at_once().await;
    place.execute("DROP FUNCTION bugle.claim_turns").await;
    assert!(node.fetch_orchestration_item(HOUR, NOW, None).await.is_err());
    let turns = node.metrics().turns;
    assert_eq!((turns.fetches, turns.fetches_empty, turns.fetches_failed), (1, 0, 1));
}

#[tokio::test]
async fn a_ring_is_a_wake_and_so_is_a_timer() {
    let place = Place::new().await;
    let producer = place.at_once().await;
    let (node, fetch) = sleeper(&place, patient()).await;
    let before = node.metrics();
    assert!(before.listening && !before.on_alert && before.waiting == 1);
    producer.enqueue_for_orchestrator(start("now"), None).await.unwrap();
    assert!(fetch.await.unwrap());
    let rung = node.metrics();
    assert_eq!(looks(&rung, Why::Ring) - looks(&before, Why::Ring), 1);
    assert_eq!(engine(&rung, "rings") - engine(&before, "rings"), 1);
    assert_eq!(rung.wake_latency.count - before.wake_latency.count, 1);
    // The ring tells when it is due; that it is due is told by the timer.
    producer.enqueue_for_orchestrator(start("later"), Some(Duration::from_millis(400))).await.unwrap();
    let fetch = wait(&node);
    assert!(fetch.await.unwrap());
    assert!(looks(&node.metrics(), Why::Timer) > looks(&rung, Why::Timer));
    adds_up(&node);
}

/// Messages and work are claimed when they are due, and how much later that is, is by the database's clock.
#[tokio::test]
async fn the_latency_of_a_claim_counts_from_when_it_was_due() {
    let place = Place::new().await;
    let node = place.at_once().await;
    node.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    node.enqueue_for_worker(activity("i", 1, None)).await.unwrap();
    place
        .execute("UPDATE bugle.message SET due = due - interval '1 hour'; UPDATE bugle.inbox SET due = due - interval '1 hour'; UPDATE bugle.work SET due = due - interval '1 hour'")
        .await;
    let (_, turn_token, _) = turn(&node, HOUR, NOW).await.unwrap();
    let (_, work_token, _) = work(&node, HOUR, NOW).await.unwrap();
    let metrics = node.metrics();
    for late in [&metrics.turns.claim_latency, &metrics.work.claim_latency] {
        assert_eq!(
            (late.count, late.at_most.last().map(|(_, n)| *n)),
            (1, Some(0)),
            "longer than any length"
        );
        assert!((HOUR..HOUR + SOON).contains(&late.sum), "{late:?}");
    }
    // What comes back has been claimed before: its time says nothing about this node.
    node.abandon_orchestration_item(&turn_token, None, false).await.unwrap();
    node.abandon_work_item(&work_token, None, false).await.unwrap();
    assert!(turn(&node, HOUR, NOW).await.is_some() && work(&node, HOUR, NOW).await.is_some());
    let again = node.metrics();
    assert_eq!(again.turns.claim_latency, metrics.turns.claim_latency);
    assert_eq!(again.work.claim_latency, metrics.work.claim_latency);
}

#[tokio::test]
async fn the_end_of_a_lease_is_a_timer_and_the_lost_lease_is_counted() {
    let place = Place::new().await;
    let (slow, node) = (place.at_once().await, place.waiting().await);
    slow.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    slow.enqueue_for_worker(activity("i", 1, None)).await.unwrap();
    let lease = Duration::from_secs(3); // long enough for the node to fall asleep before, on a busy machine as well
    let (_, turn_token, _) = turn(&slow, lease, NOW).await.unwrap();
    let (_, work_token, _) = work(&slow, lease, NOW).await.unwrap();
    let before = node.metrics();
    let (turned, worked) = tokio::join!(turn(&node, HOUR, SOON), work(&node, HOUR, SOON));
    assert!(turned.is_some() && worked.is_some());
    assert!(looks(&node.metrics(), Why::Timer) - looks(&before, Why::Timer) >= 2, "one of each kind");
    assert!(ack(&slow, &turn_token, vec![started("i")], vec![]).await.is_err());
    assert!(slow.renew_orchestration_item_lock(&turn_token, HOUR).await.is_err());
    assert!(slow.ack_work_item(&work_token, None).await.is_err());
    let metrics = slow.metrics();
    assert_eq!((metrics.turns.leases_lost, metrics.turns.acks), (2, 0));
    assert_eq!((metrics.work.leases_lost, metrics.work.acks), (1, 0));
    assert!(slow.ack_work_item("no token", None).await.is_err());
    assert_eq!(slow.metrics().work.leases_lost, 1, "that was none");
    adds_up(&node);
}

#[tokio::test]
async fn work_that_nobody_rang_for_is_a_fallback_hit_of_the_heartbeat() {
    let place = Place::new().await;
    let config = LongPollConfig { fallback_poll_interval: Duration::from_secs(1), ..patient() };
    let node = place.provider(place.options(config)).await;
    let fetch = wait(&node);
    until("the node sleeps", async || node.metrics().listening && looks(&node.metrics(), Why::Heartbeat) > 0)
        .await;
    let before = node.metrics();
    place
        .execute("BEGIN; SET LOCAL bugle.ring = 'off'; SELECT bugle.enqueue_message('i', 'start', '{}', '0'); COMMIT")
        .await;
    assert!(fetch.await.unwrap());
    assert!(looks(&node.metrics(), Why::Heartbeat) > looks(&before, Why::Heartbeat));
    until("it is an alarm", async || engine(&node.metrics(), "fallback_hits") == 1).await;
    assert_eq!(engine(&node.metrics(), "alerts"), 1);
    adds_up(&node);
}

#[tokio::test]
async fn a_listener_that_is_lost_comes_back_and_everybody_looks() {
    let place = Place::new().await;
    let (node, fetch) = sleeper(&place, patient()).await;
    let before = node.metrics();
    assert_eq!((engine(&before, "connects"), engine(&before, "disconnects")), (1, 0));
    place.one::<bool>("SELECT bool_and(pg_terminate_backend(pid)) FROM bugle.seat").await;
    until("it listens again", async || {
        let now = node.metrics();
        now.listening
            && engine(&now, "connects") == 2
            && looks(&now, Why::Connected) > looks(&before, Why::Connected)
    })
    .await;
    let after = node.metrics();
    assert_eq!(engine(&after, "disconnects"), 1);
    assert!(after.on_alert && looks(&after, Why::Alert) > 0, "a fault is followed by short polls");
    fetch.abort();
    adds_up(&node);
}

#[tokio::test]
async fn a_history_is_a_miss_where_it_was_not_written_and_a_hit_where_it_was() {
    let place = Place::new().await;
    let one = place.at_once().await;
    begin(&one, "i", vec![started("i")]).await;
    assert_eq!((one.metrics().history_hits, one.metrics().history_misses), (0, 0), "it had none to read");
    assert_eq!((one.metrics().histories, one.metrics().history_bytes > 0), (1, true));
    let claim = async |node: &PostgresProvider| {
        one.enqueue_for_orchestrator(raised("i", "go"), None).await.unwrap();
        let (item, token, _) = turn(node, HOUR, NOW).await.unwrap();
        assert_eq!(item.history.len(), 1);
        ack(node, &token, vec![], vec![]).await.unwrap();
        (node.metrics().history_hits, node.metrics().history_misses)
    };
    assert_eq!(claim(&one).await, (1, 0));
    let restarted = place.at_once().await;
    assert_eq!(claim(&restarted).await, (0, 1), "its memory is empty");
    assert_eq!(claim(&restarted).await, (1, 1));
    assert_eq!(restarted.read("i").await.unwrap().len(), 1);
    assert_eq!(restarted.metrics().history_hits, 2, "nothing was new");
}

#[tokio::test]
async fn stats_count_what_is_ready_leased_later_and_unbegun() {
    let place = Place::new().await;
    let node = place.at_once().await;
    assert_eq!(node.stats().await.unwrap(), bugle_duroxide::Stats::default());
    begin(&node, "running", vec![started("running")]).await;
    node.enqueue_for_orchestrator(start("leased"), None).await.unwrap();
    assert!(turn(&node, HOUR, NOW).await.is_some());
    node.enqueue_for_orchestrator(start("ready"), None).await.unwrap();
    place.execute("UPDATE bugle.inbox SET due = due - interval '1 hour' WHERE instance = 'ready'").await;
    node.enqueue_for_orchestrator(start("later"), Some(HOUR)).await.unwrap();
    for id in [1, 2, 3] {
        node.enqueue_for_worker(activity("running", id, None)).await.unwrap();
    }
    assert!(work(&node, HOUR, NOW).await.is_some());
    let stats = node.stats().await.unwrap();
    let depth = |depth: bugle_duroxide::Depth| [depth.ready, depth.leased, depth.later];
    assert_eq!((stats.instances.running, stats.instances.completed, stats.messages), (1, 0, 3));
    assert_eq!((depth(stats.turns), depth(stats.work)), ([1, 1, 1], [2, 1, 0]));
    assert!(stats.turns.oldest.unwrap() >= HOUR && stats.work.oldest.unwrap() < HOUR);
    let table = stats.table();
    let of =
        |name, label| table.iter().find(|m| m.name == name && m.label == Some(label)).unwrap().value.clone();
    assert_eq!(of("work", ("state", "ready")), Value::Gauge(2));
    assert_eq!(of("oldest_seconds", ("kind", "turns")), Value::Time(stats.turns.oldest.unwrap()));
    // What comes before its start waits for it.
    node.enqueue_for_orchestrator(raised("nobody", "go"), None).await.unwrap();
    assert!(turn(&node, HOUR, NOW).await.is_some(), "the ready one");
    assert!(turn(&node, HOUR, NOW).await.is_none());
    assert_eq!(node.stats().await.unwrap().unbegun, 1);
}
