//! A worker and its handlers, all the way.
use crate::fixture::{Fixture, raw};
use crate::work::{Add, quick, settled, start};
use bugle::{Ctx, Verdict, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn every_job_is_run_and_done() {
    let f = Fixture::new().await;
    let sum = Arc::new(AtomicUsize::new(0));
    let worker = quick(&f).handle({
        let sum = sum.clone();
        move |job: Add, _: Ctx| {
            sum.fetch_add(job.n, Ordering::Relaxed);
            async {}
        }
    });
    let (stop, running) = start(worker);
    let jobs: Vec<Add> = (0..300).map(|n| Add { n }).collect();
    f.bugle.enqueue_many(&jobs).send().await.unwrap();
    settled(&f, "done 300").await;
    assert_eq!(sum.load(Ordering::Relaxed), (0..300).sum::<usize>());
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(f.one::<i64>("SELECT count(*) FROM bugle.lease").await, 0, "every lease was closed");
}

#[tokio::test]
async fn an_error_a_panic_and_a_missing_handler_are_tried_again_until_dead() {
    let f = Fixture::new().await;
    let worker = quick(&f).handle(|job: Add, ctx: Ctx| async move {
        assert!(job.n != 1, "boom");
        if ctx.attempt < 3 { Err(std::io::Error::other("not yet")) } else { Ok(()) }
    });
    let (stop, running) = start(worker);
    let fails_twice = f.bugle.enqueue(&Add { n: 0 }).send().await.unwrap();
    let panics = f.bugle.enqueue(&Add { n: 1 }).send().await.unwrap();
    let unknown = f.bugle.enqueue_raw("q", "what", raw("1")).max_attempts(2).send().await.unwrap();
    let misfit = f.bugle.enqueue_raw("q", "add", raw("\"text\"")).max_attempts(1).send().await.unwrap();
    settled(&f, "done 1, dead 3").await;
    stop.cancel();
    running.await.unwrap().unwrap();
    let codes = async |id| {
        let failures = f.bugle.show_job(id).await.unwrap().unwrap().failures;
        failures.into_iter().map(|a| format!("{}: {}", a.code, a.message)).collect::<Vec<_>>()
    };
    assert_eq!(
        codes(fails_twice).await,
        ["std::io::error::Error: not yet", "std::io::error::Error: not yet"]
    );
    assert_eq!(codes(panics).await, ["panic: boom", "panic: boom", "panic: boom"]);
    assert_eq!(codes(unknown).await.len(), 2);
    assert!(codes(unknown).await[0].contains("no handler for kind \"what\""));
    assert!(codes(misfit).await[0].starts_with("payload: payload does not fit"));
}

#[tokio::test]
async fn a_verdict_decides() {
    let f = Fixture::new().await;
    let seen = Arc::new(AtomicUsize::new(0));
    let worker = quick(&f).handle({
        let seen = seen.clone();
        move |job: Add, ctx: Ctx| {
            let first = seen.fetch_add(1, Ordering::Relaxed) == 0;
            async move {
                match job.n {
                    0 if first => Verdict::Release,
                    0 => {
                        assert_eq!(ctx.attempt, 1, "a release does not count");
                        Verdict::Done
                    }
                    _ => Verdict::Dead { code: "no".into(), message: "never".into() },
                }
            }
        }
    });
    let (stop, running) = start(worker);
    f.bugle.enqueue(&Add { n: 0 }).send().await.unwrap();
    settled(&f, "done 1").await;
    f.bugle.enqueue(&Add { n: 1 }).send().await.unwrap();
    settled(&f, "done 1, dead 1").await;
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_job_longer_than_its_lease_is_renewed_and_runs_once() {
    let f = Fixture::new().await;
    let runs = Arc::new(AtomicUsize::new(0));
    // A lease that outlasts what else a busy machine may do between two renewals.
    let worker = quick(&f).lease(Duration::from_secs(3)).handle({
        let runs = runs.clone();
        move |_: Add, _: Ctx| {
            runs.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(7))
        }
    });
    let (stop, running) = start(worker);
    f.bugle.enqueue(&Add { n: 0 }).send().await.unwrap();
    settled(&f, "done 1").await;
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_handler_is_told_when_its_lease_is_lost_and_reports_nothing() {
    let f = Fixture::new().await;
    let (started, mut starts) = mpsc::unbounded_channel();
    let worker = quick(&f).lease(Duration::from_millis(300)).handle(move |_: Add, ctx: Ctx| {
        started.send(ctx.clone()).unwrap();
        async move {
            if ctx.attempt == 1 {
                std::future::pending::<()>().await;
            }
        }
    });
    let (stop, running) = start(worker);
    f.bugle.enqueue(&Add { n: 0 }).send().await.unwrap();
    let first = starts.recv().await.unwrap();
    f.execute("UPDATE bugle.lease SET until = clock_timestamp()").await;
    first.stop.cancelled().await;
    let second = starts.recv().await.unwrap();
    assert_eq!((second.id, second.attempt), (first.id, 2));
    settled(&f, "done 1").await;
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn stopping_lets_jobs_end_and_gives_back_those_that_do_not() {
    let f = Fixture::new().await;
    let (started, mut starts) = mpsc::unbounded_channel();
    let go = Arc::new(Notify::new());
    let worker = quick(&f).concurrency(2).drain(Duration::from_millis(500)).handle({
        let go = go.clone();
        move |job: Add, _: Ctx| {
            started.send(job.n).unwrap();
            let go = go.clone();
            async move {
                match job.n {
                    0 => go.notified().await,
                    _ => std::future::pending().await,
                }
            }
        }
    });
    let (stop, running) = start(worker);
    f.bugle.enqueue_many(&[Add { n: 0 }, Add { n: 1 }, Add { n: 2 }]).send().await.unwrap();
    starts.recv().await.unwrap();
    starts.recv().await.unwrap();
    stop.cancel();
    go.notify_one();
    running.await.unwrap().unwrap();
    assert_eq!(f.counts().await, "ready 2, done 1");
    assert_eq!(f.one::<i64>("SELECT sum(attempt)::bigint FROM bugle.job").await, 0, "no attempt was counted");
    assert!(starts.recv().await.is_none(), "the third was never started");
}

#[tokio::test]
async fn a_worker_survives_the_loss_of_its_connections() {
    let f = Fixture::new().await;
    let worker = quick(&f).lease(Duration::from_millis(500)).handle(|_: Add, _: Ctx| async {});
    let (stop, running) = start(worker);
    // It is at work: one that cannot even start says so and ends.
    f.bugle.enqueue(&Add { n: 0 }).send().await.unwrap();
    settled(&f, "done 1").await;
    for _ in 0..5 {
        f.bugle.enqueue(&Add { n: 0 }).key(&rand_key()).send().await.ok();
        let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND pid <> pg_backend_pid()";
        let mut session = f.session().await;
        sqlx::query(kill).bind(f.db.name()).execute(&mut session).await.unwrap();
    }
    f.bugle.enqueue(&Add { n: 0 }).send().await.unwrap();
    let open = "SELECT sum(scheduled + ready + leased)::bigint FROM bugle.queue_count";
    let all_ended = async {
        while f.one::<i64>(open).await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(30), all_ended).await;
    assert!(in_time.is_ok(), "{}; worker ended: {}", f.counted().await, running.is_finished());
    assert!(f.counts().await.starts_with("done"));
    stop.cancel();
    running.await.unwrap().unwrap();
}

fn rand_key() -> String {
    format!("{:x}", rand::random::<u64>())
}

#[tokio::test]
async fn a_worker_that_cannot_work_is_refused() {
    let f = Fixture::new().await;
    let refused = async |worker: Worker| worker.run(CancellationToken::new()).await.unwrap_err().to_string();
    assert!(refused(f.bugle.worker("q")).await.contains("no handler"));
    let good = || f.bugle.worker("q").handle(|_: Add, _: Ctx| async {});
    assert!(refused(good().concurrency(0)).await.contains("concurrency is 0"));
    assert!(refused(good().name("")).await.contains("worker name"));
}

#[tokio::test]
async fn a_worker_that_is_dropped_gives_its_jobs_back_and_leaves_nothing_running() {
    let f = Fixture::new().await;
    let (started, mut starts) = mpsc::unbounded_channel();
    let worker = quick(&f).handle(move |_: Add, ctx: Ctx| {
        started.send(ctx).unwrap();
        std::future::pending::<()>()
    });
    let running = tokio::spawn(worker.run(CancellationToken::new()));
    f.bugle.enqueue(&Add { n: 0 }).send().await.unwrap();
    starts.recv().await.unwrap();
    running.abort();
    settled(&f, "ready 1").await;
    assert!(starts.recv().await.is_none(), "the handlers are gone");
}
