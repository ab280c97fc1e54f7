//! How many rings producers sent, and how many they saved because everybody was awake.

use crate::{Bugle, Error};
use chrono::{DateTime, Utc};
use serde::Serialize;

/// What producers did about waking, by PostgreSQL's own statistics: nothing is written for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProducerRings {
    /// How often a statement that made work claimable asked whether anybody sleeps for it.
    pub checks: i64,
    /// How often somebody did, and it rang.
    pub sent: i64,
    /// How often nobody did: a ring saved.
    pub saved: i64,
    /// Since when they are counted, if the statistics were ever reset.
    pub since: Option<DateTime<Utc>>,
}

impl Bugle {
    /// How many rings producers sent and saved; `None` when no call was counted, because no session has `track_functions = 'pl'`.
    ///
    /// Calls are counted whether or not their transaction committed, and come to the statistics about a second later.
    pub async fn producer_rings(&self) -> Result<Option<ProducerRings>, Error> {
        let (checks, sent, since): (Option<i64>, i64, _) = sqlx::query_as(self.statements().producer_rings())
            .fetch_one(self.pool())
            .await
            .map_err(Error::executing)?;
        Ok(checks.map(|checks| ProducerRings { checks, sent, saved: (checks - sent).max(0), since }))
    }
}
