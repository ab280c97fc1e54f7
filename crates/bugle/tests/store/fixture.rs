//! What most tests begin with.
use bugle::jobs::{Claimed, Look, Queue, Receipt};
use bugle::{Bugle, JobId};
use bugle_testkit::postgres::TestDb;
use serde_json::value::RawValue;
use sqlx::PgConnection;
use sqlx::{Connection as _, FromRow, Row as _};
use std::time::Duration;

pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// A database place, a Bugle in it, and a queue `q`.
pub(crate) struct Fixture {
    pub(crate) db: TestDb,
    pub(crate) bugle: Bugle,
    pub(crate) queue: Queue,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        let db = TestDb::schema().await.unwrap();
        let bugle = db.bugle().await.unwrap();
        let queue = bugle.queue("q").await.unwrap();
        Self { db, bugle, queue }
    }

    /// Another session.
    pub(crate) async fn session(&self) -> PgConnection {
        PgConnection::connect_with(self.db.connect_options()).await.unwrap()
    }

    pub(crate) async fn enqueue(&self, n: usize) -> Vec<JobId> {
        let payloads = (0..n).map(|i| raw(&format!("{{\"n\":{i}}}"))).collect();
        self.bugle.enqueue_many_raw("q", "k", payloads).send().await.unwrap()
    }

    pub(crate) async fn claim(&self, most: u32) -> Look {
        self.queue.claim("w", most, LEASE).await.unwrap()
    }

    /// Claims with a lease that ends at once.
    pub(crate) async fn claim_and_let_expire(&self, most: u32) -> Look {
        let look = self.claim(most).await;
        self.expire(look.token).await;
        look
    }

    /// Ends a lease now, as if its time had passed.
    pub(crate) async fn expire(&self, token: i64) {
        let sql = self.db.sql("UPDATE bugle.lease SET until = clock_timestamp() WHERE token = $1").unwrap();
        sqlx::query(sql).bind(token).execute(self.db.pool()).await.unwrap();
    }

    /// One value, from SQL written for the schema `bugle`.
    pub(crate) async fn one<T>(&self, sql: &str) -> T
    where
        (T,): for<'r> FromRow<'r, sqlx::postgres::PgRow>,
        T: Send + Unpin,
    {
        sqlx::query_scalar(self.db.sql(sql).unwrap()).fetch_one(self.db.pool()).await.unwrap()
    }

    pub(crate) async fn execute(&self, sql: &str) {
        sqlx::raw_sql(self.db.sql(sql).unwrap()).execute(self.db.pool()).await.unwrap();
    }

    /// Until somebody waits for a queue's lock.
    pub(crate) async fn waits_for_the_queue(&self) {
        let sql = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
            AND classid::bigint = bugle.claim_class()::bigint & 4294967295)";
        while !self.one::<bool>(sql).await {
            tokio::task::yield_now().await;
        }
    }

    /// How many jobs are in which state by the maintained counters, as a short text; checked against the tables themselves.
    pub(crate) async fn counts(&self) -> String {
        let counted = self.counted().await;
        let rows = self.count_line(ROWS).await;
        assert_eq!(counted, rows, "counters and tables disagree");
        counted
    }

    /// The counters alone, for while work goes on: two statements see two states.
    pub(crate) async fn counted(&self) -> String {
        self.count_line(COUNTED).await
    }

    async fn count_line(&self, sql: &str) -> String {
        let row = sqlx::query(self.db.sql(sql).unwrap()).fetch_one(self.db.pool()).await.unwrap();
        let states = ["scheduled", "ready", "leased", "done", "dead", "cancelled"];
        let parts = states.iter().map(|s| (s, row.get::<i64, _>(*s))).filter(|(_, n)| *n != 0);
        parts.map(|(s, n)| format!("{s} {n}")).collect::<Vec<_>>().join(", ")
    }
}

const COUNTED: &str = "SELECT sum(scheduled)::bigint AS scheduled, sum(ready)::bigint AS ready, sum(leased)::bigint AS leased,
    sum(done)::bigint AS done, sum(dead)::bigint AS dead, sum(cancelled)::bigint AS cancelled FROM bugle.queue_count";

const ROWS: &str = "SELECT count(*) FILTER (WHERE state = 'scheduled') AS scheduled, count(*) FILTER (WHERE state = 'ready') AS ready,
    count(*) FILTER (WHERE state = 'leased') AS leased, count(*) FILTER (WHERE state = 'done') AS done,
    count(*) FILTER (WHERE state = 'dead') AS dead, count(*) FILTER (WHERE state = 'cancelled') AS cancelled FROM bugle.job_view";

pub(crate) fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

pub(crate) fn ids(jobs: &[Claimed]) -> Vec<JobId> {
    jobs.iter().map(|j| j.id).collect()
}

pub(crate) fn receipts(jobs: &[Claimed]) -> Vec<Receipt> {
    jobs.iter().map(|j| j.receipt).collect()
}
