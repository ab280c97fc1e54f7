//! A pool of connections, and the check that the server keeps what it is given.

use crate::Error;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgPool, Row as _};
use std::str::FromStr as _;
use std::time::Duration;

/// The oldest PostgreSQL that Bugle works on, in `server_version_num` form.
const SERVER_VERSION_MIN: i32 = 140_000;

/// How to reach the database.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the server is and who we are.
    pub connect: PgConnectOptions,
    /// Most connections of the pool.
    pub connections_max: u32,
    /// How long to wait for a connection.
    pub acquire_timeout: Duration,
    /// Work even on a server that may lose what it has acknowledged.
    pub allow_unsafe: bool,
}

impl Options {
    /// Options for a `postgres://` address.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let invalid = |fault| Error::Invalid {
            what: "database address",
            fault,
            next: "use postgres://user:password@host:port/database",
        };
        // The driver would take the host out of any address. The address may hold a password: it is not repeated.
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(invalid("does not begin with postgres://".to_owned()));
        }
        let connect = PgConnectOptions::from_str(url).map_err(|e| invalid(format!("cannot be read: {e}")))?;
        Ok(Self::from(connect))
    }
}

impl From<PgConnectOptions> for Options {
    fn from(connect: PgConnectOptions) -> Self {
        Self { connect, connections_max: 10, acquire_timeout: Duration::from_secs(10), allow_unsafe: false }
    }
}

/// Opens a pool. The first connection is made at once, so that a wrong address is told here.
pub async fn pool(options: &Options) -> Result<PgPool, Error> {
    let connect = match options.connect.get_application_name() {
        Some(_) => options.connect.clone(),
        None => options.connect.clone().application_name("bugle"),
    };
    let pool = PgPoolOptions::new()
        .max_connections(options.connections_max)
        .acquire_timeout(options.acquire_timeout)
        .connect_with(connect)
        .await
        .map_err(Error::connecting)?;
    check_server(&pool, options.allow_unsafe).await?;
    Ok(pool)
}

/// Refuses a server that is too old, or whose settings would break the promise that an accepted job survives a crash.
pub async fn check_server(pool: &PgPool, allow_unsafe: bool) -> Result<(), Error> {
    let row =
        sqlx::query(include_str!("server_settings.sql")).fetch_one(pool).await.map_err(Error::executing)?;
    let read = |name: &str| row.try_get::<String, _>(name).map_err(Error::executing);
    let version: i32 = row.try_get("version_num").map_err(Error::executing)?;
    if version < SERVER_VERSION_MIN {
        return Err(Error::Unsafe(format!(
            "the server is PostgreSQL {}; Bugle needs 14 or newer",
            read("server_version")?
        )));
    }
    for setting in ["fsync", "full_page_writes", "synchronous_commit"] {
        if read(setting)? != "off" {
            continue;
        }
        if !allow_unsafe {
            return Err(Error::Unsafe(format!(
                "the server runs with {setting} = off and may lose jobs that it has accepted; \
                 turn it on, or pass --allow-unsafe-database if losing jobs is acceptable"
            )));
        }
        tracing::warn!(setting, "the server may lose jobs that it has accepted");
    }
    Ok(())
}
