//! Where a benchmark works: a database of its own on the server that was named.
//!
//! A database and not only a schema, because notifications, advisory locks and the statistics of statements are kept by the database:
//! nobody else's are counted, and nobody else is woken.

use super::child::Child;
use super::wire::Part;
use crate::failure::Failure;
use crate::place::Place;
use bugle::pg::connect;
use bugle::{Bugle, Options};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, PgPool};
use std::time::Duration;

/// What is kept of the name of the database that was named: PostgreSQL cuts names at 63 bytes.
const NAME_BYTES_KEPT: usize = 40;
const CONNECTIONS_MAX: u32 = 4;
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// A database that is dropped at the end.
pub(super) struct Ground {
    url: String,
    admin: PgConnectOptions,
    database: String,
    pool: PgPool,
}

impl Ground {
    /// Makes an empty database, after dropping what an interrupted run may have left.
    pub(super) async fn make(place: &Place, name: &str) -> Result<Self, Failure> {
        let url = place.url().to_owned();
        let admin = quiet(connect::Options::parse(&url)?.connect);
        let mut connection = PgConnection::connect_with(&admin).await?;
        let (database, quoted): (String, String) = sqlx::query_as(include_str!("sql/ground_name.sql"))
            .bind(i32::try_from(NAME_BYTES_KEPT).unwrap_or_default())
            .bind(name)
            .fetch_one(&mut connection)
            .await?;
        drop_database(&mut connection, &quoted).await?;
        // The name was quoted by PostgreSQL itself.
        let made =
            sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {quoted}"))).execute(&mut connection).await;
        made.map_err(|error| {
            Failure::from(error)
                .after("this benchmark works in a database of its own; --ephemeral gives it one")
        })?;
        connection.close().await?;
        let options = connect::Options {
            connections_max: CONNECTIONS_MAX,
            ..connect::Options::from(admin.clone().database(&database))
        };
        let pool = connect::pool(&options).await?;
        Ok(Self { url, admin, database, pool })
    }

    /// The same with Bugle and the bare tables in it.
    pub(super) async fn with_tables(place: &Place, name: &str) -> Result<Self, Failure> {
        let ground = Self::make(place, name).await?;
        ground.make_tables().await?;
        Ok(ground)
    }

    /// Makes Bugle's tables and the bare ones anew, empty.
    pub(super) async fn make_tables(&self) -> Result<(), Failure> {
        sqlx::raw_sql(include_str!("sql/bare_create.sql")).execute(&self.pool).await?;
        Bugle::new(self.pool.clone(), Options::default()).await?;
        Ok(())
    }

    pub(super) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// How to reach it, for a session of one's own.
    pub(super) fn connect(&self) -> PgConnectOptions {
        self.admin.clone().database(&self.database)
    }

    /// A handle with a pool of its own, without anything that earlier tables have left in its sessions.
    pub(super) async fn bugle(&self, connections_max: u32) -> Result<Bugle, Failure> {
        let options = connect::Options { connections_max, ..connect::Options::from(self.connect()) };
        Ok(Bugle::new(connect::pool(&options).await?, Options::default()).await?)
    }

    /// Writes out what came before, where this role may order that.
    pub(super) async fn checkpoint(&self) -> Result<(), Failure> {
        match sqlx::raw_sql(include_str!("sql/checkpoint.sql")).execute(&self.pool).await {
            Ok(_) | Err(sqlx::Error::Database(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The same as an address. It may hold a password.
    pub(super) fn url(&self) -> String {
        self.connect().to_url_lossy().to_string()
    }

    pub(super) fn database(&self) -> &str {
        &self.database
    }

    /// Starts a process of the benchmark that works here.
    pub(super) async fn start(&self, part: Part) -> Result<Child, Failure> {
        Child::start(&self.url, &self.database, part).await
    }

    /// Drops the database.
    pub(super) async fn drop(self) -> Result<(), Failure> {
        // Whoever still holds a connection loses it with the database.
        let _ = tokio::time::timeout(CLOSE_PATIENCE, self.pool.close()).await;
        let mut connection = PgConnection::connect_with(&self.admin).await?;
        let quoted: String = sqlx::query_scalar(include_str!("sql/quote.sql"))
            .bind(&self.database)
            .fetch_one(&mut connection)
            .await?;
        drop_database(&mut connection, &quoted).await?;
        Ok(connection.close().await?)
    }
}

/// Without the driver's warnings about slow statements: some are slow on purpose.
pub(super) fn quiet(connect: PgConnectOptions) -> PgConnectOptions {
    connect.disable_statement_logging()
}

/// Runs a benchmark, and drops the database whatever came of it.
pub(super) async fn on_ground<T>(
    place: &Place,
    name: &str,
    work: impl AsyncFnOnce(&Ground) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let ground = Ground::with_tables(place, name).await?;
    let result = work(&ground).await;
    let dropped = ground.drop().await;
    let value = result?;
    dropped.map(|()| value)
}

async fn drop_database(connection: &mut PgConnection, quoted: &str) -> Result<(), Failure> {
    let sql = format!("DROP DATABASE IF EXISTS {quoted} WITH (FORCE)");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await?;
    Ok(())
}
