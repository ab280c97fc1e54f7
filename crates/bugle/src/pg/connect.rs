//! A pool of connections, and the check that the server keeps what it is given.

use super::begin;
use crate::Error;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgConnection, PgPool};
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

/// A connection that was used so recently is used again without asking.
const TRUSTED_FOR: Duration = Duration::from_secs(1);

/// Opens a pool. The first connection is made at once, so that a wrong address is told here.
pub async fn pool(options: &Options) -> Result<PgPool, Error> {
    let connect = match options.connect.get_application_name() {
        Some(_) => options.connect.clone(),
        None => options.connect.clone().application_name("bugle"),
    };
    let pool = PgPoolOptions::new()
        // Not as a parameter of the connection: poolers refuse those that they do not know.
        .after_connect(|connection, _| Box::pin(async { use_read_committed(connection).await }))
        // A round trip on each use, only to see whether the connection lives: not if it did a moment ago.
        .test_before_acquire(false)
        .before_acquire(|connection, seen| {
            Box::pin(async move {
                if seen.idle_for > TRUSTED_FOR {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        .after_release(|connection, _| {
            Box::pin(async move {
                begin::leave(connection).await?;
                Ok(true)
            })
        })
        .max_connections(options.connections_max)
        .acquire_timeout(options.acquire_timeout)
        .connect_with(connect)
        .await
        .map_err(Error::connecting)?;
    check_server(&pool, options.allow_unsafe).await?;
    Ok(pool)
}

/// In so long the server notices that a node whose claim it works on is gone.
const GONE_WITHIN: &str = "500ms";

/// A connection of its own, outside every pool.
pub(crate) async fn one(options: &PgConnectOptions) -> Result<PgConnection, Error> {
    let mut connection = PgConnection::connect_with(options).await.map_err(Error::connecting)?;
    use_read_committed(&mut connection).await.map_err(Error::connecting)?;
    Ok(connection)
}

/// A connection of our own for claims alone: its plans are pinned (`migrations/core/0004_claim.sql` says why), and its commits need not be durable.
/// The settings go with the request to connect: a SET could end up with somebody else behind a pooler. `false`: they did not take effect.
pub(crate) async fn pinned(options: &PgConnectOptions) -> Result<(PgConnection, bool), Error> {
    let pins = ["seqscan", "bitmapscan", "hashjoin", "mergejoin"].map(|way| (format!("enable_{way}"), "off"));
    let settings = [("synchronous_commit", "off"), ("plan_cache_mode", "force_generic_plan"), ("jit", "off")];
    let pinned = options.clone().options(pins).options(settings);
    // The server process of a node that was killed would wait for its turn and then claim for the dead. Not every system can notice it.
    let watchful = pinned.clone().options([("client_connection_check_interval", GONE_WITHIN)]);
    for pinned in [watchful, pinned] {
        match one(&pinned).await {
            Ok(mut connection) => {
                let are_set =
                    sqlx::query_scalar(include_str!("are_pinned.sql")).fetch_one(&mut connection).await;
                let are_set = are_set.map_err(Error::connecting)?;
                return Ok((connection, are_set));
            }
            // The server's system, or a pooler, that does not know what to do with them.
            Err(Error::NoConnection(sqlx::Error::Database(_))) => {}
            Err(error) => return Err(error),
        }
    }
    Ok((one(options).await?, false))
}

pub(super) async fn use_read_committed(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query(include_str!("read_committed.sql")).execute(connection).await.map(drop)
}

/// What a server is, and what decides whether an acknowledged commit survives its crash.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Settings {
    /// The version as PostgreSQL writes it.
    pub server_version: String,
    /// The version as a number: 150004 for 15.4.
    pub version_num: i32,
    /// Those of `fsync`, `full_page_writes` and `synchronous_commit` that are off: an accepted job may then be lost.
    pub off: Vec<String>,
    /// Is it a standby, which cannot be written to?
    pub is_replica: bool,
}

impl Settings {
    /// Asks the server.
    pub async fn read(pool: &PgPool) -> Result<Self, Error> {
        sqlx::query_as(include_str!("server_settings.sql")).fetch_one(pool).await.map_err(Error::executing)
    }

    /// Is it too old for Bugle?
    #[must_use]
    pub fn is_too_old(&self) -> bool {
        self.version_num < SERVER_VERSION_MIN
    }
}

/// Refuses a server that is too old, or whose settings would break the promise that an accepted job survives a crash.
pub async fn check_server(pool: &PgPool, allow_unsafe: bool) -> Result<(), Error> {
    let settings = Settings::read(pool).await?;
    if settings.is_too_old() {
        return Err(Error::Unsafe(format!(
            "the server is PostgreSQL {}; Bugle needs 14 or newer",
            settings.server_version
        )));
    }
    for setting in settings.off {
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
