//! What most tests begin with: a place, nodes in it, and ways to wait for what they do.
use bugle::jobs::{Claimed, Look};
use bugle::{Bugle, Ctx, JobId};
use bugle_testkit::postgres::TestDb;
use bugle_testkit::proxy::Proxy;
use bugle_wake::{Node, Number, Options};
use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgRow};
use sqlx::{Connection as _, FromRow, PgConnection};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(crate) use bugle_testkit::{SOON, until};

/// So far away that whatever happens was not caused by it.
pub(crate) const HOUR: Duration = Duration::from_hours(1);

/// A schema of one test's own. `outside` belongs to no node: nobody ever waits with it.
pub(crate) struct Place {
    pub(crate) db: TestDb,
    pub(crate) outside: Bugle,
}

impl Place {
    pub(crate) async fn new() -> Self {
        let db = TestDb::schema().await.unwrap();
        let outside = db.bugle().await.unwrap();
        outside.queue("q").await.unwrap();
        Self { db, outside }
    }

    /// A node whose heartbeat is an hour away, so that nothing is found by accident.
    pub(crate) async fn node(&self, tune: impl FnOnce(&mut Options)) -> Bugle {
        self.node_with(None, tune).await
    }

    /// A node whose listener goes another way, such as through a proxy.
    pub(crate) async fn node_with(
        &self,
        listener: Option<PgConnectOptions>,
        tune: impl FnOnce(&mut Options),
    ) -> Bugle {
        self.node_on(self.db.connect_options(), listener, tune).await
    }

    /// A node whose pool, its looks that is, goes another way.
    pub(crate) async fn node_on(
        &self,
        connect: &PgConnectOptions,
        listener: Option<PgConnectOptions>,
        tune: impl FnOnce(&mut Options),
    ) -> Bugle {
        let mut wake = Options::default();
        wake.times.heartbeat = HOUR;
        tune(&mut wake);
        let connect = connect.clone().application_name(&self.node_name());
        let pool = PgPoolOptions::new().max_connections(8).connect_with(connect).await.unwrap();
        let options = bugle::Options {
            schema: self.db.schema_name().unwrap(),
            wake,
            listener,
            ..bugle::Options::default()
        };
        Bugle::new(pool, options).await.unwrap()
    }

    /// The sessions of the nodes' pools carry it; those of the listeners do not.
    pub(crate) fn node_name(&self) -> String {
        format!("{} node", self.db.name())
    }

    pub(crate) async fn number(&self, queue: &str) -> Number {
        self.outside.queue(queue).await.unwrap();
        let sql = self.db.sql("SELECT bugle.find_queue('default', $1)").unwrap();
        Number(sqlx::query_scalar(sql).bind(queue).fetch_one(self.db.pool()).await.unwrap())
    }

    pub(crate) async fn enqueue(&self, queue: &str, jobs: usize) -> Vec<JobId> {
        let payloads = (0..jobs).map(|n| raw(&n.to_string())).collect();
        self.outside.enqueue_many_raw(queue, "k", payloads).send().await.unwrap()
    }

    pub(crate) async fn enqueue_in(&self, queue: &str, delay: Duration) -> JobId {
        self.outside.enqueue_raw(queue, "k", raw("1")).delay(delay).send().await.unwrap()
    }

    /// One value, from SQL written for the schema `bugle`.
    pub(crate) async fn one<T>(&self, sql: &str) -> T
    where
        (T,): for<'r> FromRow<'r, PgRow>,
        T: Send + Unpin,
    {
        sqlx::query_scalar(self.db.sql(sql).unwrap()).fetch_one(self.db.pool()).await.unwrap()
    }

    pub(crate) async fn execute(&self, sql: &str) {
        sqlx::raw_sql(self.db.sql(sql).unwrap()).execute(self.db.pool()).await.unwrap();
    }

    /// Claims the next jobs of a queue, outside of every node.
    pub(crate) async fn claim(&self, queue: &str, most: u32) -> Look {
        let queue = self.outside.queue(queue).await.unwrap();
        queue.claim("outside", most, HOUR).await.unwrap()
    }

    /// Ends them all, each with its own number as its result.
    pub(crate) async fn end(&self, queue: &str, look: Look) {
        let done: Vec<_> =
            look.jobs.iter().map(|job| (job.receipt, Some(serde_json::json!(job.id)))).collect();
        let queue = self.outside.queue(queue).await.unwrap();
        assert_eq!(queue.ack_with(&done, &[look.token]).await.unwrap().len(), done.len());
    }

    /// A proxy in front of the server, for listeners that are to suffer.
    pub(crate) async fn proxy(&self) -> Proxy {
        let options = self.db.connect_options();
        let server = tokio::net::lookup_host((options.get_host(), options.get_port())).await.unwrap().next();
        Proxy::start(server.unwrap()).await.unwrap()
    }

    /// Another session.
    pub(crate) async fn session(&self) -> PgConnection {
        PgConnection::connect_with(self.db.connect_options()).await.unwrap()
    }

    /// Looks that PostgreSQL has answered, whoever sent them. One that failed is not counted.
    pub(crate) async fn looks(&self) -> i64 {
        self.db.statements(&["FROM bugle.look(", "INSERT INTO bugle.cursor (queue, gen, px"]).await.unwrap()
    }

    /// Looks for ends that PostgreSQL has answered.
    pub(crate) async fn end_looks(&self) -> i64 {
        self.statements("FROM bugle.look_ends(").await
    }

    /// Statements of a client, by what they contain. The other statements of a test are not to contain it.
    pub(crate) async fn statements(&self, part: &str) -> i64 {
        self.db.statements(&[part]).await.unwrap()
    }

    /// Who holds which seat: how many sentinels and how many reserves there are.
    pub(crate) async fn seats(&self) -> (i64, i64) {
        let sql = "SELECT count(*) FILTER (WHERE seat = 'sentinel'), count(*) FILTER (WHERE seat = 'reserve') FROM bugle.seat";
        sqlx::query_as(self.db.sql(sql).unwrap()).fetch_one(self.db.pool()).await.unwrap()
    }

    /// Keeps every claim of a queue waiting, as a stranger's long transaction does.
    pub(crate) async fn hold_claims(&self, queue: &str) -> Stranger {
        let (number, mut session) = (self.number(queue).await, self.session().await);
        sqlx::raw_sql("BEGIN").execute(&mut session).await.unwrap();
        let lock = self.db.sql("SELECT pg_advisory_xact_lock(bugle.claim_class(), $1)").unwrap();
        sqlx::query(lock).bind(number.0).execute(&mut session).await.unwrap();
        Stranger(session)
    }

    /// Waits until so many claims wait for a stranger.
    pub(crate) async fn claims_held(&self, claims: i64) {
        let sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
            AND classid::bigint = bugle.claim_class()::bigint & 4294967295";
        until("claims wait for the stranger", async || self.one::<i64>(sql).await == claims).await;
    }

    /// Waits until a node has so many intentions, holds its seats, and does nothing any more.
    pub(crate) async fn asleep(&self, bugle: &Bugle, intentions: usize) {
        until("the node sleeps", async || {
            let Some(status) = bugle.node().map(Node::status) else { return false };
            let seated = !status.seats.sentinel.is_empty() || !status.seats.reserve.is_empty();
            status.listening && status.intentions == intentions && seated && !status.alert
        })
        .await;
        self.quiet(bugle).await;
    }

    /// Waits until a node does nothing any more.
    pub(crate) async fn quiet(&self, bugle: &Bugle) {
        let active = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state <> 'idle'";
        until("the node is quiet", async || {
            let before = node(bugle).counters().table();
            // That nothing happens can only be seen by watching for a while.
            tokio::time::sleep(Duration::from_millis(60)).await;
            let active: i64 =
                sqlx::query_scalar(active).bind(self.node_name()).fetch_one(self.db.pool()).await.unwrap();
            active == 0 && before == node(bugle).counters().table()
        })
        .await;
    }

    /// Waits until a node sends nothing for a whole second: what it had to do at its start may come late, what it does again and again
    /// never leaves such a second.
    pub(crate) async fn silent(&self, bugle: &Bugle) {
        until("the node is silent", async || {
            let before = (self.statements("bugle.").await, node(bugle).counters().table());
            tokio::time::sleep(Duration::from_secs(1)).await; // the only way to see that nothing happens
            before == (self.statements("bugle.").await, node(bugle).counters().table())
        })
        .await;
    }

    /// The database's clock.
    pub(crate) async fn clock(&self) -> DateTime<Utc> {
        self.one("SELECT clock_timestamp()").await
    }

    /// Ends the listener's session of every node that holds a seat.
    pub(crate) async fn end_listeners(&self) -> i64 {
        let pids: Vec<i32> = sqlx::query_scalar(self.db.sql("SELECT DISTINCT pid FROM bugle.seat").unwrap())
            .fetch_all(self.db.pool())
            .await
            .unwrap();
        let ended = "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM unnest($1::int[]) AS pid";
        sqlx::query_scalar(ended).bind(pids).fetch_one(self.db.pool()).await.unwrap()
    }
}

/// Somebody's open transaction.
pub(crate) struct Stranger(PgConnection);

impl Stranger {
    pub(crate) async fn goes(mut self) {
        sqlx::raw_sql("ROLLBACK").execute(&mut self.0).await.unwrap();
        self.0.close().await.unwrap();
    }
}

/// A worker at work, and what it has begun.
pub(crate) struct Running {
    begun: mpsc::UnboundedReceiver<Claimed>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), bugle::Error>>,
}

impl Running {
    /// A worker of 16 slots whose jobs are done at once.
    pub(crate) fn on(bugle: &Bugle, queue: &str) -> Self {
        Self::leased(bugle, queue, HOUR)
    }

    pub(crate) fn leased(bugle: &Bugle, queue: &str, lease: Duration) -> Self {
        let (started, begun) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let worker = bugle.worker(queue).lease(lease).handle_any(move |job: Claimed, _: Ctx| {
            let _ = started.send(job);
            async {}
        });
        Self { begun, task: tokio::spawn(worker.run(stop.clone())), stop }
    }

    /// The next job that it begins.
    pub(crate) async fn next(&mut self) -> Claimed {
        tokio::time::timeout(SOON, self.begun.recv()).await.expect("no job was begun").unwrap()
    }

    /// What it has begun and was not asked for yet.
    pub(crate) fn begun(&mut self) -> Vec<JobId> {
        std::iter::from_fn(|| self.begun.try_recv().ok()).map(|job| job.id).collect()
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

pub(crate) fn node(bugle: &Bugle) -> &Node {
    bugle.node().expect("nothing has waited with it yet")
}

pub(crate) fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}
