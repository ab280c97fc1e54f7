//! The names of the wake engine in SQL that the benchmarks need: the only place that knows them.

use crate::failure::Failure;
use sqlx::postgres::PgListener;
use sqlx::{PgPool, Postgres, pool::PoolConnection};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinHandle;

/// The channel of the bare tables.
const BARE_CHANNEL: &str = "bench";

/// Listens to what is rung, for Bugle and for the bare tables.
pub(super) async fn listen(pool: &PgPool) -> Result<Rings, Failure> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(BARE_CHANNEL).await?;
    let channel: String = sqlx::query_scalar(include_str!("sql/bell_channel.sql")).fetch_one(pool).await?;
    listener.listen(&channel).await?;
    let count = Arc::new(AtomicUsize::new(0));
    let heard = count.clone();
    let task = tokio::spawn(async move {
        while listener.recv().await.is_ok() {
            heard.fetch_add(1, Ordering::Relaxed);
        }
    });
    Ok(Rings { count, task })
}

/// Falls asleep for `queue`: from now on every producer finds the bell taken, until this is dropped.
pub(super) async fn hold_bell(pool: &PgPool, queue: &str) -> Result<Sleeper, Failure> {
    let mut session = pool.acquire().await?;
    sqlx::query(include_str!("sql/bell_hold.sql")).bind(queue).execute(&mut *session).await?;
    Ok(Sleeper(session))
}

/// Notifications heard by a session of the parent, on every channel of the benchmark.
pub(super) struct Rings {
    count: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Rings {
    /// How many since it was last asked.
    pub(super) fn take(&self) -> usize {
        self.count.swap(0, Ordering::Relaxed)
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A session that holds a bell.
pub(super) struct Sleeper(PoolConnection<Postgres>);

impl Sleeper {
    /// Lets go of the bell, with the session.
    pub(super) async fn wake(self) -> Result<(), Failure> {
        Ok(self.0.close().await?)
    }
}
