//! Runs that failed: why, and what the steps that failed had before them.

use super::Mark;
use crate::Error;
use crate::flow::{Flow, Run, RunId, RunState};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;

/// Most failed steps, and most failed attempts, that are shown of a run.
const SHOWN_MAX: i64 = 100;

/// A run that failed, and why.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
#[non_exhaustive]
pub struct DeadRun {
    /// Its number.
    pub id: RunId,
    /// The definition's name.
    pub definition: String,
    /// The version by which it went.
    pub version: i32,
    /// By which a start of the same is recognised.
    pub key: Option<String>,
    /// When it was started.
    pub created_at: DateTime<Utc>,
    /// When it failed.
    pub ended_at: DateTime<Utc>,
    /// The step that failed first; none: the run's deadline ended it.
    pub step: Option<String>,
    /// Of a map: which of its elements failed first, from 1; otherwise 0.
    pub element: i32,
    /// The short name of the error.
    pub code: String,
    /// The error in words.
    pub message: String,
    /// Attempts that it had used up.
    pub attempt: Option<i16>,
    /// How many it had.
    pub attempts: Option<i16>,
    /// Who ran it last.
    pub worker: Option<String>,
    /// How many steps failed that nothing in the definition sees to.
    pub steps_failed: i32,
}

impl DeadRun {
    /// Its place in the list: the next page begins behind it.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark { at: self.ended_at, number: self.id.0 }
    }
}

/// A run that failed, with all that is needed to see why.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct DeadDetail {
    /// The run with its input.
    #[serde(flatten)]
    pub run: Run,
    /// The steps that failed, of maps their elements as well: the first hundred.
    pub failed: Vec<FailedStep>,
    /// The attempts that failed: the first hundred.
    pub attempts: Vec<FailedAttempt>,
}

/// A step that failed, and what it had before it.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
#[non_exhaustive]
pub struct FailedStep {
    /// Its number in the definition.
    pub no: i16,
    /// Its name.
    pub step: String,
    /// Which element of a map, from 1; 0: the step itself.
    pub element: i32,
    /// The short name of the error.
    pub code: Option<String>,
    /// The error in words.
    pub message: Option<String>,
    /// Attempts that it had used up.
    pub attempt: i16,
    /// How many it had.
    pub attempts: i16,
    /// Who ran it last.
    pub worker: Option<String>,
    /// When it failed.
    pub failed_at: DateTime<Utc>,
    /// The definition says what to do about it, so that the run did not fail for it.
    pub is_seen_to: bool,
    /// What an attempt had kept for the next one.
    pub checkpoint: Option<Value>,
    /// Of an element: the value that it was for.
    pub value: Option<Value>,
    /// What its parents had brought about, by their names.
    pub parents: Value,
}

/// An attempt that failed.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
#[non_exhaustive]
pub struct FailedAttempt {
    /// The step.
    pub step: String,
    /// Which element of a map, from 1; 0: the step itself.
    pub element: i32,
    /// When it failed.
    pub failed_at: DateTime<Utc>,
    /// Which attempt it was, counted from 1.
    pub attempt: i16,
    /// Who ran it.
    pub worker: Option<String>,
    /// The short name of the error.
    pub code: Option<String>,
    /// The error in words.
    pub message: Option<String>,
}

impl Flow {
    /// At most `most` runs that failed, the last to fail first, of one definition or of all; behind `after`, if that is given.
    pub async fn list_dead(
        &self,
        definition: Option<&str>,
        after: Option<Mark>,
        most: u32,
    ) -> Result<Vec<DeadRun>, Error> {
        sqlx::query_as(self.statements().list_dead_runs())
            .bind(self.bugle.namespace().as_str())
            .bind(definition)
            .bind(after.map(|mark| mark.at))
            .bind(after.map(|mark| mark.number))
            .bind(i64::from(most))
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }

    /// A run that failed, with what its failed steps had before them; `None`: there is no such run, or it has not failed.
    pub async fn show_dead(&self, run: RunId) -> Result<Option<DeadDetail>, Error> {
        let namespace = self.bugle.namespace().as_str();
        let mut tx = self.one_moment().await?;
        let found = sqlx::query_as(self.statements().show_run()).bind(run).bind(namespace);
        let found: Option<Run> = found.fetch_optional(&mut *tx).await.map_err(Error::executing)?;
        let Some(found) = found.filter(|run| run.state == RunState::Failed) else { return Ok(None) };
        let failed = sqlx::query_as(self.statements().dead_steps()).bind(run).bind(SHOWN_MAX);
        let failed = failed.fetch_all(&mut *tx).await.map_err(Error::executing)?;
        let attempts = sqlx::query_as(self.statements().list_attempts()).bind(run).bind(SHOWN_MAX);
        let attempts = attempts.fetch_all(&mut *tx).await.map_err(Error::executing)?;
        Ok(Some(DeadDetail { run: found, failed, attempts }))
    }
}
