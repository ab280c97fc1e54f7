//! What a handler may say, and what is kept of it.
use crate::fixture::{Fixture, ids, receipts};
use crate::work::{Add, quick, settled, start};
use bugle::{Ctx, Done, Verdict};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[derive(serde::Serialize)]
struct Sum {
    of: usize,
    is: usize,
}

#[tokio::test]
async fn a_typed_result_and_the_worker_are_kept_with_the_history() {
    let f = Fixture::new().await;
    let worker =
        quick(&f).handle(async |job: Add| Ok::<_, std::io::Error>(Done(Sum { of: job.n, is: job.n * 2 })));
    let (stop, running) = start(worker);
    f.bugle.enqueue(&Add { n: 21 }).send().await.unwrap();
    settled(&f, "done 1").await;
    stop.cancel();
    running.await.unwrap().unwrap();
    let kept: Value = f.one("SELECT jsonb_build_array(worker, result) FROM bugle.history").await;
    assert_eq!(kept, json!(["w", { "of": 21, "is": 42 }]));
}

#[tokio::test]
async fn acks_with_and_without_results_may_share_a_statement() {
    let f = Fixture::new().await;
    let sent = f.enqueue(3).await;
    let look = f.claim(3).await;
    let done: Vec<_> = receipts(&look.jobs).into_iter().zip([None, Some(json!("two")), None]).collect();
    assert_eq!(f.queue.ack_with(&done, &[look.token]).await.unwrap(), sent);
    let kept: Value = f.one("SELECT jsonb_agg(result ORDER BY id) FROM bugle.history").await;
    assert_eq!(kept, json!([null, "two", null]));
    assert_eq!(f.counts().await, "done 3");
}

#[tokio::test]
async fn a_snoozed_job_waits_and_its_attempt_is_not_counted() {
    let f = Fixture::new().await;
    let sent = f.enqueue(2).await;
    let look = f.claim(2).await;
    let late = [(look.jobs[0].receipt, Duration::from_hours(1)), (look.jobs[1].receipt, Duration::ZERO)];
    assert_eq!(f.queue.snooze(&late, &[look.token]).await.unwrap(), sent);
    assert_eq!(f.counts().await, "scheduled 2");
    assert!(f.queue.snooze(&late, &[]).await.unwrap().is_empty(), "a receipt works once");
    let again = loop {
        let look = f.claim(2).await;
        if !look.jobs.is_empty() {
            break look;
        }
    };
    assert_eq!((ids(&again.jobs), again.jobs[0].attempt), (vec![sent[1]], 1));
    assert_eq!(f.counts().await, "scheduled 1, leased 1");
    let far: bool = f.one("SELECT due_at > now() + interval '59 minutes' FROM bugle.due").await;
    assert!(far);
}

#[tokio::test]
async fn a_handler_may_snooze_as_often_as_it_likes() {
    let f = Fixture::new().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let worker = quick(&f).handle({
        let runs = runs.clone();
        move |_: Add, ctx: Ctx| {
            let run = runs.fetch_add(1, Ordering::Relaxed);
            async move {
                assert_eq!(ctx.attempt, 1, "a snooze does not count");
                if run < 5 { Verdict::snooze(Duration::from_millis(1)) } else { Verdict::Done }
            }
        }
    });
    let counters = worker.counters();
    let (stop, running) = start(worker);
    f.bugle.enqueue(&Add { n: 0 }).max_attempts(1).send().await.unwrap();
    settled(&f, "done 1").await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 6);
    let add = counters.kind("add");
    assert_eq!((add.claimed.get(), add.snoozed.get(), add.done.get()), (6, 5, 1));
}

#[tokio::test]
async fn a_burst_is_claimed_and_settled_in_large_batches() {
    const JOBS: u64 = 4_000;
    let f = Fixture::new().await;
    let jobs: Vec<Add> = (0..4_000).map(|n| Add { n }).collect();
    f.bugle.enqueue_many(&jobs).send().await.unwrap();
    let worker = quick(&f).concurrency(400).handle(async |_: Add| {});
    let counters = worker.counters();
    let (stop, running) = start(worker);
    settled(&f, "done 4000").await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(counters.kind("add").done.get(), JOBS);
    let (claims, settlements) = (counters.claims.get(), counters.settlements.get());
    assert!(claims < JOBS / 20 && settlements < JOBS / 20, "{claims} claims, {settlements} settlements");
    assert_eq!(f.one::<i64>("SELECT count(*) FROM bugle.lease").await, 0, "every lease was closed");
}
