//! Queues that share a bucket: one bell for both, and each node wants something else.
use crate::fixture::{Place, until};
use crate::node::{HOUR, Waiter, counters, status};
use crate::pace::{counting, hurry};
use bugle_wake::Why;

/// Makes the queues `q2` to `q64` and `twin`, whose number is 64 more than that of `q`.
async fn twin(p: &Place) -> i32 {
    p.execute("SELECT bugle.declare_queue('q' || n) FROM generate_series(2, 64) AS n").await;
    let number: i32 = p.one("SELECT bugle.declare_queue('twin')").await;
    assert_eq!(number, p.number + 64);
    assert_eq!(p.one::<i32>(&format!("SELECT bugle.bucket_of({number})")).await, p.bucket);
    number
}

#[tokio::test]
async fn the_ring_of_one_queue_reaches_the_node_that_wants_it() {
    let p = Place::new().await;
    twin(&p).await;
    let (one, two) = (p.node().await, p.node().await);
    let first = p.sentinel(&one).await;
    let second = Waiter::on(&two, "twin").await;
    p.until_reserve(&two).await;
    let id = p.push_to("twin").await;
    assert_eq!(second.job().await.id.0, id);
    assert!(!first.has_got_something());
    let id = p.push().await;
    assert_eq!(first.job().await.id.0, id);
    assert_eq!(counters(&one).rings.get(), 2, "the first heard both");
    assert_eq!(counters(&one).looks_by(Why::Ring), 1, "and looked for its own");
}

#[tokio::test]
async fn one_node_that_wants_both_queues_holds_one_bell_for_both() {
    let p = Place::new().await;
    twin(&p).await;
    let node = p.node().await;
    let first = p.sentinel(&node).await;
    let second = Waiter::on(&node, "twin").await;
    assert_eq!(p.seats().await, ["sentinel"]);
    let id = p.push_to("twin").await;
    assert_eq!(second.job().await.id.0, id);
    assert_eq!(p.seats().await, ["sentinel"], "the other still waits");
    let id = p.push().await;
    assert_eq!(first.job().await.id.0, id);
}

#[tokio::test]
async fn who_lets_go_because_of_fast_rings_for_others_does_not_sleep_on_without_the_bell() {
    let p = Place::new().await;
    twin(&p).await;
    // The linger is an hour: nothing but the rule itself can end the first consumer's wait.
    let node = p.node_with(|options| options.wake.times.linger = HOUR).await;
    let waiter = p.sentinel(&node).await;
    for _ in 0..10 {
        p.push_to("twin").await; // nobody here wants them, but the bell is one
    }
    p.until_nobody_sits().await;
    let id = p.push().await;
    assert_eq!(waiter.job().await.id.0, id, "nobody rings: it must be awake");
}

#[tokio::test]
async fn a_busy_queue_that_keeps_the_node_awake_keeps_it_awake_for_its_neighbour_too() {
    let p = Place::new().await;
    twin(&p).await;
    let node = p.node_with(|options| options.wake.times.linger = HOUR).await;
    let neighbour = Waiter::on(&node, "twin").await;
    let (_, stop) = counting(&p, &node).await;
    hurry(&p, &node).await;
    p.until_nobody_sits().await;
    let id = p.push_to("twin").await;
    assert_eq!(neighbour.job().await.id.0, id);
    stop.cancel();
}

#[tokio::test]
async fn whoever_takes_the_bell_at_its_heartbeat_wakes_those_who_slept_uncovered() {
    let p = Place::new().await;
    twin(&p).await;
    // Somebody holds the bell and dies: nobody is told.
    let mut dead = p.sleeper().await;
    assert_eq!(dead.sit(false).await, "bell");
    let one = p.node_with(|options| options.wake.times.heartbeat = std::time::Duration::from_secs(1)).await;
    let two = p.node().await;
    let first = p.reserve(&one).await;
    let second = Waiter::on(&two, "twin").await;
    p.until_reserve(&two).await;
    let pid = dead.pid;
    drop(dead);
    // Not until nobody has the bell: the one may take it at its heartbeat before anybody sees that.
    until("its locks are gone", async || {
        p.one::<i64>(&format!("SELECT count(*) FROM bugle.seat WHERE pid = {pid}")).await == 0
    })
    .await;
    let id = p.push_to("twin").await;
    assert_eq!(second.job().await.id.0, id, "its own heartbeat is an hour away");
    assert!(!first.has_got_something());
    assert_eq!(status(&one).seats.sentinel, [p.bucket]);
}
