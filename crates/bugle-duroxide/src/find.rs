//! Finding instances for a person: what duroxide's management calls cannot ask in one statement, however many instances there are.

use crate::items::unsigned;
use crate::provider::PostgresProvider;
use crate::store::{interval, run};
use crate::text;
use duroxide::providers::ProviderError;
use std::time::Duration;

/// Which instances; what is left out does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Which {
    /// The one with this id.
    pub id: Option<String>,
    /// Those of this orchestration.
    pub orchestration: Option<String>,
    /// Those whose current execution has this status, in duroxide's words: `Running`, `Completed`, `Failed`, `ContinuedAsNew`.
    pub status: Option<String>,
    /// Those that ended at least so long ago, by the database's clock.
    pub ended_for: Option<Duration>,
}

/// An instance in a list. Moments are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its id.
    pub id: String,
    /// Its orchestration.
    pub orchestration: String,
    /// The version of the orchestration, once that is known.
    pub version: Option<String>,
    /// The status of its current execution.
    pub status: String,
    /// What the orchestration says of itself.
    pub custom_status: Option<String>,
    /// The number of its current execution.
    pub execution: u64,
    /// The instance that started it.
    pub parent: Option<String>,
    /// When it was made.
    pub created_ms: u64,
    /// When something last happened to it.
    pub updated_ms: u64,
    /// When it ended.
    pub ended_ms: Option<u64>,
}

/// Finished instances without a parent that have the orchestration and the status in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedGroup {
    /// Their orchestration.
    pub orchestration: String,
    /// Their status.
    pub status: String,
    /// How many there are.
    pub roots: u64,
    /// How many with those below them.
    pub instances: u64,
    /// When the first of them ended.
    pub oldest_ms: u64,
    /// When the last of them ended.
    pub newest_ms: u64,
}

#[derive(sqlx::FromRow)]
struct FoundRow {
    id: String,
    name: String,
    version: Option<String>,
    status: String,
    custom_status: Option<String>,
    execution: i64,
    parent: Option<String>,
    created_ms: i64,
    updated_ms: i64,
    ended_ms: Option<i64>,
}

impl From<FoundRow> for Found {
    fn from(row: FoundRow) -> Self {
        Self {
            id: row.id,
            orchestration: row.name,
            version: row.version,
            status: row.status,
            custom_status: row.custom_status.map(text::read),
            execution: unsigned(row.execution),
            parent: row.parent,
            created_ms: unsigned(row.created_ms),
            updated_ms: unsigned(row.updated_ms),
            ended_ms: row.ended_ms.map(unsigned),
        }
    }
}

type GroupRow = (String, String, i64, i64, Option<i64>, Option<i64>);

impl PostgresProvider {
    /// Instances, the newest first.
    pub async fn find_instances(&self, which: &Which, limit: u32) -> Result<Vec<Found>, ProviderError> {
        let store = self.store();
        let rows: Vec<FoundRow> = run("find_instances", || {
            let query = sqlx::query_as(store.sql.find_instances())
                .bind(&which.id)
                .bind(&which.orchestration)
                .bind(&which.status)
                .bind(which.ended_for.map(interval))
                .bind(i64::from(limit));
            Box::pin(query.fetch_all(&store.pool))
        })
        .await?;
        Ok(rows.into_iter().map(Found::from).collect())
    }

    /// Finished instances without a parent, counted by orchestration and status, the most first.
    pub async fn finished_groups(&self, which: &Which) -> Result<Vec<FinishedGroup>, ProviderError> {
        let store = self.store();
        let rows: Vec<GroupRow> = run("finished_groups", || {
            let query = sqlx::query_as(store.sql.finished_groups())
                .bind(&which.id)
                .bind(&which.orchestration)
                .bind(&which.status)
                .bind(which.ended_for.map(interval));
            Box::pin(query.fetch_all(&store.pool))
        })
        .await?;
        let group = |(orchestration, status, roots, instances, oldest, newest): GroupRow| FinishedGroup {
            orchestration,
            status,
            roots: unsigned(roots),
            instances: unsigned(instances),
            oldest_ms: unsigned(oldest.unwrap_or(0)),
            newest_ms: unsigned(newest.unwrap_or(0)),
        };
        Ok(rows.into_iter().map(group).collect())
    }

    /// The next finished instances without a parent behind the id `after`, by id: one step of a walk over all of them. Empty: that was all.
    pub async fn finished_roots(
        &self,
        which: &Which,
        after: &str,
        limit: u32,
    ) -> Result<Vec<String>, ProviderError> {
        let store = self.store();
        run("finished_roots", || {
            let query = sqlx::query_scalar(store.sql.finished_roots())
                .bind(&which.id)
                .bind(&which.orchestration)
                .bind(&which.status)
                .bind(which.ended_for.map(interval))
                .bind(after)
                .bind(i64::from(limit));
            Box::pin(query.fetch_all(&store.pool))
        })
        .await
    }
}
