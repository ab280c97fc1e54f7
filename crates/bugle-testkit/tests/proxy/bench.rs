//! A proxy, a table, and two ways to it: through the proxy and around it.
use std::time::Duration;

use anyhow::Context;
use bugle_testkit::proxy::Proxy;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::server;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Bench {
    pub(crate) proxy: Proxy,
    /// A session around the proxy: it tells what the server holds.
    pub(crate) direct: PgConnection,
    table: &'static str,
}

impl Bench {
    /// Each test has a table of its own.
    pub(crate) async fn new(table: &'static str) -> anyhow::Result<Self> {
        let proxy = Proxy::start(server::addr()?).await?;
        let mut direct = PgConnection::connect_with(&options()?).await?;
        let create = AssertSqlSafe(format!("CREATE TABLE {table} (n int4, payload text)"));
        sqlx::query(create).execute(&mut direct).await?;
        Ok(Self { proxy, direct, table })
    }

    pub(crate) async fn client(&self) -> sqlx::Result<PgConnection> {
        self.client_named("client").await
    }

    pub(crate) async fn client_named(&self, application: &str) -> sqlx::Result<PgConnection> {
        let options = options().map_err(|error| sqlx::Error::Configuration(error.into()))?;
        PgConnection::connect_with(&self.proxy.rewrite(&options.application_name(application))).await
    }

    /// Inserts `n` as a statement that the driver prepares once and keeps.
    pub(crate) async fn enqueue(&self, client: &mut PgConnection, n: i32) -> sqlx::Result<()> {
        let sql = AssertSqlSafe(format!("/* enqueue */ INSERT INTO {} (n) VALUES ($1)", self.table));
        sqlx::query(sql).bind(n).execute(client).await.map(drop)
    }

    /// The numbers that the server holds, read around the proxy.
    pub(crate) async fn held(&mut self) -> anyhow::Result<Vec<i32>> {
        let sql = AssertSqlSafe(format!("SELECT n FROM {} ORDER BY n", self.table));
        Ok(sqlx::query_scalar(sql).fetch_all(&mut self.direct).await?)
    }

    /// How many sessions of this application the server has.
    pub(crate) async fn sessions(&mut self, application: &str) -> anyhow::Result<i64> {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
        Ok(sqlx::query_scalar(sql).bind(application).fetch_one(&mut self.direct).await?)
    }

    /// Asks the server again and again until `sql` is true; each question is a round trip, none is a sleep.
    pub(crate) async fn until(&mut self, sql: &'static str) -> anyhow::Result<()> {
        soon(async {
            while !sqlx::query_scalar::<_, bool>(sql).fetch_one(&mut self.direct).await? {}
            anyhow::Ok(())
        })
        .await?
    }
}

/// Straight to the server.
pub(crate) fn options() -> anyhow::Result<PgConnectOptions> {
    Ok(server::options(server::addr()?))
}

/// Fails a test that would hang.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> anyhow::Result<T> {
    tokio::time::timeout(PATIENCE, future).await.context("this should have happened by now")
}

/// Whether `error` means that the connection broke, and not that PostgreSQL answered.
pub(crate) fn is_broken(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(_))
}
