//! Several nodes asleep: one holds the bell, the others are told when it lets go.
use crate::fixture::{LEASE, Place, soon, until};
use crate::node::{HOUR, Waiter, counters, status, winner};
use bugle::jobs::Claimed;
use bugle::{Bugle, Ctx};
use bugle_wake::Why;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_sleeping_node_holds_the_bell_and_a_job_wakes_it() {
    let p = Place::new().await;
    let node = p.node().await;
    let waiter = p.sentinel(&node).await;
    assert_eq!(p.seats().await, ["sentinel"]);
    let name: String = p.one("SELECT application_name FROM bugle.seat").await;
    assert!(name.starts_with("bugle listener "), "{name}");
    let id = p.push().await;
    assert_eq!(waiter.job().await.id.0, id);
    assert_eq!(counters(&node).rings.get(), 1);
    assert_eq!(counters(&node).looks_by(Why::Ring), 1);
    p.until_nobody_sits().await; // nobody waits any more: nobody shall ring
}

#[tokio::test]
async fn of_several_sleeping_nodes_one_is_the_sentinel_and_every_job_goes_to_one() {
    let p = Place::new().await;
    let (one, two, three) = (p.node().await, p.node().await, p.node().await);
    let mut waiters = vec![p.sentinel(&one).await, p.reserve(&two).await, p.reserve(&three).await];
    assert_eq!(p.seats().await, ["sentinel", "reserve", "reserve"]);
    while !waiters.is_empty() {
        let id = p.push().await;
        let (_, job) = winner(&mut waiters).await;
        assert_eq!(job.id.0, id);
    }
    p.until_nobody_sits().await;
}

#[tokio::test]
async fn a_sentinel_whose_consumer_goes_hands_the_bell_over() {
    let p = Place::new().await;
    let (one, two) = (p.node().await, p.node().await);
    let (first, second) = (p.sentinel(&one).await, p.reserve(&two).await);
    drop(first);
    p.until_sentinel(&two).await;
    // The one may hear it before the other has been answered.
    until("it is counted", async || counters(&one).handovers_sent.get() == 1).await;
    assert_eq!(counters(&two).handovers_heard.get(), 1);
    let id = p.push().await;
    assert_eq!(second.job().await.id.0, id);
}

#[tokio::test]
async fn a_node_that_stops_hands_the_bell_over() {
    let p = Place::new().await;
    let (one, two, three) = (p.node().await, p.node().await, p.node().await);
    let (_first, second, third) = (p.sentinel(&one).await, p.reserve(&two).await, p.reserve(&three).await);
    one.node().unwrap().stop().await;
    until("a reserve has the bell", async || {
        status(&two).seats.sentinel.len() + status(&three).seats.sentinel.len() == 1
    })
    .await;
    assert_eq!(p.seats().await, ["sentinel", "reserve"]);
    let id = p.push().await;
    let (_, job) = winner(&mut vec![second, third]).await;
    assert_eq!(job.id.0, id);
}

#[tokio::test]
async fn a_node_that_is_dropped_hands_the_bell_over() {
    let p = Place::new().await;
    let (one, two) = (p.node().await, p.node().await);
    let (first, second) = (p.sentinel(&one).await, p.reserve(&two).await);
    drop((first, one));
    p.until_sentinel(&two).await;
    let id = p.push().await;
    assert_eq!(second.job().await.id.0, id);
}

/// A worker with one slot whose jobs never end; tells its name and the job.
fn stuck(
    node: &Bugle,
    name: &'static str,
    told: mpsc::UnboundedSender<(&'static str, i64)>,
) -> CancellationToken {
    let stop = CancellationToken::new();
    let worker =
        node.worker("q").concurrency(1).drain(Duration::ZERO).handle_any(move |job: Claimed, _: Ctx| {
            told.send((name, job.id.0)).unwrap();
            std::future::pending::<()>()
        });
    tokio::spawn(worker.run(stop.clone()));
    stop
}

#[tokio::test]
async fn a_node_whose_slots_are_all_busy_lets_go_and_the_next_job_reaches_a_peer() {
    let p = Place::new().await;
    let (told, mut started) = mpsc::unbounded_channel();
    let nodes = [p.node().await, p.node().await, p.node().await];
    for (node, name) in nodes.iter().zip(["one", "two", "three"]) {
        let _running = stuck(node, name, told.clone());
    }
    until("all sleep", async || p.seats().await == ["sentinel", "reserve", "reserve"]).await;
    let mut busy = Vec::new();
    for _ in 0..3 {
        let id = p.push().await;
        let (name, job) = soon("a peer takes it", started.recv()).await.unwrap();
        assert_eq!(job, id);
        assert!(!busy.contains(&name), "{name} has one slot");
        busy.push(name);
    }
    p.until_nobody_sits().await;
}

#[tokio::test]
async fn a_worker_that_stops_gives_its_job_back_and_a_sleeping_peer_gets_it() {
    let p = Place::new().await;
    let (one, two) = (p.node().await, p.node().await);
    let (told, mut started) = mpsc::unbounded_channel();
    let stop = stuck(&one, "one", told);
    until("it waits", async || one.node().is_some()).await;
    p.until_sentinel(&one).await;
    let id = p.push().await;
    soon("it starts", started.recv()).await.unwrap();
    let waiter = p.sentinel(&two).await; // the first one, busy, has let go
    stop.cancel();
    let job = waiter.job().await;
    assert_eq!((job.id.0, job.attempt), (id, 1));
}

#[tokio::test]
async fn a_job_released_by_one_node_wakes_another() {
    let p = Place::new().await;
    let node = p.node().await;
    p.push().await;
    let job = p.claim().await;
    let waiter = p.sentinel(&node).await;
    p.queue.release(&[job.receipt], &[job.receipt.token()]).await.unwrap();
    assert_eq!(waiter.job().await.id, job.id);
    assert!(counters(&node).rings.get() >= 1);
}

#[tokio::test]
async fn a_new_consumer_on_a_sleeping_node_looks() {
    for seat in ["sentinel", "reserve"] {
        let p = Place::new().await;
        let (node, mut peer) = (p.node().await, p.sleeper().await);
        if seat == "reserve" {
            assert_eq!(peer.sit(false).await, "bell");
        }
        let first = Waiter::on(&node, "q").await;
        p.until_second_look(&node).await;
        assert!(p.seats().await.contains(&seat.to_owned()));
        let id = p.push_silently().await;
        let _late = Waiter::on(&node, "q").await;
        assert_eq!(first.job().await.id.0, id, "who waited first is served first");
    }
}

#[tokio::test]
async fn the_end_of_a_lease_that_another_node_held_is_found_in_sleep() {
    let p = Place::new().await;
    let (one, two) = (p.node().await, p.node().await);
    let lease = Duration::from_millis(700);
    let first = Waiter::with_lease(&one, "q", lease).await;
    p.until_sentinel(&one).await;
    let second = Waiter::with_lease(&two, "q", lease).await;
    p.until_reserve(&two).await;
    let id = p.push().await;
    let mut waiters = vec![first, second];
    let (_, job) = winner(&mut waiters).await;
    assert_eq!((job.id.0, job.attempt), (id, 1));
    let (_, job) = winner(&mut waiters).await; // whoever got it died with it
    assert_eq!((job.id.0, job.attempt), (id, 2));
}

#[tokio::test]
async fn a_lease_that_ends_is_found_by_a_node_that_falls_asleep_after_the_claim() {
    let p = Place::new().await;
    let node = p.node().await;
    let id = p.push().await;
    p.queue.claim("gone", 1, Duration::from_secs(3)).await.unwrap();
    let job = p.sentinel(&node).await.job().await;
    assert_eq!((job.id.0, job.attempt), (id, 2));
    assert_eq!(counters(&node).rings.get(), 0, "nobody rings for it: a timer does");
}

#[tokio::test]
async fn a_long_open_producer_keeps_the_sleep_shallow_and_its_job_is_found_after_the_commit() {
    let p = Place::new().await;
    let node = p.node().await;
    let mut producer = p.transaction("READ COMMITTED").await;
    p.run(&mut producer, "SELECT bugle.enqueue('q', 'k')").await;
    let first = Waiter::on(&node, "q").await;
    until("it sleeps shallowly", async || counters(&node).shallow_sleeps.get() > 3).await;
    assert_eq!(p.seats().await, [""; 0]);
    let id = p.push().await;
    assert_eq!(first.job().await.id.0, id, "others are not held up");
    let second = Waiter::on(&node, "q").await;
    p.run(&mut producer, "COMMIT").await;
    second.job().await;
    assert_eq!(counters(&node).rings.get(), 0);
    let third = p.sentinel(&node).await;
    assert!(!third.has_got_something());
}

#[tokio::test]
async fn a_stranger_who_holds_the_locks_costs_latency_or_rings_and_nothing_else() {
    let p = Place::new().await;
    let mut stranger = p.session().await;
    let bucket = p.bucket;
    for (lock, mode) in [("bell", "_shared"), ("bell", ""), ("mark", "_shared")] {
        p.run(&mut stranger, &format!("SELECT pg_advisory_lock{mode}(bugle.{lock}_class(), {bucket})")).await;
        let node = p.node().await;
        for _ in 0..2 {
            let waiter = Waiter::on(&node, "q").await;
            let id = p.push().await;
            assert_eq!(waiter.job().await.id.0, id, "{lock}{mode}");
        }
        node.node().unwrap().stop().await;
        p.run(&mut stranger, "SELECT pg_advisory_unlock_all()").await;
    }
}

#[tokio::test]
async fn a_stranger_who_drops_the_bell_without_a_word_costs_one_heartbeat_as_a_crash_does() {
    let p = Place::new().await;
    let (mut stranger, bucket) = (p.session().await, p.bucket);
    p.run(&mut stranger, &format!("SELECT pg_advisory_lock(bugle.bell_class(), {bucket})")).await;
    let node = p.node_with(|options| options.wake.times.heartbeat = Duration::from_secs(1)).await;
    let waiter = p.reserve(&node).await;
    p.run(&mut stranger, "SELECT pg_advisory_unlock_all()").await;
    let id = p.push().await;
    assert_eq!(waiter.job().await.id.0, id);
    p.sentinel(&node).await;
}

#[tokio::test]
async fn a_consumer_that_gives_up_in_the_middle_loses_no_job() {
    let p = Place::new().await;
    let (one, two) = (p.node().await, p.node().await);
    let last = p.sentinel(&two).await;
    let queue = one.queue("q").await.unwrap();
    // However the hand-out and the end of the patience fall together: the job is taken or given back.
    for wait in [0, 1, 2, 3, 5] {
        let waiting = queue.claim_within("w", 1, LEASE, Duration::from_millis(wait));
        let (_, taken) = tokio::join!(p.push(), waiting);
        if let Some(look) = taken.unwrap() {
            let receipts: Vec<_> = look.jobs.iter().map(|job| job.receipt).collect();
            queue.release(&receipts, &[look.token]).await.unwrap();
        }
    }
    last.job().await;
    for _ in 0..4 {
        queue.claim_within("w", 1, LEASE, HOUR).await.unwrap().unwrap();
    }
}
