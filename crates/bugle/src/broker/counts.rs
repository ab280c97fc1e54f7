//! What the broker of a process counts: how many requests share a statement, and who waits for a connection.

use crate::Error;
use bugle_wake::Count;
use sqlx::pool::PoolConnection;
use sqlx::{PgPool, Postgres};

/// What the broker of a process counts.
#[derive(Debug, Default)]
pub struct Counts {
    /// Calls of [`Broker::push`](super::Broker::push).
    pub pushes: Shares,
    /// Calls of [`Broker::settle`](super::Broker::settle).
    pub settles: Shares,
    /// Pops, those that wait counted once for each look.
    pub pops: Shares,
    asked: Count,
    had: Count,
}

/// Requests, and the statements that they shared: one by the other is how well they were made together.
#[derive(Debug, Default)]
pub struct Shares {
    /// What callers asked for.
    pub requests: Count,
    /// What was sent for it.
    pub statements: Count,
}

impl Counts {
    /// Statements of pushes and verdicts that wait for a connection just now.
    #[must_use]
    pub fn connections_waited_for(&self) -> u64 {
        // In this order: what is asked for in between counts, and nothing is had that was not asked for.
        let had = self.had.get();
        self.asked.get().saturating_sub(had)
    }

    /// A connection, waited for.
    pub(super) async fn connection(&self, pool: &PgPool) -> Result<PoolConnection<Postgres>, Error> {
        self.asked.one();
        let _waiting = Waiting(&self.had);
        pool.acquire().await.map_err(Error::connecting)
    }
}

/// Ends when it is dropped: also for a caller that has gone.
struct Waiting<'c>(&'c Count);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.one();
    }
}
