//! Jobs that are to be settled while somebody else's open transaction holds one of them.
use crate::fixture::Fixture;
use crate::work::{Add, quick, settled, soon, start};
use bugle::{Ctx, Shared};
use sqlx::{Connection as _, PgConnection, PgPool, PgTransaction};
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// Somebody who locks a job's row and stays.
async fn hold(f: &Fixture, id: bugle::JobId) -> PgConnection {
    let mut stranger = f.session().await;
    sqlx::raw_sql("BEGIN").execute(&mut stranger).await.unwrap();
    let lock = f.db.sql("SELECT 1 FROM bugle.job WHERE id = $1 FOR UPDATE").unwrap();
    sqlx::query(lock).bind(id.0).execute(&mut stranger).await.unwrap();
    stranger
}

/// Five jobs end at the same moment while a stranger holds one of them; the others are settled. Then the stranger ends as `end` says.
async fn one_of_five_is_held(end: &str) -> Fixture {
    let f = Fixture::new().await;
    let (started, mut starts) = mpsc::unbounded_channel();
    let go = Arc::new(Semaphore::new(0));
    let worker = quick(&f).concurrency(5).handle({
        let go = go.clone();
        move |_: Add, ctx: Ctx| {
            started.send(ctx.id).unwrap();
            let go = go.clone();
            async move { go.acquire().await.unwrap().forget() }
        }
    });
    let (stop, running) = start(worker);
    let jobs: Vec<Add> = (0..5).map(|n| Add { n }).collect();
    let ids = f.bugle.enqueue_many(&jobs).send().await.unwrap();
    for _ in 0..5 {
        soon(starts.recv()).await.unwrap();
    }
    let mut stranger = hold(&f, ids[2]).await;
    go.add_permits(5);
    settled(&f, "leased 1, done 4").await;
    let end = f.db.sql(&end.replace("ID", &ids[2].to_string())).unwrap();
    sqlx::raw_sql(end).execute(&mut stranger).await.unwrap();
    stop.cancel();
    running.await.unwrap().unwrap();
    assert!(starts.try_recv().is_err(), "none ran twice");
    stranger.close().await.unwrap();
    f
}

#[tokio::test]
async fn a_job_that_a_stranger_holds_is_settled_when_he_lets_go_and_the_others_at_once() {
    let f = one_of_five_is_held("ROLLBACK").await;
    assert_eq!(f.counts().await, "done 5");
    assert_eq!(f.one::<i64>("SELECT count(*) FROM bugle.lease").await, 0, "the lease was closed");
}

#[tokio::test]
async fn a_job_that_is_cancelled_while_others_are_settled_stays_cancelled() {
    let f = one_of_five_is_held("SELECT bugle.cancel(ID); COMMIT").await;
    assert_eq!(f.counts().await, "done 4, cancelled 1");
}

#[tokio::test]
async fn handlers_that_forget_their_transactions_hold_up_nobody_else() {
    let f = Fixture::new().await;
    let (left, mut open) = mpsc::unbounded_channel::<PgTransaction<'static>>();
    let worker =
        quick(&f).share(f.db.pool().clone()).handle(move |job: Add, pool: Shared<PgPool>, ctx: Ctx| {
            let left = left.clone();
            async move {
                if job.n < 3 && ctx.attempt == 1 {
                    let mut tx = pool.begin().await.unwrap();
                    ctx.complete_in(&mut tx).await.unwrap();
                    left.send(tx).unwrap();
                }
            }
        });
    let (stop, running) = start(worker);
    let mut forgotten = Vec::new();
    for n in 0..3 {
        f.bugle.enqueue(&Add { n }).send().await.unwrap();
        forgotten.push(soon(open.recv()).await.unwrap());
    }
    for n in 3..50 {
        f.bugle.enqueue(&Add { n }).send().await.unwrap();
    }
    settled(&f, "leased 3, done 47").await;
    let [first, second, third] = forgotten.try_into().unwrap();
    first.commit().await.unwrap();
    second.rollback().await.unwrap(); // tried again
    third.commit().await.unwrap();
    settled(&f, "done 50").await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(f.one::<Vec<String>>("SELECT array_agg(code) FROM bugle.failure").await, ["rolled_back"]);
}
