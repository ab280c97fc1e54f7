//! Work that becomes claimable by the passing of time alone: on time, never early, with the heartbeat an hour away.
use crate::fixture::{HOUR, Place, Running, SOON, node, raw, until};
use bugle::jobs::{Claimed, Failure};
use bugle_wake::Why;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::HashSet;
use std::time::Duration;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A job that begins now: not before its time, and not long after it, by the database's clock.
async fn begins_on_time(place: &Place, job: &Claimed) {
    let now = place.clock().await;
    assert!(now >= job.due_at, "early: begun at {now}, due at {}", job.due_at);
    let late = (now - job.due_at).to_std().unwrap();
    assert!(late < SOON, "begun {late:?} late");
}

#[tokio::test]
async fn a_sleeping_node_begins_a_job_when_it_is_due_and_not_earlier() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let queue = bugle.queue("q").await.unwrap();
    let claim = tokio::spawn(async move { queue.claim_within("w", 1, HOUR, HOUR).await });
    place.asleep(&bugle, 1).await;

    let id = place.enqueue_in("q", ms(700)).await;
    let look =
        tokio::time::timeout(SOON, claim).await.expect("the timer was lost").unwrap().unwrap().unwrap();
    let job = &look.jobs[0];
    assert_eq!(job.id, id);
    assert!(look.claimed_at >= job.due_at, "claimed at {}, due at {}", look.claimed_at, job.due_at);
    assert!((look.claimed_at - job.due_at).to_std().unwrap() < SOON);
    assert!(node(&bugle).counters().looks_by(Why::Timer) > 0, "it was the timer");
}

#[tokio::test]
async fn a_node_that_starts_later_knows_what_is_due() {
    let place = Place::new().await;
    let id = place.enqueue_in("q", ms(1500)).await;
    let bugle = place.node(|_| {}).await;
    let mut worker = Running::on(&bugle, "q");
    let job = worker.next().await;
    assert_eq!(job.id, id);
    begins_on_time(&place, &job).await;
    worker.stop().await;
}

#[tokio::test]
async fn an_earlier_job_that_comes_later_wakes_earlier() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let mut worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    place.enqueue_in("q", HOUR).await;
    until("the timer is set", async || !node(&bugle).status().sleeps.is_empty()).await;
    place.quiet(&bugle).await;

    let id = place.enqueue_in("q", ms(600)).await;
    let job = worker.next().await;
    assert_eq!(job.id, id);
    begins_on_time(&place, &job).await;
    // And the first one is not forgotten for it.
    until("the timer is set again", async || {
        node(&bugle).status().sleeps.iter().any(|(why, at)| *why == "timer" && *at > HOUR / 2)
    })
    .await;
    worker.stop().await;
}

#[tokio::test]
async fn nothing_is_forgotten_after_the_first_timer() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let mut worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    let mut wanted = Vec::new();
    for delay in [1500, 500, 1000] {
        wanted.push(place.enqueue_in("q", ms(delay)).await);
    }
    for id in [wanted[1], wanted[2], wanted[0]] {
        let job = worker.next().await;
        assert_eq!(job.id, id, "in the order of their times");
        begins_on_time(&place, &job).await;
    }
    worker.stop().await;
}

#[tokio::test]
async fn several_queues_of_a_node_have_their_own_times() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let delays = [("a", 900), ("b", 300), ("c", 600), ("d", 600)];
    let mut workers: Vec<_> = delays.iter().map(|(queue, _)| Running::on(&bugle, queue)).collect();
    place.asleep(&bugle, 4).await;
    for (queue, delay) in delays {
        place.enqueue_in(queue, ms(delay)).await;
    }
    for n in [1, 2, 3, 0] {
        let job = workers[n].next().await;
        begins_on_time(&place, &job).await;
    }
    for worker in workers {
        worker.stop().await;
    }
}

#[tokio::test]
async fn a_retry_begins_on_time_on_another_node_that_sleeps() {
    let place = Place::new().await;
    let id = place.enqueue("q", 1).await[0];
    let queue = place.outside.queue("q").await.unwrap();
    let look = queue.claim("first", 1, HOUR).await.unwrap();
    let bugle = place.node(|_| {}).await;
    let mut worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;

    let failure = Failure {
        receipt: look.jobs[0].receipt,
        code: "no".to_owned(),
        message: "not yet".to_owned(),
        retry_in: Some(ms(700)),
    };
    queue.fail(&[failure], &[look.token]).await.unwrap();
    let job = worker.next().await;
    assert_eq!((job.id, job.attempt), (id, 2));
    begins_on_time(&place, &job).await;
    worker.stop().await;
}

#[tokio::test]
async fn the_job_of_a_dead_worker_is_found_when_its_lease_ends() {
    let place = Place::new().await;
    let id = place.enqueue("q", 1).await[0];
    let queue = place.outside.queue("q").await.unwrap();
    let look = queue.claim("dead", 1, Duration::from_secs(2)).await.unwrap();
    let end = look.jobs[0].lease_until;
    let bugle = place.node(|_| {}).await;
    let mut worker = Running::on(&bugle, "q");

    let job = worker.next().await;
    let now = place.clock().await;
    assert_eq!((job.id, job.attempt), (id, 2));
    assert!(now >= end, "taken away early: {now}, the lease ends at {end}");
    assert!((now - end).to_std().unwrap() < SOON);
    worker.stop().await;
}

#[tokio::test]
async fn a_sleeper_learns_of_the_lease_that_another_node_takes_while_it_sleeps() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let mut worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    // Somebody's claim is before the sleeper's own: the ring is heard, and the look finds the job taken.
    let stranger = place.hold_claims("q").await;
    let queue = place.outside.queue("q").await.unwrap();
    let dead = tokio::spawn(async move { queue.claim("dead", 1, Duration::from_secs(2)).await });
    place.claims_held(1).await;
    let id = place.enqueue("q", 1).await[0];
    place.claims_held(2).await;
    stranger.goes().await;

    let end = dead.await.unwrap().unwrap().jobs[0].lease_until;
    let job = worker.next().await;
    assert_eq!((job.id, job.attempt), (id, 2));
    assert!(place.clock().await >= end);
    worker.stop().await;
}

#[tokio::test]
async fn ten_thousand_jobs_due_within_a_second_all_run_and_none_early() {
    const JOBS: usize = 10_000;
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let queue = bugle.queue("q").await.unwrap();
    let base: DateTime<Utc> = place.clock().await + TimeDelta::seconds(4);
    let mut claims = tokio::task::JoinSet::new();
    let (claimed, mut seen) = tokio::sync::mpsc::unbounded_channel();
    for n in 0..4 {
        let (queue, claimed) = (queue.clone(), claimed.clone());
        claims.spawn(async move {
            while let Some(look) = queue.claim_within(&format!("w{n}"), 500, HOUR, HOUR).await.unwrap() {
                let receipts: Vec<_> = look.jobs.iter().map(|job| job.receipt).collect();
                queue.ack(&receipts, &[look.token]).await.unwrap();
                let _ = claimed.send(look);
            }
        });
    }
    for slice in 0..20_i32 {
        let payloads = (0..JOBS / 20).map(|n| raw(&n.to_string())).collect();
        let due_at = base + TimeDelta::milliseconds(50) * slice;
        place.outside.enqueue_many_raw("q", "k", payloads).due_at(due_at).send().await.unwrap();
    }
    assert!(
        place.clock().await < base,
        "the machine is too slow for this test: they were to be enqueued before they are due"
    );

    let mut ids = HashSet::new();
    while ids.len() < JOBS {
        let look = tokio::time::timeout(2 * SOON, seen.recv()).await.expect("some were forgotten").unwrap();
        for job in look.jobs {
            assert!(look.claimed_at >= job.due_at, "early: {} before {}", look.claimed_at, job.due_at);
            assert!(ids.insert(job.id), "{} was handed out twice", job.id);
        }
    }
    until("all are done", async || {
        place.one::<i64>("SELECT sum(done)::bigint FROM bugle.queue_count").await == 10_000
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_job_leaves_a_timer_that_does_no_harm() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let mut worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    let id = place.enqueue_in("q", ms(800)).await;
    until("the timer is set", async || !node(&bugle).status().sleeps.is_empty()).await;
    place.outside.cancel_job(id).await.unwrap().unwrap();

    until("the timer is over", async || node(&bugle).status().sleeps.is_empty()).await;
    place.quiet(&bugle).await;
    assert!(worker.begun().is_empty());
    let counters = node(&bugle).counters();
    assert!(counters.looks_by(Why::Timer) <= 1, "it looked in vain once, not again and again");
    assert_eq!((counters.failed_looks.get(), counters.panics.get()), (0, 0));
    let next = place.enqueue("q", 1).await[0];
    assert_eq!(worker.next().await.id, next);
    worker.stop().await;
}

#[tokio::test]
async fn a_job_due_in_years_overflows_nothing() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let mut worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    let year = Duration::from_hours(24 * 365);
    place.enqueue_in("q", 90 * year).await;
    until("the timer is set", async || node(&bugle).status().sleeps.iter().any(|(_, at)| *at > 89 * year))
        .await;
    place.enqueue_in("q", year).await;
    until("an earlier one", async || {
        node(&bugle).status().sleeps.iter().any(|(_, at)| (year / 2..2 * year).contains(at))
    })
    .await;
    place.quiet(&bugle).await;
    assert_eq!(node(&bugle).counters().panics.get(), 0);
    let id = place.enqueue("q", 1).await[0];
    assert_eq!(worker.next().await.id, id);
    worker.stop().await;
}
