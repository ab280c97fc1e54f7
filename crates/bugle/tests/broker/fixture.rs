//! What most tests begin with: a place, nodes in it, and ways to wait for what they do.
use bugle::Bugle;
use bugle::broker::{Broker, Delivered, Message, Pop, Popped, Pushed, Settle, Settled, Settlement, Verdict};
use bugle_testkit::postgres::TestDb;
use bugle_wake::{Node, Options};
use serde_json::value::RawValue;
use sqlx::postgres::{PgPoolOptions, PgRow};
use sqlx::{Connection as _, FromRow, PgConnection};
use std::time::Duration;

pub(crate) use bugle_testkit::{SOON, until};

/// So far away that whatever happens was not caused by it.
pub(crate) const HOUR: Duration = Duration::from_hours(1);

/// A schema of one test's own, and a broker that never waits with it.
pub(crate) struct Place {
    pub(crate) db: TestDb,
    pub(crate) bugle: Bugle,
    pub(crate) broker: Broker,
}

impl Place {
    pub(crate) async fn new() -> Self {
        let db = TestDb::schema().await.unwrap();
        let bugle = db.bugle().await.unwrap();
        let broker = bugle.broker();
        Self { db, bugle, broker }
    }

    /// A node whose heartbeat is an hour away, so that nothing is found by accident.
    pub(crate) async fn node(&self) -> Bugle {
        let mut wake = Options::default();
        wake.times.heartbeat = HOUR;
        let connect = self.db.connect_options().clone().application_name(&self.node_name());
        let pool = PgPoolOptions::new().max_connections(8).connect_with(connect).await.unwrap();
        let schema = self.db.schema_name().unwrap();
        Bugle::new(pool, bugle::Options { schema, wake, ..bugle::Options::default() }).await.unwrap()
    }

    fn node_name(&self) -> String {
        format!("{} node", self.db.name())
    }

    /// Another session.
    pub(crate) async fn session(&self) -> PgConnection {
        PgConnection::connect_with(self.db.connect_options()).await.unwrap()
    }

    /// A session in a transaction that has run this.
    pub(crate) async fn began(&self, sql: &str) -> PgConnection {
        let mut session = self.session().await;
        sqlx::raw_sql(self.db.sql(&format!("BEGIN; {sql}")).unwrap()).execute(&mut session).await.unwrap();
        session
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

    /// Pushes messages with these payloads into a partition of the queue `q`.
    pub(crate) async fn push(&self, partition: &str, payloads: impl IntoIterator<Item = i32>) -> Vec<Pushed> {
        let messages = payloads.into_iter().map(|payload| message("q", partition, payload)).collect();
        self.broker.push(messages).await.unwrap().into_iter().map(Result::unwrap).collect()
    }

    /// Sets an option of the queue `q`.
    pub(crate) async fn option(&self, set: &str) {
        self.execute(&format!(
            "SELECT bugle.declare_queue('q', 'default', 'messages'); UPDATE bugle.message_queue SET {set}"
        ))
        .await;
    }

    /// Pops what is there; panics when nothing is.
    pub(crate) async fn pop(&self, most: u32) -> Popped {
        self.broker.pop(&any(most)).await.unwrap().expect("nothing was there")
    }

    /// Is nothing there for a group?
    pub(crate) async fn is_empty(&self, group: &str) -> bool {
        self.broker.pop(&any(1).group(group).unwrap()).await.unwrap().is_none()
    }

    pub(crate) async fn settle(&self, popped: &Popped, verdict: Verdict) -> Vec<Settlement> {
        settlements(&self.broker.settle(&verdicts(popped, verdict)).await.unwrap())
    }

    /// Ends all leases now, as if their time had passed.
    pub(crate) async fn expire(&self) {
        self.execute("UPDATE bugle.group_cursor SET until = clock_timestamp() WHERE held").await;
    }

    /// Until so many wait for a partition's lock.
    pub(crate) async fn waits_for_a_partition(&self) {
        let sql = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
            AND classid::bigint = bugle.partition_class()::bigint & 4294967295)";
        until("somebody waits for a partition", async || self.one::<bool>(sql).await).await;
    }

    /// Until somebody waits for another transaction's end.
    pub(crate) async fn waits_for_a_transaction(&self) {
        let sql = "SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)
            WHERE l.locktype = 'transactionid' AND NOT l.granted AND position('bugle.' in a.query) > 0)";
        until("somebody waits for a transaction", async || self.one::<bool>(sql).await).await;
    }

    /// Looks that PostgreSQL has answered, whoever sent them.
    pub(crate) async fn looks(&self) -> i64 {
        self.db.statements(&["FROM bugle.look_messages("]).await.unwrap()
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
            let before = bugle.node().unwrap().counters().table();
            // That nothing happens can only be seen by watching for a while.
            tokio::time::sleep(Duration::from_millis(60)).await;
            let active: i64 =
                sqlx::query_scalar(active).bind(self.node_name()).fetch_one(self.db.pool()).await.unwrap();
            active == 0 && before == bugle.node().unwrap().counters().table()
        })
        .await;
    }
}

/// A pop of any partition of the queue `q`.
pub(crate) fn any(most: u32) -> Pop {
    Pop::new("q").unwrap().most(most).unwrap()
}

pub(crate) fn message(queue: &str, partition: &str, payload: i32) -> Message {
    Message::new(queue, raw(&payload.to_string())).unwrap().partition(partition).unwrap()
}

pub(crate) fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

pub(crate) fn payloads(messages: &[Delivered]) -> Vec<i32> {
    messages.iter().map(|message| message.payload.parse().unwrap()).collect()
}

pub(crate) fn verdicts(popped: &Popped, verdict: Verdict) -> Vec<Settle> {
    popped.receipts().map(|receipt| receipt.settle(verdict)).collect()
}

pub(crate) fn settlements(settled: &[Settled]) -> Vec<Settlement> {
    settled.iter().map(|settled| settled.settlement).collect()
}
