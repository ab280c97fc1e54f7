//! What every call of the provider needs: the pool, the statements, the histories in memory.

use crate::cache::Cache;
use crate::metrics::Counters;
use crate::statements::Statements;
use crate::together::{Acks, Letters, Reads};
use crate::told::Told;
use bugle::fuse::Fuse;
use bugle_wake::Count;
use duroxide::providers::ProviderError;
use sqlx::PgPool;
use sqlx::postgres::types::PgInterval;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// Milliseconds to wait after each try that others made fail.
const PAUSES: [u64; 3] = [5, 20, 80];
/// Milliseconds to wait after each try that found no server.
const AWAY_PAUSE: u64 = 50;
/// How long an ack is repeated while the server is away. duroxide tries six times within a third of a second and then fails the orchestration, if
/// it can; with this it does not come to that before the lease is over, and then it cannot.
pub(crate) const ACK_PATIENCE: Duration = Duration::from_secs(10);
/// Nobody means more than this by a duration.
const LONGEST: Duration = Duration::from_hours(24 * 365 * 100);

/// What the database says to whoever comes with a token that is not, or no longer, that of a lease.
const LEASE_LOST: &str = "BGL01";

pub(crate) struct Store {
    pub(crate) pool: PgPool,
    pub(crate) sql: Statements,
    pub(crate) cache: Cache,
    pub(crate) told: Told,
    pub(crate) counters: Counters,
    /// This node's name: instances remember who wrote their history last.
    pub(crate) node: String,
    /// What is made together with others' calls.
    pub(crate) acks: Fuse<Acks>,
    pub(crate) letters: Fuse<Letters>,
    pub(crate) reads: Fuse<Reads>,
}

impl Store {
    /// Refuses a pool whose sessions would break a promise.
    pub(crate) async fn check(&self) -> Result<(), bugle::Error> {
        let checked = sqlx::query(self.sql.check_read_committed()).execute(&self.pool).await;
        checked.map(drop).map_err(|error| match error.as_database_error() {
            Some(answer) => bugle::Error::Unsafe(answer.message().to_owned()),
            None => bugle::Error::NoConnection(error),
        })
    }
}

/// One try of a statement.
pub(crate) type Try<'a, T> = Pin<Box<dyn Future<Output = Result<T, sqlx::Error>> + Send + 'a>>;

/// Runs a statement, again when it was undone only because of what others did at that moment.
pub(crate) async fn run<'a, T>(
    operation: &str,
    statement: impl Fn() -> Try<'a, T> + Send,
) -> Result<T, ProviderError> {
    insist(operation, Duration::ZERO, statement).await
}

/// The same, and for `patience` also while the server is away. Only for what a token makes safe to repeat: if a try was done and its answer
/// lost, the next one is refused, because the token is used up.
pub(crate) async fn insist<'a, T>(
    operation: &str,
    patience: Duration,
    statement: impl Fn() -> Try<'a, T> + Send,
) -> Result<T, ProviderError> {
    tries(operation, patience, statement).await.map_err(|error| failed(operation, &error))
}

/// The same for a call that comes with a lease: a lost one is counted.
pub(crate) async fn run_leased<'a, T>(
    lost: &Count,
    operation: &str,
    patience: Duration,
    statement: impl Fn() -> Try<'a, T> + Send,
) -> Result<T, ProviderError> {
    tries(operation, patience, statement).await.map_err(|error| {
        let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        if code.is_some_and(|code| code == LEASE_LOST) {
            lost.one();
        }
        failed(operation, &error)
    })
}

async fn tries<'a, T>(
    operation: &str,
    patience: Duration,
    statement: impl Fn() -> Try<'a, T> + Send,
) -> Result<T, sqlx::Error> {
    let (begun, mut pauses) = (Instant::now(), PAUSES.into_iter());
    loop {
        let error = match statement().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let pause = if is_passing(&error) {
            pauses.next()
        } else {
            (is_away(&error) && begun.elapsed() < patience).then_some(AWAY_PAUSE)
        };
        let Some(pause) = pause else { return Err(error) };
        tracing::debug!(%error, operation, "trying again");
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

/// A deadlock, a serialization failure, or a plan made for functions that a migration has replaced since.
fn is_passing(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| ["40P01", "40001", "0A000"].contains(&&*code))
}

/// No server was there, or not one that can write: the connection broke, it ends its sessions or just starts, has no room, is a standby still.
fn is_away(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::PoolTimedOut => true,
        sqlx::Error::Database(answer) => answer
            .code()
            .is_some_and(|code| ["08", "53", "57P", "25006"].iter().any(|class| code.starts_with(class))),
        _ => false,
    }
}

/// Whether a failed call may be tried again is all that the runtime wants to know. What depends on the call itself will fail again: a lost
/// lease, an event that is there already, a value that no column can keep. Everything else may pass.
pub(crate) fn failed(operation: &str, error: &sqlx::Error) -> ProviderError {
    if matches!(error, sqlx::Error::PoolClosed) {
        return closed(operation);
    }
    let Some(answer) = error.as_database_error() else {
        return ProviderError::retryable(operation, error.to_string());
    };
    let code = answer.code().unwrap_or_default();
    if code.starts_with("BGL") || code.starts_with("22") || code.starts_with("23") {
        ProviderError::permanent(operation, answer.message())
    } else {
        ProviderError::retryable(operation, format!("{} ({code})", answer.message()))
    }
}

/// What is said of a provider that has ended, by [`crate::PostgresProvider::close`] or with its pool.
pub(crate) fn closed(operation: &str) -> ProviderError {
    ProviderError::permanent(operation, "the provider is closed; make another one")
}

/// A duration for PostgreSQL.
pub(crate) fn interval(time: Duration) -> PgInterval {
    let microseconds = i64::try_from(time.min(LONGEST).as_micros()).unwrap_or(i64::MAX);
    PgInterval { months: 0, days: 0, microseconds }
}

/// What a look says besides what it claimed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tail {
    /// How soon there will be something to look for.
    pub(crate) again: Option<Duration>,
    /// Something was there that somebody else is just claiming or writing.
    pub(crate) passed_over: bool,
    /// Nothing is due any more, for whomever.
    pub(crate) is_dry: bool,
}

impl Tail {
    pub(crate) fn new(again_us: Option<i64>, passed_over: Option<bool>, is_dry: Option<bool>) -> Self {
        Self {
            again: again_us.map(|us| Duration::from_micros(us.max(0).unsigned_abs())),
            passed_over: passed_over.unwrap_or(false),
            is_dry: is_dry.unwrap_or(false),
        }
    }
}
