//! An outbox as seed 004 describes it: an item and the job that enriches it are committed together.
use crate::fixture::Fixture;
use crate::work::{settled, soon, start};
use bugle::{Bugle, Ctx, Job, Shared, Worker};
use sqlx::{PgPool, SqlSafeStr as _, SqlStr};
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};

#[derive(serde::Serialize, serde::Deserialize)]
struct Enrich {
    item: i64,
}

impl Job for Enrich {
    const KIND: &'static str = "enrich";
    const QUEUE: &'static str = "q";
}

/// Where items are, and what enriches one that is not enriched yet.
#[derive(Clone)]
struct Items {
    pool: PgPool,
    create: SqlStr,
    enrich: SqlStr,
}

impl Items {
    async fn new(f: &Fixture) -> Self {
        f.execute("CREATE TABLE bugle.item (id bigserial PRIMARY KEY, status text NOT NULL DEFAULT 'enriching', times int NOT NULL DEFAULT 0)")
            .await;
        let sql = |sql| f.db.sql(sql).unwrap().into_sql_str();
        Self {
            pool: f.db.pool().clone(),
            create: sql("INSERT INTO bugle.item DEFAULT VALUES RETURNING id"),
            enrich: sql(
                "UPDATE bugle.item SET status = 'ready', times = times + 1 WHERE id = $1 AND status = 'enriching'",
            ),
        }
    }

    /// An item and its job, in one transaction.
    async fn create(&self, bugle: &Bugle) {
        let mut tx = self.pool.begin().await.unwrap();
        let item: i64 = sqlx::query_scalar(self.create.clone()).fetch_one(&mut *tx).await.unwrap();
        bugle.enqueue(&Enrich { item }).on(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// False: it was enriched before.
    async fn enrich(&self, item: i64) -> bool {
        let done = sqlx::query(self.enrich.clone()).bind(item).execute(&self.pool).await.unwrap();
        done.rows_affected() == 1
    }
}

fn enricher(bugle: &Bugle, items: &Items) -> Worker {
    bugle.worker("q").share(items.clone()).handle(async |job: Enrich, items: Shared<Items>| {
        assert!(items.enrich(job.item).await, "somebody else has this item as well");
    })
}

const READY_ONCE: &str = "SELECT count(*) FROM bugle.item WHERE status = 'ready' AND times = 1";

#[tokio::test]
async fn a_sleeping_worker_is_rung_for_an_item_when_its_transaction_commits() {
    let f = Fixture::new().await;
    let items = Items::new(&f).await;
    let other = f.db.bugle().await.unwrap();
    let (stop, running) = start(enricher(&other, &items));
    let asleep = "SELECT EXISTS (SELECT FROM bugle.seat)";
    soon(async {
        while !f.one::<bool>(asleep).await {
            tokio::task::yield_now().await;
        }
    })
    .await;
    items.create(&f.bugle).await;
    settled(&f, "done 1").await;
    assert_eq!(f.one::<i64>(READY_ONCE).await, 1);
    let counters = other.node().unwrap().counters();
    assert_eq!((counters.rings.get(), counters.fallback_hits.get()), (1, 0), "rung, not polled");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn two_workers_share_items_and_none_is_enriched_by_both() {
    let f = Fixture::new().await;
    let items = Items::new(&f).await;
    let other = f.db.bugle().await.unwrap();
    let workers = [&f.bugle, &other].map(|bugle| enricher(bugle, &items).concurrency(4));
    let counters = workers.each_ref().map(Worker::counters);
    let running = workers.map(start);
    for _ in 0..200 {
        items.create(&f.bugle).await;
    }
    settled(&f, "done 200").await;
    assert_eq!(f.one::<i64>(READY_ONCE).await, 200);
    let each = counters.map(|counters| counters.kind("enrich").done.get());
    assert_eq!(each.iter().sum::<u64>(), 200, "{each:?}");
    for (stop, running) in running {
        stop.cancel();
        running.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn an_item_that_is_processed_twice_is_unchanged_after_the_first_time() {
    let f = Fixture::new().await;
    let items = Items::new(&f).await;
    let (told, mut hears) = mpsc::unbounded_channel();
    let go = Arc::new(Notify::new());
    let worker = f.bugle.worker("q").share(items.clone()).handle({
        let go = go.clone();
        move |job: Enrich, items: Shared<Items>, ctx: Ctx| {
            let (go, told) = (go.clone(), told.clone());
            async move {
                told.send((ctx.attempt, items.enrich(job.item).await)).unwrap();
                if ctx.attempt == 1 {
                    go.notified().await; // its lease ends before it does
                }
            }
        }
    });
    let (stop, running) = start(worker);
    items.create(&f.bugle).await;
    assert_eq!(soon(hears.recv()).await, Some((1, true)));
    f.execute("UPDATE bugle.lease SET until = clock_timestamp()").await;
    f.queue.sweep().await.unwrap();
    f.execute("SELECT bugle.ring_queue('q')").await; // another slot of the same worker gets it
    assert_eq!(soon(hears.recv()).await, Some((2, false)));
    settled(&f, "done 1").await;
    go.notify_one();
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(f.counts().await, "done 1");
    assert_eq!(f.one::<i64>(READY_ONCE).await, 1);
}
