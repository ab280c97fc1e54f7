//! The periodic pass: partitions made ahead and dropped by age, small tables kept small. Every node runs it; whoever holds the
//! sweep's lock does the work. (Ended leases are not its business: every look takes them back.)

use crate::{Bugle, Error};
use chrono::{DateTime, Utc};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often the small tables are trimmed.
const TRIM_EVERY: Duration = Duration::from_secs(10);
/// How many trims there are to one look at the partitions: about one an hour.
const TRIMS_PER_PARTITION_PASS: u32 = 360;

/// What one pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Partitions made.
    pub made: i32,
    /// Partitions dropped.
    pub dropped: i32,
    /// Rows trimmed.
    pub trimmed: i64,
}

impl Bugle {
    /// One pass. `now` is for tests that move the clock; `None` = the database's own.
    pub async fn sweep(&self, now: Option<DateTime<Utc>>) -> Result<Swept, Error> {
        let sql = self.statements();
        let pool = self.pool();
        let made = sqlx::query_scalar(sql.make_partitions())
            .bind(now)
            .fetch_one(pool)
            .await
            .map_err(Error::executing)?;
        let dropped = sqlx::query_scalar(sql.drop_partitions())
            .bind(now)
            .fetch_one(pool)
            .await
            .map_err(Error::executing)?;
        let trimmed = self.trim().await?;
        Ok(Swept { made, dropped, trimmed })
    }

    async fn trim(&self) -> Result<i64, Error> {
        sqlx::query_scalar(self.statements().trim()).fetch_one(self.pool()).await.map_err(Error::executing)
    }
}

/// Sweeps until told to stop. A pass that fails is tried again at the next turn.
pub(super) async fn run(bugle: Bugle, stop: CancellationToken) {
    for turn in 0_u32.. {
        let pass = async {
            if turn % TRIMS_PER_PARTITION_PASS == 0 {
                bugle.sweep(None).await.map(drop)
            } else {
                bugle.trim().await.map(drop)
            }
        };
        match stop.run_until_cancelled(pass).await {
            Some(Ok(())) => {}
            Some(Err(error)) => tracing::warn!(%error, "sweep failed, trying again later"),
            None => return,
        }
        // Nodes that started together should not sweep together.
        let wait = TRIM_EVERY.mul_f64(0.5 + rand::random::<f64>());
        if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
            return;
        }
    }
}
