//! Why a job is where it is, and what a queue shows of itself.
use crate::fixture::{Fixture, LEASE, raw, receipts};
use bugle::JobId;
use bugle::jobs::inspect::{AHEAD_MAX, Reason, Why};
use bugle::jobs::{Failure, Priority};
use std::time::Duration;

async fn why(f: &Fixture, id: JobId) -> Why {
    f.bugle.why(id).await.unwrap().unwrap()
}

async fn reason(f: &Fixture, id: JobId) -> (Reason, Option<i64>) {
    let why = why(f, id).await;
    (why.reason, why.ahead)
}

#[tokio::test]
async fn a_ready_job_waits_for_a_worker_for_others_or_for_the_end_of_a_pause() {
    let f = Fixture::new().await;
    let sent = f.enqueue(4).await;
    assert_eq!(reason(&f, sent[0]).await, (Reason::NoWorker, Some(0)));
    f.claim(1).await;
    assert_eq!(reason(&f, sent[1]).await, (Reason::Next, Some(0)));
    assert_eq!(reason(&f, sent[3]).await, (Reason::Behind, Some(2)));
    let urgent = f.bugle.enqueue_raw("q", "k", raw("1")).priority(Priority::Urgent).send().await.unwrap();
    assert_eq!(reason(&f, urgent).await, (Reason::Next, Some(0)), "before what was there");
    assert_eq!(reason(&f, sent[3]).await, (Reason::Behind, Some(3)));
    f.bugle.pause("q").await.unwrap();
    assert_eq!(reason(&f, urgent).await, (Reason::Paused, Some(0)));
    assert!(f.bugle.why(JobId(999_999)).await.unwrap().is_none());
}

#[tokio::test]
async fn others_are_counted_up_to_a_limit() {
    let f = Fixture::new().await;
    f.enqueue(9_999).await;
    f.enqueue(9_999).await;
    let last = f.enqueue(1).await[0];
    f.claim(1).await;
    assert_eq!(reason(&f, last).await, (Reason::Behind, Some(AHEAD_MAX)));
}

/// The next look begins with it, whatever else is there.
#[tokio::test]
async fn a_job_whose_transaction_was_late_is_next() {
    let f = Fixture::new().await;
    let mut tx = f.db.pool().begin().await.unwrap();
    let late = f.bugle.enqueue_raw("q", "k", raw("1")).on(&mut *tx).await.unwrap();
    f.enqueue(3).await;
    f.claim(2).await;
    tx.commit().await.unwrap();
    assert_eq!(reason(&f, late).await, (Reason::Next, Some(0)));
}

#[tokio::test]
async fn a_scheduled_job_waits_for_its_time_and_then_for_a_look() {
    let f = Fixture::new().await;
    let later = f.bugle.enqueue_raw("q", "k", raw("1")).delay(Duration::from_mins(1)).send().await.unwrap();
    assert_eq!(reason(&f, later).await, (Reason::NotDue, None));
    f.execute("UPDATE bugle.due SET due_at = now()").await;
    assert_eq!(reason(&f, later).await, (Reason::NoWorker, None));
    f.bugle.pause("q").await.unwrap();
    assert_eq!(reason(&f, later).await, (Reason::Paused, None));
}

#[tokio::test]
async fn a_leased_job_names_its_worker_until_its_lease_has_ended() {
    let f = Fixture::new().await;
    let id = f.enqueue(2).await[0];
    let look = f.claim(1).await;
    let held = why(&f, id).await;
    assert_eq!((held.reason, held.job.worker.as_deref()), (Reason::Leased, Some("w")));
    assert!(held.job.lease_until.unwrap() > held.now());
    f.expire(look.token).await;
    assert_eq!(why(&f, id).await.reason, Reason::LeaseEnded);
    let next = f.bugle.enqueue_raw("q", "k", raw("1")).send().await.unwrap();
    assert_eq!(why(&f, next).await.reason, Reason::NoWorker, "who let its lease end is not seen at work");
}

#[tokio::test]
async fn a_failed_job_backs_off_with_its_error_and_dies_of_the_last() {
    let f = Fixture::new().await;
    let id = f.bugle.enqueue_raw("q", "k", raw("1")).max_attempts(2).send().await.unwrap();
    for (n, expected) in [(1, Reason::BackingOff), (2, Reason::Dead)] {
        let look = f.claim(1).await;
        let failures: Vec<_> = receipts(&look.jobs)
            .into_iter()
            .map(|receipt| Failure {
                receipt,
                retry_in: Some(Duration::from_mins(1)),
                code: "smtp".into(),
                message: format!("refused {n}"),
            })
            .collect();
        f.queue.fail(&failures, &[look.token]).await.unwrap();
        let found = why(&f, id).await;
        assert_eq!(found.reason, expected);
        let last = found.last_failure().unwrap();
        assert_eq!((last.code.as_str(), last.message.clone()), ("smtp", format!("refused {n}")));
        f.bugle.retry_job(id).await.unwrap(); // not to wait for a minute
    }
}

#[tokio::test]
async fn ended_jobs_say_how_they_ended() {
    let f = Fixture::new().await;
    let sent = f.enqueue(2).await;
    let look = f.claim(1).await;
    f.queue.ack(&receipts(&look.jobs), &[look.token]).await.unwrap();
    f.bugle.cancel_job(sent[1]).await.unwrap();
    assert_eq!(reason(&f, sent[0]).await, (Reason::Done, None));
    assert_eq!(reason(&f, sent[1]).await, (Reason::Cancelled, None));
}

#[tokio::test]
async fn a_queue_shows_who_holds_its_jobs_and_how_far_it_lags() {
    let f = Fixture::new().await;
    assert!(f.bugle.show_queue("nowhere").await.unwrap().is_none());
    let empty = f.bugle.show_queue("q").await.unwrap().unwrap();
    assert_eq!((empty.row.oldest_ready, empty.workers.len()), (None, 0));
    f.enqueue(6).await;
    f.bugle.enqueue_raw("q", "k", raw("1")).delay(LEASE).send().await.unwrap();
    for (worker, most) in [("a", 1), ("b", 2), ("a", 1)] {
        f.queue.claim(worker, most, LEASE).await.unwrap();
    }
    let shown = f.bugle.show_queue("q").await.unwrap().unwrap();
    let holders: Vec<_> =
        shown.workers.iter().map(|h| (h.worker.as_str(), h.leases, h.jobs, h.alive)).collect();
    assert_eq!(holders, [("a", 2, 2, true), ("b", 1, 2, true)]);
    assert_eq!((shown.row.ready, shown.row.leased, shown.row.scheduled), (2, 4, 1));
    assert!(shown.row.oldest_ready.unwrap() <= shown.more.now);
    assert!(shown.more.next_due.unwrap() > shown.more.now && shown.more.next_lease_end.is_some());
    f.execute("UPDATE bugle.lease SET until = now()").await;
    assert!(f.bugle.show_queue("q").await.unwrap().unwrap().workers.iter().all(|holder| !holder.alive));
}
