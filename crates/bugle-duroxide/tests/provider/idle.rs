//! What a runtime with nothing to do costs, counted in statements.

use crate::fixture::{Place, counters, patient, until};
use crate::runtime::runtime;
use bugle_duroxide::PostgresProvider;
use std::time::Duration;

/// Dispatchers of a runtime.
const DISPATCHERS: usize = 8;
/// A heartbeat: does the listener live, and a look for turns and one for work, however many dispatchers there are.
const BEAT_STATEMENTS_MAX: i64 = 3;

/// Statements that name this schema.
async fn sent(place: &Place) -> i64 {
    place.db.statements(&["bugle."]).await.unwrap()
}

fn beats(node: &PostgresProvider) -> i64 {
    i64::try_from(counters(node).heartbeats.get()).unwrap()
}

#[tokio::test]
async fn an_idle_runtime_is_silent_between_heartbeats() {
    let place = Place::new().await;
    let node = place.waiting().await;
    let runtime = runtime(&node).await;
    place.asleep(&node, DISPATCHERS).await;
    assert!(node.node().unwrap().status().sleeps.is_empty(), "until the heartbeat and nothing else");
    // A count takes its time: beats meanwhile are to be among those that may have sent what is counted.
    let beats_before = beats(&node);
    let sent_before = sent(&place).await;
    tokio::time::sleep(Duration::from_secs(2)).await; // the only way to see that nothing happens
    place.asleep(&node, DISPATCHERS).await;
    let sent = sent(&place).await - sent_before;
    let beats = beats(&node) - beats_before;
    assert!(sent <= BEAT_STATEMENTS_MAX * beats, "{sent} statements, {beats} heartbeats");
    runtime.shutdown(Some(1_000)).await;
}

#[tokio::test]
async fn a_heartbeat_of_an_idle_runtime_is_three_statements_at_most() {
    let place = Place::new().await;
    let config = patient();
    let config = config.fallback_interval(Duration::from_millis(500));
    let node = place.provider(place.options(config)).await;
    let runtime = runtime(&node).await;
    place.asleep(&node, DISPATCHERS).await;
    // A count takes its time: at most the beats around both counts have sent what is counted, and at least those between them.
    let first = beats(&node);
    let sent_before = sent(&place).await;
    let from = beats(&node);
    until("its heart beats", async || beats(&node) >= from + 4).await;
    let to = beats(&node);
    let sent = sent(&place).await - sent_before;
    let last = beats(&node);
    // One may have begun before the first count, and the last one be on its way.
    assert!(sent <= BEAT_STATEMENTS_MAX * (last - first + 1), "{sent} statements in {first}..{last}");
    assert!(sent >= to - from - 1, "{sent} statements in {from}..{to}");
    runtime.shutdown(Some(1_000)).await;
}
