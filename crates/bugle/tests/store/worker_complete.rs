//! Effects in the same database happen exactly once: the job ends inside the handler's own transaction.
use crate::fixture::Fixture;
use crate::work::{Add, quick, settled, soon, start};
use bugle::{Ctx, Error, Shared};
use sqlx::{PgPool, PgTransaction, SqlSafeStr as _};
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};

/// Where handlers work: a pool, and a table of effects.
#[derive(Clone)]
struct Ledger {
    pool: PgPool,
    insert: sqlx::SqlStr,
}

impl Ledger {
    async fn new(f: &Fixture) -> Self {
        f.execute("CREATE TABLE bugle.effect (attempt int NOT NULL)").await;
        let insert = f.db.sql("INSERT INTO bugle.effect (attempt) VALUES ($1)").unwrap().into_sql_str();
        Self { pool: f.db.pool().clone(), insert }
    }

    /// Begins a transaction and does the job's work in it.
    async fn work(&self, ctx: &Ctx) -> PgTransaction<'static> {
        let mut tx = self.pool.begin().await.unwrap();
        let insert = sqlx::query(self.insert.clone()).bind(i32::from(ctx.attempt));
        insert.execute(&mut *tx).await.unwrap();
        tx
    }
}

async fn effects(f: &Fixture) -> Vec<i32> {
    f.one("SELECT coalesce(array_agg(attempt ORDER BY attempt), '{}') FROM bugle.effect").await
}

#[tokio::test]
async fn effects_and_end_are_committed_together_and_nothing_undoes_them() {
    let f = Fixture::new().await;
    let worker =
        quick(&f).share(Ledger::new(&f).await).handle(async |_: Add, ledger: Shared<Ledger>, ctx: Ctx| {
            let mut tx = ledger.work(&ctx).await;
            ctx.complete_in_with(&mut tx, &"paid").await.unwrap();
            tx.commit().await.unwrap();
            Err::<(), _>("too late to fail")
        });
    let (stop, running) = start(worker);
    f.bugle.enqueue(&Add { n: 0 }).send().await.unwrap();
    settled(&f, "done 1").await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(f.counts().await, "done 1", "the later settlement found nothing");
    assert_eq!(effects(&f).await, [1]);
    assert_eq!(f.one::<String>("SELECT result #>> '{}' FROM bugle.history").await, "paid");
    assert_eq!(f.one::<i64>("SELECT count(*) FROM bugle.failure").await, 0);
    assert_eq!(f.one::<i64>("SELECT count(*) FROM bugle.lease").await, 0, "the lease was closed");
}

#[tokio::test]
async fn a_job_completed_in_a_transaction_that_is_rolled_back_is_tried_again() {
    let f = Fixture::new().await;
    let worker =
        quick(&f).share(Ledger::new(&f).await).handle(async |_: Add, ledger: Shared<Ledger>, ctx: Ctx| {
            let mut tx = ledger.work(&ctx).await;
            ctx.complete_in(&mut tx).await.unwrap();
            if ctx.attempt == 1 { tx.rollback().await } else { tx.commit().await }
        });
    let (stop, running) = start(worker);
    let id = f.bugle.enqueue(&Add { n: 0 }).send().await.unwrap();
    settled(&f, "done 1").await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(effects(&f).await, [2]);
    let failed = f.bugle.show_job(id).await.unwrap().unwrap().failures;
    assert_eq!(failed.iter().map(|a| a.code.as_str()).collect::<Vec<_>>(), ["rolled_back"]);
}

#[tokio::test]
async fn nothing_is_committed_by_a_worker_that_lost_its_lease() {
    let f = Fixture::new().await;
    let (started, mut starts) = mpsc::unbounded_channel();
    let (said, mut says) = mpsc::unbounded_channel();
    let go = Arc::new(Notify::new());
    let worker = quick(&f).share(Ledger::new(&f).await).handle({
        let go = go.clone();
        move |_: Add, ledger: Shared<Ledger>, ctx: Ctx| {
            let (go, started, said) = (go.clone(), started.clone(), said.clone());
            // In a task of its own: a handler that has lost its lease is dropped, what it started elsewhere is not.
            async move {
                tokio::spawn(async move {
                    let mut tx = ledger.work(&ctx).await;
                    started.send(ctx.attempt).unwrap();
                    if ctx.attempt == 1 {
                        go.notified().await;
                    }
                    let answer = ctx.complete_in(&mut tx).await;
                    // As careless as can be.
                    tx.commit().await.ok();
                    said.send((ctx.attempt, answer)).unwrap();
                })
                .await
            }
        }
    });
    let (stop, running) = start(worker);
    f.bugle.enqueue(&Add { n: 0 }).send().await.unwrap();
    assert_eq!(soon(starts.recv()).await, Some(1));
    f.execute("UPDATE bugle.lease SET until = clock_timestamp()").await;
    f.queue.sweep().await.unwrap();
    f.execute("SELECT bugle.ring_queue('q')").await; // another slot of the same worker gets it
    assert_eq!(soon(starts.recv()).await, Some(2));
    assert!(matches!(soon(says.recv()).await, Some((2, Ok(())))));
    go.notify_one();
    let (attempt, answer) = soon(says.recv()).await.unwrap();
    let refused =
        matches!(&answer, Err(Error::Refused { message, .. }) if message.contains("no longer held"));
    assert!(attempt == 1 && refused, "{answer:?}");
    settled(&f, "done 1").await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(effects(&f).await, [2], "the first attempt's effect was not committed");
}

#[tokio::test]
async fn a_job_completed_in_an_open_transaction_is_not_handed_out_when_its_lease_ends() {
    let f = Fixture::new().await;
    let (told, mut hears) = mpsc::unbounded_channel();
    let go = Arc::new(Notify::new());
    let worker = quick(&f).share(Ledger::new(&f).await).handle({
        let go = go.clone();
        move |_: Add, ledger: Shared<Ledger>, ctx: Ctx| {
            let (go, told) = (go.clone(), told.clone());
            async move {
                let mut tx = ledger.work(&ctx).await;
                ctx.complete_in(&mut tx).await.unwrap();
                told.send(()).unwrap();
                go.notified().await;
                tx.commit().await
            }
        }
    });
    let (stop, running) = start(worker);
    f.bugle.enqueue(&Add { n: 0 }).send().await.unwrap();
    soon(hears.recv()).await.unwrap();
    f.execute("UPDATE bugle.lease SET until = clock_timestamp()").await;
    assert_eq!(f.queue.sweep().await.unwrap(), 0, "the row is locked: nobody waits for it, nobody takes it");
    assert!(f.claim(1).await.jobs.is_empty());
    go.notify_one();
    settled(&f, "done 1").await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(effects(&f).await, [1]);
}

#[tokio::test]
async fn a_handler_that_has_completed_its_job_is_not_stopped_as_if_somebody_had_cancelled_it() {
    let f = Fixture::new().await;
    let (told, mut hears) = mpsc::unbounded_channel();
    let worker =
        quick(&f).share(Ledger::new(&f).await).handle(move |_: Add, ledger: Shared<Ledger>, ctx: Ctx| {
            let told = told.clone();
            async move {
                let mut tx = ledger.work(&ctx).await;
                ctx.complete_in(&mut tx).await.unwrap();
                tx.commit().await.unwrap();
                told.send("committed").unwrap();
                ctx.stop.cancelled().await; // the job is gone, and the worker noticed
                tokio::task::yield_now().await;
                told.send("ended").unwrap();
            }
        });
    let counters = worker.counters();
    let (stop, running) = start(worker);
    f.bugle.enqueue(&Add { n: 0 }).send().await.unwrap();
    assert_eq!(soon(hears.recv()).await, Some("committed"));
    f.execute("SELECT bugle.ring_control()").await;
    assert_eq!(soon(hears.recv()).await, Some("ended"));
    settled(&f, "done 1").await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!((counters.kind("add").done.get(), counters.kind("add").cancelled.get()), (1, 0));
}
