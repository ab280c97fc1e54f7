//! Transactions whose beginning may be dropped at any moment.
//!
//! sqlx (0.9.0) forgets a BEGIN when its future is dropped before the answer is there: it counts transactions only from the answer on, so that
//! nothing rolls this one back, and the connection goes back to the pool inside it. What others write there afterwards, and are told is written, is
//! part of a transaction that nobody commits. Handlers are dropped when their lease is lost or their time is up, requests when the client goes.

use sqlx::{Connection as _, Executor as _, PgConnection, PgPool, Postgres, Transaction};
use std::pin::pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Begins a transaction. Unlike the pool's own `begin` this may be dropped at any moment: it goes on elsewhere, and what came of it is rolled back.
pub async fn begin(pool: &PgPool) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
    begin_with(pool, "BEGIN").await
}

/// The same with a statement of one's own, which begins a transaction.
pub(crate) async fn begin_with(
    pool: &PgPool,
    statement: &'static str,
) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
    let pool = pool.clone();
    match tokio::spawn(async move { pool.begin_with(statement).await }).await {
        Ok(begun) => begun,
        Err(error) => Err(sqlx::Error::Io(std::io::Error::other(error))),
    }
}

/// For so long after somebody's code was interrupted each connection that comes back is asked whether it is inside a transaction.
const SUSPECT_FOR: Duration = Duration::from_mins(1);

/// Milliseconds of this process, from 1, at which code was interrupted last; 0: never.
static INTERRUPTED_AT: AtomicU64 = AtomicU64::new(0);
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

fn now_ms() -> u64 {
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
}

/// Was somebody's code interrupted lately? Then it may have begun a transaction that sqlx has forgotten.
fn is_suspect() -> bool {
    let at = INTERRUPTED_AT.load(Ordering::Acquire);
    at > 0 && Duration::from_millis(now_ms().saturating_sub(at)) < SUSPECT_FOR
}

/// Runs somebody's code, and remembers if it is interrupted.
pub(crate) async fn watched<F: Future>(code: F) -> F::Output {
    struct Unfinished;
    impl Drop for Unfinished {
        fn drop(&mut self) {
            INTERRUPTED_AT.store(now_ms(), Ordering::Release);
        }
    }
    let mut code = pin!(code);
    let unfinished = Unfinished; // dropped before the code, whose connection goes back at once
    let output = code.as_mut().await;
    std::mem::forget(unfinished);
    output
}

/// Ends a transaction that a connection was left in, if there may be one. For connections that come back to a pool.
pub(crate) async fn leave(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    if !is_suspect() || connection.is_in_transaction() {
        return Ok(()); // what sqlx knows of it rolls back itself
    }
    // Two statements have begun at the same time only in one transaction. (A ROLLBACK outside of any would be a warning each time.)
    let began = "SELECT transaction_timestamp()";
    let first: chrono::DateTime<chrono::Utc> = sqlx::query_scalar(began).fetch_one(&mut *connection).await?;
    let second: chrono::DateTime<chrono::Utc> = sqlx::query_scalar(began).fetch_one(&mut *connection).await?;
    if first == second {
        tracing::warn!(
            "a connection came back inside a transaction whose beginning was interrupted; it is rolled back"
        );
        connection.execute("ROLLBACK").await?;
    }
    Ok(())
}
