//! A place in the shared server for one test.

use super::shared;
use anyhow::Context as _;
use bugle::Bugle;
use bugle::name::SchemaName;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Connections of one test's pool. Some twenty tests at once fit into a server's 200.
const POOL_CONNECTIONS_MAX: u32 = 8;
/// Cleaning up waits this long for a test's own forgotten transaction, then leaves the schema behind.
const DROP_SCHEMA_WITHIN: Duration = Duration::from_secs(5);
/// Dropping a database ends its sessions, but waits for a checkpoint, and those of other tests stand in line.
const DROP_DATABASE_WITHIN: Duration = Duration::from_mins(1);

/// A fresh schema or database for one test, with a pool.
///
/// Dropped at the end of a test that passes; kept, and named on standard error, when it fails.
#[derive(Debug)]
pub struct TestDb {
    name: String,
    kind: Kind,
    url: String,
    options: PgConnectOptions,
    admin: PgConnectOptions,
    pool: PgPool,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Schema,
    Database,
}

impl TestDb {
    /// A fresh schema in the shared database.
    ///
    /// It is not on the search path: SQL that forgets to name its schema must fail in a test.
    pub async fn schema() -> anyhow::Result<Self> {
        let url = shared::url().await?;
        Self::create(Kind::Schema, url, unique_name()).await
    }

    /// A fresh database on the shared server, for what a schema does not isolate: advisory locks,
    /// notifications, transaction horizons.
    pub async fn database() -> anyhow::Result<Self> {
        let url = shared::url().await?;
        Self::create(Kind::Database, url, unique_name()).await
    }

    async fn create(kind: Kind, url: String, name: String) -> anyhow::Result<Self> {
        let admin = shared::connect_options(&url)?;
        let mut connection =
            PgConnection::connect_with(&admin).await.context("connecting to the test server")?;
        let create = match kind {
            Kind::Schema => format!("CREATE SCHEMA {name}"),
            Kind::Database => format!("CREATE DATABASE {name}"),
        };
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut connection).await?;
        connection.close().await?;

        let (url, options) = match kind {
            Kind::Schema => (url, admin.clone()),
            Kind::Database => (with_database(&url, &name), admin.clone().database(&name)),
        };
        let options = options.application_name(&name);
        let pool = PgPoolOptions::new()
            .max_connections(POOL_CONNECTIONS_MAX)
            .acquire_timeout(Duration::from_secs(30))
            .connect_with(options.clone())
            .await?;
        Ok(Self { name, kind, url, options, admin, pool })
    }

    /// The name of the schema or database: `t_<pid>_<n>_<random>`, at most 48 bytes.
    ///
    /// Connections of [`TestDb::pool`] carry it as their `application_name`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A pool connected to the place.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// The URL of the database that holds the place.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The name of the schema that holds Bugle's tables in this place.
    pub fn schema_name(&self) -> anyhow::Result<SchemaName> {
        Ok(match self.kind {
            Kind::Schema => SchemaName::parse(&self.name)?,
            Kind::Database => SchemaName::default(),
        })
    }

    /// A Bugle in this place, migrated.
    pub async fn bugle(&self) -> anyhow::Result<Bugle> {
        let options = bugle::Options { schema: self.schema_name()?, ..bugle::Options::default() };
        Ok(Bugle::new(self.pool.clone(), options).await?)
    }

    /// SQL written for the schema `bugle`, made to speak of this place.
    pub fn sql(&self, sql: &str) -> anyhow::Result<AssertSqlSafe<String>> {
        Ok(AssertSqlSafe(self.schema_name()?.place_in(sql)))
    }

    /// How many pages a statement touches, written for the schema `bugle`. It is not committed.
    pub async fn pages_touched(&self, statement: &str) -> anyhow::Result<u64> {
        let mut session = PgConnection::connect_with(&self.options).await?;
        let mut tx = session.begin().await?;
        let mut touched = 0;
        for _ in 0..2 {
            // The first time what the session knows of the tables is read as well.
            sqlx::raw_sql("SAVEPOINT s").execute(&mut *tx).await?;
            let explain = self.sql(&format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}"))?;
            let plan: serde_json::Value = sqlx::query_scalar(explain).fetch_one(&mut *tx).await?;
            sqlx::raw_sql("ROLLBACK TO SAVEPOINT s").execute(&mut *tx).await?;
            let count = |name: &str| plan[0]["Plan"][name].as_u64();
            touched = count("Shared Hit Blocks")
                .zip(count("Shared Read Blocks"))
                .map(|(hit, read)| hit + read)
                .context("a plan without buffers")?;
        }
        tx.rollback().await?;
        Ok(touched)
    }

    /// How many statements of clients PostgreSQL has answered that contain one of these parts, written for the schema `bugle`. One that failed is not counted.
    ///
    /// The count takes its time where many tests share a server, and counts what is answered meanwhile as it comes.
    pub async fn statements(&self, parts: &[&str]) -> anyhow::Result<i64> {
        let sql = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements
            WHERE toplevel AND EXISTS (SELECT FROM unnest($1::text[]) part WHERE position(part in query) > 0)";
        let parts = parts.iter().map(|part| Ok(self.sql(part)?.0)).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(sqlx::query_scalar(sql).bind(parts).fetch_one(&self.pool).await?)
    }

    /// The same as options, for connections outside the pool.
    #[must_use]
    pub fn connect_options(&self) -> &PgConnectOptions {
        &self.options
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("kept for a look: {:?} {} on {}", self.kind, self.name, self.url);
            return;
        }
        let (kind, name, admin) = (self.kind, self.name.clone(), self.admin.clone());
        // Its own thread and runtime: the test's may be on its way out, and cannot be waited on from here.
        let cleaning = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let within = match kind {
                Kind::Schema => DROP_SCHEMA_WITHIN,
                Kind::Database => DROP_DATABASE_WITHIN,
            };
            runtime.block_on(async { tokio::time::timeout(within, clean_up(kind, &name, &admin)).await? })
        });
        match cleaning.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => eprintln!("left behind: {:?} {}: {error:#}", self.kind, self.name),
            Err(_) => eprintln!("left behind: {:?} {}", self.kind, self.name),
        }
    }
}

async fn clean_up(kind: Kind, name: &str, admin: &PgConnectOptions) -> anyhow::Result<()> {
    let mut connection = PgConnection::connect_with(admin).await?;
    let drop = match kind {
        Kind::Schema => format!("SET client_min_messages = warning; DROP SCHEMA IF EXISTS {name} CASCADE"),
        Kind::Database => format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
    };
    sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

/// The process and a counter make it readable; the random part keeps it unique when the server
/// outlives the processes and their numbers return.
fn unique_name() -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let n = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("t_{}_{n}_{:06x}", std::process::id(), rand::random::<u32>() & 0x00ff_ffff)
}

/// `url` with another database.
fn with_database(url: &str, name: &str) -> String {
    let (head, query) = url.split_once('?').map_or((url, None), |(head, query)| (head, Some(query)));
    let authority = head.find("://").map_or(0, |scheme| scheme + 3);
    let path = head[authority..].find('/').map_or(head.len(), |slash| authority + slash);
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{}/{name}{query}", &head[..path])
}

#[cfg(test)]
mod tests {
    use super::{unique_name, with_database};

    #[test]
    fn only_the_database_of_a_url_is_replaced() {
        assert_eq!(with_database("postgres://u:p@h:1/old", "new"), "postgres://u:p@h:1/new");
        assert_eq!(with_database("postgres://h/old?sslmode=disable", "n"), "postgres://h/n?sslmode=disable");
        assert_eq!(with_database("postgres://h", "n"), "postgres://h/n");
    }

    #[test]
    fn names_are_unique_and_short_enough_for_a_schema() {
        let (one, two) = (unique_name(), unique_name());
        assert_ne!(one, two);
        assert!(one.len() <= 48 && one.starts_with("t_"), "{one}");
    }
}
