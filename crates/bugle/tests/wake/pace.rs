//! When rings come fast the node stays awake instead, and nobody rings for it.
use crate::fixture::{Place, until};
use crate::node::{HOUR, counters, status};
use bugle::jobs::Claimed;
use bugle::{Bugle, Ctx};
use bugle_wake::Why;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A worker that counts its jobs, asleep with the bell.
pub(crate) async fn counting(p: &Place, node: &Bugle) -> (Arc<AtomicU64>, CancellationToken) {
    let (done, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
    let worker = node.worker("q").handle_any({
        let done = done.clone();
        move |_: Claimed, _: Ctx| {
            done.fetch_add(1, Ordering::Relaxed);
            async {}
        }
    });
    tokio::spawn(worker.run(stop.clone()));
    until("it waits", async || node.node().is_some()).await;
    p.until_sentinel(node).await;
    p.until_second_look(node).await;
    (done, stop)
}

async fn until_done(done: &AtomicU64, n: u64) {
    until("all are done", async || done.load(Ordering::Relaxed) == n).await;
}

/// Pushes so fast that rings come while it is still busy with what came before, until it lets go. How many there were?
pub(crate) async fn hurry(p: &Place, node: &Bugle) -> u64 {
    let mut pushed = 0;
    while counters(node).seats_left.get() == 0 {
        futures_util::future::join_all((0..8).map(|_| p.push())).await;
        pushed += 8;
        assert!(pushed < 2000, "it never let go");
    }
    pushed
}

#[tokio::test]
async fn a_burst_of_its_own_pushes_makes_a_node_let_go_and_the_pushes_ring_no_more() {
    let p = Place::new().await;
    let node = p.node_with(|options| options.wake.times.linger = HOUR).await;
    let mut ear = p.ear().await;
    let (done, stop) = counting(&p, &node).await;
    let payload = || serde_json::from_str("1").unwrap();
    for n in 1..=20 {
        node.enqueue_raw("q", "k", payload()).send().await.unwrap();
        until_done(&done, n).await;
    }
    p.until_nobody_sits().await;
    assert!(ear.heard().await.len() >= 10, "each of the first found it asleep");
    for _ in 0..50 {
        node.enqueue_raw("q", "k", payload()).send().await.unwrap();
    }
    until_done(&done, 70).await;
    assert_eq!(ear.heard().await, [""; 0]);
    assert!(counters(&node).looks_by(Why::Local) > 0, "it woke itself in memory");
    stop.cancel();
}

#[tokio::test]
async fn sustained_fast_rings_keep_a_node_awake_and_then_producers_do_not_ring() {
    let p = Place::new().await;
    let node = p.node_with(|options| options.wake.times.linger = HOUR).await;
    let mut ear = p.ear().await;
    let (done, stop) = counting(&p, &node).await;
    let pushed = hurry(&p, &node).await;
    p.until_nobody_sits().await;
    until_done(&done, pushed).await;
    assert!(ear.heard().await.len() >= 10);
    for _ in 0..50 {
        p.push().await;
    }
    until_done(&done, pushed + 50).await;
    assert_eq!(ear.heard().await, [""; 0]);
    assert!(counters(&node).looks_by(Why::Linger) > 0);
    stop.cancel();
}

#[tokio::test]
async fn after_the_burst_it_sits_again_and_the_next_push_rings() {
    let p = Place::new().await;
    let node = p.node_with(|options| options.wake.times.linger = Duration::from_millis(500)).await;
    let mut ear = p.ear().await;
    let (done, stop) = counting(&p, &node).await;
    let pushed = hurry(&p, &node).await;
    until_done(&done, pushed).await;
    p.until_sentinel(&node).await;
    assert_eq!(status(&node).seats.sentinel, [p.bucket]);
    ear.heard().await;
    p.push().await;
    until_done(&done, pushed + 1).await;
    assert_eq!(ear.heard().await.len(), 1);
    stop.cancel();
}

#[tokio::test]
async fn slow_rings_keep_the_bell_and_a_wake_costs_one_look() {
    let p = Place::new().await;
    let node = p.node_with(|options| options.wake.times.linger = Duration::ZERO).await;
    let (done, stop) = counting(&p, &node).await;
    for n in 1..=20 {
        p.push().await;
        until_done(&done, n).await;
    }
    assert_eq!(counters(&node).bells_taken.get(), 1);
    assert_eq!(counters(&node).seats_left.get(), 0);
    assert_eq!(counters(&node).rings.get(), 20);
    stop.cancel();
}

#[tokio::test]
async fn a_peer_is_told_when_a_node_lets_go_because_of_fast_rings() {
    let p = Place::new().await;
    let (one, two) = (p.node_with(|options| options.wake.times.linger = HOUR).await, p.node().await);
    let (done, stop) = counting(&p, &one).await;
    p.execute("SELECT bugle.declare_queue('q' || n) FROM generate_series(2, 64) AS n").await;
    let neighbour = crate::node::Waiter::on(&two, "twin").await;
    p.until_reserve(&two).await;
    let pushed = hurry(&p, &one).await;
    until_done(&done, pushed).await;
    p.until_sentinel(&two).await;
    assert_eq!(status(&one).seats.sentinel, [0; 0]);
    let id = p.push_to("twin").await;
    assert_eq!(neighbour.job().await.id.0, id);
    stop.cancel();
}
