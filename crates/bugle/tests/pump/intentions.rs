//! One look serves everybody who waits.
use crate::fixture::{HOUR, Place, Running, SOON, node, until};
use bugle::jobs::{Look, Queue};
use bugle::{Bugle, Error, JobId};
use bugle_testkit::proxy::{Direction, Fault};
use std::time::Duration;
use tokio::task::JoinHandle;

type Claim = JoinHandle<Result<Option<Look>, Error>>;

fn wait_for_one(queue: &Queue, worker: &str) -> Claim {
    let (queue, worker) = (queue.clone(), worker.to_owned());
    tokio::spawn(async move { queue.claim_within(&worker, 1, HOUR, HOUR).await })
}

/// So many wait, registered one after the other.
async fn crowd(bugle: &Bugle, n: usize) -> Vec<Claim> {
    let queue = bugle.queue("q").await.unwrap();
    let mut claims = Vec::new();
    for i in 0..n {
        claims.push(wait_for_one(&queue, &format!("w{i}")));
        while bugle.node().is_none_or(|node| node.status().intentions <= i) {
            tokio::task::yield_now().await;
        }
    }
    claims
}

async fn answer(claim: Claim) -> Look {
    tokio::time::timeout(SOON, claim).await.expect("not served").unwrap().unwrap().unwrap()
}

#[tokio::test]
async fn a_hundred_wait_one_job_comes_one_look_is_sent_and_one_gets_it() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let claims = crowd(&bugle, 100).await;
    place.asleep(&bugle, 100).await;
    let before = place.looks().await;

    let ids = place.enqueue("q", 1).await;
    until("somebody is served", async || claims.iter().any(JoinHandle::is_finished)).await;
    place.quiet(&bugle).await;

    assert_eq!(place.looks().await - before, 1, "one look for a hundred who wait");
    assert_eq!(node(&bugle).counters().rings.get(), 1);
    let served: Vec<Claim> = claims.into_iter().filter(JoinHandle::is_finished).collect();
    assert_eq!(served.len(), 1, "exactly one is served");
    for claim in served {
        let look = answer(claim).await;
        assert_eq!(look.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), ids);
    }
    assert_eq!(node(&bugle).status().intentions, 99, "the others still wait");
}

#[tokio::test]
async fn a_hundred_wait_a_hundred_jobs_come_and_one_look_serves_all_in_the_order_of_registration() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let claims = crowd(&bugle, 100).await;
    place.asleep(&bugle, 100).await;
    let before = place.looks().await;

    let ids = place.enqueue("q", 100).await;
    let mut got: Vec<JobId> = Vec::new();
    for claim in claims {
        got.extend(answer(claim).await.jobs.iter().map(|job| job.id));
    }

    assert_eq!(got, ids, "first come, first served");
    place.quiet(&bugle).await;
    assert_eq!(place.looks().await - before, 1, "one look for all");
    assert_eq!(place.one::<i64>("SELECT count(DISTINCT worker) FROM bugle.lease").await, 100, "a lease each");
}

#[tokio::test]
async fn whoever_comes_later_is_served_later() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let mut claims = crowd(&bugle, 5).await;
    place.asleep(&bugle, 5).await;
    while !claims.is_empty() {
        let first = claims.remove(0);
        place.enqueue("q", 1).await;
        answer(first).await;
        place.quiet(&bugle).await;
        assert!(!claims.iter().any(JoinHandle::is_finished), "nobody overtakes");
    }
}

#[tokio::test]
async fn what_is_there_already_is_handed_out_without_waiting() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    place.enqueue("q", 3).await;
    let queue = bugle.queue("q").await.unwrap();
    let look = tokio::time::timeout(SOON, queue.claim_within("w", 10, HOUR, HOUR)).await.unwrap();
    assert_eq!(look.unwrap().unwrap().jobs.len(), 3, "all that there is, up to what it wants");
}

#[tokio::test]
async fn a_new_intention_looks_also_on_a_node_that_sleeps() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let claims = crowd(&bugle, 1).await;
    place.asleep(&bugle, 1).await;
    let before = node(&bugle).counters().looks_by(bugle_wake::Why::Intention);

    let queue = bugle.queue("q").await.unwrap();
    let late = wait_for_one(&queue, "late");
    until("it has looked", async || {
        node(&bugle).counters().looks_by(bugle_wake::Why::Intention) == before + 1
    })
    .await;
    place.quiet(&bugle).await;
    assert_eq!(place.seats().await, (1, 0), "its seat stays as it is");
    place.enqueue("q", 2).await;
    for claim in claims.into_iter().chain([late]) {
        answer(claim).await;
    }
}

#[tokio::test]
async fn a_wake_during_the_look_is_not_lost() {
    let place = Place::new().await;
    let proxy = place.proxy().await;
    let direct = place.db.connect_options();
    let patient = |options: &mut bugle_wake::Options| options.times.delivery_timeout = HOUR;
    let bugle = place.node_on(&proxy.rewrite(direct), Some(direct.clone()), patient).await;
    let claims = crowd(&bugle, 1).await;
    place.asleep(&bugle, 1).await;
    let (looks, rings) = (place.looks().await, node(&bugle).counters().rings.get());

    // A look finds nothing, but its answer is slow; meanwhile a job comes and is rung for.
    let gate = proxy.gate("single ask");
    place.execute("SELECT bugle.ring_queue('q')").await;
    gate.arrived().await;
    let slow = proxy.set(Fault::stall(Direction::ToClient));
    gate.open();
    slow.has_hit(1).await;
    until("PostgreSQL has answered", async || place.looks().await == looks + 1).await;
    place.enqueue("q", 1).await;
    // Whoever rings by hand rings for the ends of the queue's jobs as well.
    until("it was heard", async || node(&bugle).counters().rings.get() == rings + 3).await;
    slow.lift();

    for claim in claims {
        answer(claim).await;
    }
}

#[tokio::test]
async fn two_kinds_of_consumers_wait_for_one_queue_and_each_gets_its_own_lease() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let queue = bugle.queue("q").await.unwrap();
    let (short, long) = (Duration::from_mins(2), Duration::from_hours(2));
    let claim = |worker: &'static str, most, lease| {
        let queue = queue.clone();
        tokio::spawn(async move { queue.claim_within(worker, most, lease, HOUR).await })
    };
    let (hasty, patient) = (claim("hasty", 2, short), claim("patient", 3, long));
    place.asleep(&bugle, 2).await;
    let before = place.looks().await;

    place.enqueue("q", 5).await;
    let (hasty, patient) = (answer(hasty).await, answer(patient).await);
    place.quiet(&bugle).await;

    assert_eq!((hasty.jobs.len(), patient.jobs.len()), (2, 3), "each what it wants");
    assert_ne!(hasty.token, patient.token, "a lease each");
    assert_eq!(place.looks().await - before, 1, "and one look for both");
    let sql = "SELECT string_agg(worker || ' ' || extract(epoch FROM dur)::int, ', ' ORDER BY worker) FROM bugle.lease";
    assert_eq!(place.one::<String>(sql).await, "hasty 120, patient 7200");
}

#[tokio::test]
async fn a_worker_of_sixteen_slots_looks_once_for_each_wake() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let mut worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    let before = place.looks().await;
    for _ in 0..20 {
        place.enqueue("q", 1).await;
        worker.next().await;
        place.quiet(&bugle).await;
    }
    // The rules: a ring is one look; a look that was not full has seen everything; the seat is kept; a slot that becomes free beside
    // others that are free needs no look.
    assert_eq!(place.looks().await - before, 20);
    worker.stop().await;
}
