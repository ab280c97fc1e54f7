//! What somebody who waits for the end of a job is told.
use crate::fixture::{Fixture, raw, receipts};
use bugle::jobs::{Claimed, Failure, NotDone, State};
use bugle::{End, Ending, Error, Handle, JobId};
use serde_json::{Value, json};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(15);

async fn told(handle: &Handle) -> End<Value> {
    handle.wait_within(SOON).await.unwrap().expect("it has not ended")
}

fn hopeless(job: &Claimed) -> Failure {
    Failure { receipt: job.receipt, code: "io".into(), message: "no route".into(), retry_in: None }
}

#[tokio::test]
async fn a_wait_brings_what_the_handler_returned() {
    let f = Fixture::new().await;
    let handle = f.bugle.enqueue_raw("q", "k", raw("1")).send_handle().await.unwrap();
    let waiting = tokio::spawn({
        let handle = handle.clone();
        async move { handle.wait::<Vec<String>>().await }
    });
    let look = f.claim(1).await;
    let result = json!(["paid", "sent"]);
    f.queue.ack_with(&[(look.jobs[0].receipt, Some(result))], &[look.token]).await.unwrap();
    let end = waiting.await.unwrap().unwrap();
    assert_eq!((end.id, end.attempt, end.worker.as_deref()), (handle.id(), 1, Some("w")));
    assert_eq!(end.state(), State::Done);
    assert_eq!(end.done().unwrap(), ["paid", "sent"]);
    // It has ended already, and can be waited for as often as one likes.
    assert_eq!(told(&handle).await.how, Ending::Done(json!(["paid", "sent"])));
    assert_eq!(told(&f.bugle.handle(handle.id())).await.how, Ending::Done(json!(["paid", "sent"])));
}

#[tokio::test]
async fn a_result_that_is_none_and_one_of_another_type() {
    let f = Fixture::new().await;
    let id = f.enqueue(1).await[0];
    let look = f.claim(1).await;
    f.queue.ack(&receipts(&look.jobs), &[look.token]).await.unwrap();
    let handle = f.bugle.handle(id);
    assert_eq!(handle.wait::<()>().await.unwrap().how, Ending::Done(()));
    assert_eq!(handle.wait::<Option<i32>>().await.unwrap().how, Ending::Done(None));
    let wrong = handle.wait::<String>().await.unwrap_err();
    assert!(wrong.to_string().contains(&format!("result of job {id} does not fit")), "{wrong}");
}

#[tokio::test]
async fn a_job_that_dies_is_told_with_its_last_error() {
    let f = Fixture::new().await;
    let ids = f.enqueue(2).await;
    let look = f.claim(1).await;
    f.queue.fail(&[hopeless(&look.jobs[0])], &[look.token]).await.unwrap();
    let end = told(&f.bugle.handle(ids[0])).await;
    assert_eq!((end.state(), end.attempt), (State::Dead, 1));
    let dead = end.done().unwrap_err();
    assert_eq!(dead, NotDone::Dead { id: ids[0], error: Some("io: no route".to_owned()) });
    assert!(dead.to_string().contains("bugle job retry"), "{dead}");

    f.execute("UPDATE bugle.job SET max_attempts = 1").await;
    f.claim_and_let_expire(1).await;
    assert_eq!(f.queue.sweep().await.unwrap(), 1);
    let end = told(&f.bugle.handle(ids[1])).await;
    assert!(matches!(&end.how, Ending::Dead { code: Some(code), .. } if code == "lease_expired"), "{end:?}");
}

#[tokio::test]
async fn a_cancelled_job_is_told_whatever_state_it_was_in() {
    let f = Fixture::new().await;
    let later = f.bugle.enqueue_raw("q", "k", raw("1")).delay(SOON).send().await.unwrap();
    let leased = f.enqueue(1).await[0];
    f.claim(1).await;
    let ready = f.enqueue(1).await[0];
    for id in [later, leased, ready] {
        f.bugle.cancel_job(id).await.unwrap().unwrap();
        let end = told(&f.bugle.handle(id)).await;
        assert_eq!(end.how, Ending::Cancelled);
        assert!(end.done().unwrap_err().to_string().contains(&format!("job {id} was cancelled")));
    }
}

#[tokio::test]
async fn every_statement_that_ends_jobs_tells_of_them() {
    let f = Fixture::new().await;
    let ids = f.enqueue(5).await;
    let held = f.claim(5).await;
    let told = || async {
        f.one::<Vec<String>>("SELECT array(SELECT state || cardinality(ids) FROM bugle.ended ORDER BY x)")
            .await
    };
    f.queue.release(&[held.jobs[4].receipt], &[]).await.unwrap();
    f.queue.snooze(&[(held.jobs[3].receipt, SOON)], &[]).await.unwrap();
    let again = Failure { retry_in: Some(SOON), ..hopeless(&held.jobs[2]) };
    f.queue.fail(&[again], &[]).await.unwrap();
    assert!(told().await.is_empty(), "none of that is an end");
    f.queue.ack(&receipts(&held.jobs)[..2], &[]).await.unwrap();
    f.queue.ack(&receipts(&held.jobs)[..2], &[]).await.unwrap();
    assert_eq!(told().await, ["done2"], "and only once");
    f.bugle.cancel_job(ids[3]).await.unwrap().unwrap();
    f.bugle.cancel_job(ids[4]).await.unwrap().unwrap();
    f.bugle.retry_job(ids[2]).await.unwrap().unwrap();
    let held = f.claim(1).await;
    f.queue.fail(&[hopeless(&held.jobs[0])], &[held.token]).await.unwrap();
    assert_eq!(told().await, ["done2", "cancelled1", "cancelled1", "dead1"]);
    f.bugle.retry_job(ids[2]).await.unwrap().unwrap();
    f.execute("UPDATE bugle.job SET max_attempts = 1").await;
    f.claim_and_let_expire(1).await;
    f.queue.sweep().await.unwrap();
    assert_eq!(told().await, ["done2", "cancelled1", "cancelled1", "dead1", "dead1"]);
    assert_eq!(f.counts().await, "done 2, dead 1, cancelled 2");
}

#[tokio::test]
async fn a_job_that_is_not_there_is_an_error_and_no_wait() {
    let f = Fixture::new().await;
    let missing = async |id: JobId| {
        let error = f.bugle.handle(id).wait_within::<()>(SOON).await.unwrap_err();
        assert!(matches!(error, Error::NoJob { .. }), "{error}");
        error.to_string()
    };
    let told = missing(JobId(4711)).await;
    assert!(told.contains("there is no job 4711 in namespace default"), "{told}");
    // Dead, and purged.
    let id = f.enqueue(1).await[0];
    let look = f.claim(1).await;
    f.queue.fail(&[hopeless(&look.jobs[0])], &[look.token]).await.unwrap();
    f.execute("SELECT bugle.change_dead('purge', 'default', NULL, NULL, NULL, NULL, 0, 100)").await;
    missing(id).await;
    // In another namespace.
    f.execute(
        "SELECT bugle.declare_namespace('other'); SELECT bugle.enqueue('q', 'k', namespace => 'other')",
    )
    .await;
    missing(JobId(f.one("SELECT max(id) FROM bugle.job").await)).await;
    // The key's job of long ago, which left no trace: its number is not waited for in vain.
    let keyed = || f.bugle.enqueue_raw("q", "k", raw("1")).key("once");
    let first = keyed().send().await.unwrap();
    let look = f.claim(1).await;
    f.queue.ack(&receipts(&look.jobs), &[look.token]).await.unwrap();
    f.execute("DELETE FROM bugle.history").await;
    let handle = keyed().send_handle().await.unwrap();
    assert_eq!(handle.id(), first);
    assert!(matches!(handle.wait_within::<()>(SOON).await.unwrap_err(), Error::NoJob { .. }));
}

#[tokio::test]
async fn a_queue_that_keeps_no_history_is_refused_also_when_that_is_decided_later() {
    let f = Fixture::new().await;
    let ids = f.enqueue(2).await;
    let handle = f.bugle.handle(ids[1]);
    let waiting = tokio::spawn(async move { handle.wait::<()>().await });
    while f.one::<i64>("SELECT count(*) FROM bugle.seat").await == 0 {
        tokio::task::yield_now().await;
    }
    f.execute("UPDATE bugle.queue SET history = false").await;
    let look = f.claim(1).await;
    f.queue.ack(&receipts(&look.jobs), &[look.token]).await.unwrap();
    let refused = waiting.await.unwrap().unwrap_err().to_string();
    assert!(
        refused.contains("queue \"q\" keeps no history") && refused.contains("history = true"),
        "{refused}"
    );
    let refused = f.bugle.handle(ids[1]).wait_within::<()>(SOON).await.unwrap_err();
    assert!(matches!(refused, Error::Invalid { .. }), "{refused}");
}
