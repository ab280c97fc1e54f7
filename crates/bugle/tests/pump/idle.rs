//! What an idle node costs, counted in statements.
use crate::fixture::{HOUR, Place, Running, node, until};
use std::time::Duration;

const BEAT: Duration = Duration::from_millis(500);

/// Beats so far, once so many more have come.
async fn beats(bugle: &bugle::Bugle, n: u64) -> u64 {
    let heartbeats = &node(bugle).counters().heartbeats;
    let end = heartbeats.get() + n;
    until("the heart beats", async || heartbeats.get() >= end).await;
    heartbeats.get()
}

fn crowd(bugle: &bugle::Bugle, queues: usize) -> Vec<Running> {
    (0..queues).map(|n| Running::on(bugle, &format!("q{n}"))).collect()
}

/// An idle node sleeps until its heartbeat and until nothing else.
async fn sleeps_until_its_heartbeat_alone(queues: usize) {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let workers = crowd(&bugle, queues);
    place.asleep(&bugle, queues).await;
    let status = node(&bugle).status();
    assert!(status.sleeps.is_empty(), "{status:?}");
    place.silent(&bugle).await;
    drop(workers);
}

#[tokio::test]
async fn an_idle_node_with_one_worker_sleeps_until_its_heartbeat_and_nothing_else() {
    sleeps_until_its_heartbeat_alone(1).await;
}

#[tokio::test]
async fn an_idle_node_with_thirty_workers_sleeps_until_its_heartbeat_and_nothing_else() {
    sleeps_until_its_heartbeat_alone(30).await;
}

/// Statements of a heartbeat: the question whether the listener lives, one look for all queues, and one for all marks of a reserve.
async fn a_heartbeat_is_three_statements_at_most(queues: usize) {
    let place = Place::new().await;
    let sentinel = place.node(|_| {}).await;
    let others = crowd(&sentinel, queues);
    place.asleep(&sentinel, queues).await;
    let bugle = place.node(|options| options.times.heartbeat = BEAT).await;
    let workers = crowd(&bugle, queues);
    until("it is a reserve", async || bugle.node().is_some_and(|n| n.status().seats.reserve.len() == queues))
        .await;

    // A count takes its time: at most the beats around both counts have sent what is counted, and at least those between them.
    let first = beats(&bugle, 1).await;
    let (before, looks) = (place.statements("bugle.").await, place.looks().await);
    let from = beats(&bugle, 0).await;
    let to = beats(&bugle, 4).await;
    let (sent, looked) = (place.statements("bugle.").await - before, place.looks().await - looks);
    let last = beats(&bugle, 0).await;
    let (around, between) = (i64::try_from(last - first).unwrap(), i64::try_from(to - from).unwrap());
    // One may have begun before the first count, and the last one be on its way.
    assert!(sent <= 3 * (around + 1), "{sent} statements in {first}..{last}");
    assert!(sent >= between - 1, "{sent} statements in {from}..{to}");
    assert!(looked >= between - 1, "and each of them looks: {looked} in {from}..{to}");
    drop((others, workers));
}

#[tokio::test]
async fn a_heartbeat_of_one_queue_is_three_statements_at_most() {
    a_heartbeat_is_three_statements_at_most(1).await;
}

#[tokio::test]
async fn a_heartbeat_of_thirty_queues_is_three_statements_at_most() {
    a_heartbeat_is_three_statements_at_most(30).await;
}

#[tokio::test]
async fn a_node_without_waiters_never_looks() {
    let place = Place::new().await;
    let bugle = place.node(|options| options.times.heartbeat = BEAT).await;
    let queue = bugle.queue("q").await.unwrap();
    let none = queue.claim_within("w", 1, HOUR, Duration::from_millis(100)).await.unwrap();
    assert!(none.is_none());
    until("nothing is held", async || node(&bugle).status().listening && place.seats().await == (0, 0)).await;
    beats(&bugle, 1).await;
    let (before, looks) = (place.statements("bugle.heartbeat").await, place.looks().await);
    let beats = beats(&bugle, 4).await;
    place.enqueue("q", 10).await;
    assert_eq!(place.looks().await, looks);
    assert!(place.statements("bugle.heartbeat").await > before, "only its heart beats: {beats}");
}

#[tokio::test]
async fn a_process_that_only_enqueues_starts_no_engine() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    bugle.enqueue_raw("q", "k", crate::fixture::raw("1")).send().await.unwrap();
    assert!(bugle.node().is_none());
}
