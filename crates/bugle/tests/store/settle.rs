//! Ending what was claimed, and what an old receipt is worth.
use crate::fixture::{Fixture, ids, raw, receipts};
use bugle::JobId;
use bugle::jobs::{Claimed, Ended, Failure, Priority, State};
use std::time::Duration;

fn failed(job: &Claimed, retry_in: Option<Duration>) -> Failure {
    Failure { receipt: job.receipt, code: "io".into(), message: "no route\0".into(), retry_in }
}

#[tokio::test]
async fn an_acked_job_is_done_and_stays_done() {
    let f = Fixture::new().await;
    let sent = f.enqueue(3).await;
    let look = f.claim(10).await;
    assert_eq!(f.queue.ack(&receipts(&look.jobs), &[look.token]).await.unwrap().len(), 3);
    assert!(f.queue.ack(&receipts(&look.jobs), &[]).await.unwrap().is_empty(), "a receipt works once");
    assert!(f.claim(10).await.jobs.is_empty());
    assert_eq!(f.one::<i64>("SELECT count(*) FROM bugle.lease").await, 0, "the lease is closed");
    assert_eq!(f.counts().await, "done 3");
    let shown = f.bugle.show_job(sent[0]).await.unwrap().unwrap();
    assert_eq!((shown.row.state.as_str(), shown.row.attempt), ("done", 1));
}

#[tokio::test]
async fn an_old_receipt_ends_nothing_once_the_job_was_handed_out_again() {
    let f = Fixture::new().await;
    f.enqueue(1).await;
    let old = f.claim_and_let_expire(1).await;
    f.queue.sweep().await.unwrap();
    let new = f.claim(1).await;
    assert!(f.queue.ack(&receipts(&old.jobs), &[]).await.unwrap().is_empty());
    assert!(f.queue.release(&receipts(&old.jobs), &[]).await.unwrap().is_empty());
    assert!(f.queue.fail(&[failed(&old.jobs[0], None)], &[]).await.unwrap().is_empty());
    assert!(f.queue.renew("w", &[old.token]).await.unwrap().is_empty());
    assert_eq!(f.counts().await, "leased 1");
    assert_eq!(
        f.queue.ack(&receipts(&new.jobs), &[]).await.unwrap(),
        ids(&new.jobs),
        "the new holder's ack stands"
    );
}

#[tokio::test]
async fn a_receipt_without_its_lease_ends_nothing() {
    // After a crash of the server a claim may be forgotten: the row is as it was, and only the newer lease counts.
    let f = Fixture::new().await;
    f.enqueue(1).await;
    let look = f.claim(1).await;
    f.execute("DELETE FROM bugle.lease").await;
    assert!(f.queue.ack(&receipts(&look.jobs), &[]).await.unwrap().is_empty());
    assert!(f.queue.release(&receipts(&look.jobs), &[]).await.unwrap().is_empty());
    assert!(f.queue.fail(&[failed(&look.jobs[0], None)], &[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_failed_job_comes_back_later_and_is_dead_after_its_last_attempt() {
    let f = Fixture::new().await;
    let id = f.bugle.enqueue_raw("q", "k", raw("1")).max_attempts(2).send().await.unwrap();
    let look = f.claim(1).await;
    let ended = f.queue.fail(&[failed(&look.jobs[0], Some(Duration::ZERO))], &[look.token]).await.unwrap();
    assert_eq!(ended, [Ended { id, state: State::Scheduled }]);
    assert_eq!(f.counts().await, "scheduled 1");
    let second = loop {
        let look = f.claim(1).await;
        if !look.jobs.is_empty() {
            break look;
        }
    };
    assert_eq!(second.jobs[0].attempt, 2);
    let ended =
        f.queue.fail(&[failed(&second.jobs[0], Some(Duration::ZERO))], &[second.token]).await.unwrap();
    assert_eq!(ended, [Ended { id, state: State::Dead }]);
    assert_eq!(f.counts().await, "dead 1");
    let shown = f.bugle.show_job(id).await.unwrap().unwrap();
    assert_eq!(shown.failures.len(), 2);
    assert_eq!(shown.failures[1].message, "no route\u{fffd}", "NUL cannot be stored");
    assert_eq!(shown.failures[1].worker, "w");
}

#[tokio::test]
async fn a_hopeless_job_is_dead_at_once() {
    let f = Fixture::new().await;
    f.enqueue(1).await;
    let look = f.claim(1).await;
    let ended = f.queue.fail(&[failed(&look.jobs[0], None)], &[look.token]).await.unwrap();
    assert_eq!(ended[0].state, State::Dead);
}

#[tokio::test]
async fn a_released_job_is_ready_at_once_and_its_attempt_not_counted() {
    let f = Fixture::new().await;
    let sent = f.enqueue(2).await;
    let look = f.claim(10).await;
    assert_eq!(f.queue.release(&receipts(&look.jobs), &[look.token]).await.unwrap(), sent);
    assert_eq!(f.counts().await, "ready 2");
    let again = f.claim(10).await;
    assert_eq!(ids(&again.jobs), sent);
    assert!(again.jobs.iter().all(|j| j.attempt == 1));
}

#[tokio::test]
async fn part_of_a_claim_can_be_settled_in_any_order() {
    let f = Fixture::new().await;
    f.enqueue(6).await;
    let look = f.claim(10).await;
    let r = receipts(&look.jobs);
    f.queue.ack(&[r[4], r[1]], &[]).await.unwrap();
    f.queue.release(&[r[0]], &[]).await.unwrap();
    f.queue.fail(&[failed(&look.jobs[5], Some(Duration::from_mins(1)))], &[]).await.unwrap();
    assert_eq!(f.counts().await, "scheduled 1, ready 1, leased 2, done 2");
    f.expire(look.token).await;
    assert_eq!(f.queue.sweep().await.unwrap(), 2, "exactly what was left of it");
    assert_eq!(f.counts().await, "scheduled 1, ready 3, done 2");
}

#[tokio::test]
async fn a_cancelled_job_cannot_be_acked() {
    let f = Fixture::new().await;
    f.enqueue(1).await;
    let look = f.claim(1).await;
    assert_eq!(f.bugle.cancel_job(look.jobs[0].id).await.unwrap(), Some(State::Leased));
    assert!(f.queue.ack(&receipts(&look.jobs), &[]).await.unwrap().is_empty());
    assert_eq!(f.counts().await, "cancelled 1");
    assert_eq!(f.bugle.cancel_job(JobId(999_999)).await.unwrap(), None);
}

#[tokio::test]
async fn a_claim_is_acked_as_a_whole() {
    let f = Fixture::new().await;
    f.enqueue(5).await;
    f.bugle.enqueue_raw("q", "k", raw("1")).priority(Priority::Urgent).send().await.unwrap();
    let (first, second) = (f.claim(4).await, f.claim(4).await);
    assert_eq!(f.queue.ack(&receipts(&first.jobs[..1]), &[]).await.unwrap().len(), 1);
    f.bugle.cancel_job(first.jobs[1].id).await.unwrap();
    f.queue.release(&receipts(&first.jobs[2..3]), &[]).await.unwrap();
    assert_eq!(f.queue.ack_claims(&[(first.token, 1), (second.token, 2)]).await.unwrap(), 3);
    assert_eq!(f.counts().await, "ready 1, done 4, cancelled 1");
    assert_eq!(f.one::<i64>("SELECT count(*) FROM bugle.lease").await, 0, "the leases are closed");
    assert_eq!(f.queue.ack_claims(&[(first.token, 1)]).await.unwrap(), 0, "a claim works once");
    let shown = f.bugle.show_job(second.jobs[0].id).await.unwrap().unwrap();
    assert_eq!((shown.row.state.as_str(), shown.row.attempt), ("done", 1));
}

#[tokio::test]
async fn a_claim_acked_as_a_whole_leaves_what_was_committed_into_it_later() {
    let f = Fixture::new().await;
    let mut late = f.db.pool().begin().await.unwrap();
    let id = f.bugle.enqueue_raw("q", "k", raw("1")).on(&mut *late).await.unwrap();
    f.enqueue(3).await;
    let look = f.claim(10).await;
    assert_eq!(look.jobs.len(), 3);
    late.commit().await.unwrap(); // its row stands before those of the claim, in the claim's range
    assert_eq!(f.queue.ack_claims(&[(look.token, 3)]).await.unwrap(), 3);
    assert_eq!(f.counts().await, "ready 1, done 3");
    assert_eq!(ids(&f.claim(10).await.jobs), [id]);
}

#[tokio::test]
async fn a_claim_with_more_jobs_than_its_worker_knows_of_is_not_acked_as_a_whole() {
    let f = Fixture::new().await;
    f.enqueue(3).await;
    let look = f.claim(3).await;
    let error = f.queue.ack_claims(&[(look.token, 2)]).await.unwrap_err();
    assert!(error.to_string().contains("more jobs than its worker knows of"), "{error}");
    assert_eq!(f.counts().await, "leased 3");
    assert_eq!(f.queue.ack_claims(&[(look.token, 3)]).await.unwrap(), 3, "nothing had happened");
}

#[tokio::test]
async fn a_claim_that_was_taken_back_is_not_acked() {
    let f = Fixture::new().await;
    f.enqueue(2).await;
    let old = f.claim_and_let_expire(2).await;
    f.queue.sweep().await.unwrap();
    let new = f.claim(2).await;
    assert_eq!(f.queue.ack_claims(&[(old.token, 2)]).await.unwrap(), 0);
    assert_eq!(f.counts().await, "leased 2");
    assert_eq!(f.queue.ack_claims(&[(new.token, 2)]).await.unwrap(), 2, "the new holder's ack stands");
}

/// Not a while before it was noted: under load the next attempt would come too early.
#[tokio::test]
async fn the_wait_for_the_next_attempt_begins_when_the_last_one_failed() {
    let f = Fixture::new().await;
    f.enqueue(1).await;
    let look = f.claim(1).await;
    let failure = failed(&look.jobs[0], Some(Duration::from_hours(1)));
    f.queue.fail(&[failure], &[look.token]).await.unwrap();
    let waits = "SELECT d.due_at - a.failed_at = interval '1 hour' FROM bugle.due d JOIN bugle.failure a ON a.id = d.id";
    assert!(f.one::<bool>(waits).await);
}

#[tokio::test]
async fn what_is_said_with_an_old_receipt_is_not_mixed_up_with_the_newer_ones() {
    let f = Fixture::new().await;
    f.enqueue(2).await;
    let old = f.claim(2).await;
    f.queue.release(&receipts(&old.jobs), &[old.token]).await.unwrap();
    let new = f.claim(2).await;
    let hours = |h: u64| Duration::from_hours(h);
    let all = [(&old.jobs[0], 1), (&new.jobs[1], 2), (&old.jobs[1], 3), (&new.jobs[0], 4)];
    let delays: Vec<_> = all.iter().map(|(job, h)| (job.receipt, hours(*h))).collect();
    assert_eq!(f.queue.snooze(&delays, &[new.token]).await.unwrap().len(), 2);
    let due =
        "SELECT array_agg(round(extract(epoch FROM due_at - now()) / 3600)::int ORDER BY id) FROM bugle.due";
    assert_eq!(f.one::<Vec<i32>>(due).await, [4, 2]);
}
