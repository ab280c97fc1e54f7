//! Dead jobs: which there are and why, and making many of them ready again or deleting them, in short steps.

use crate::jobs::JobId;
use crate::jobs::enqueue::interval;
use crate::limits::DEAD_STEP_JOBS;
use crate::{Bugle, Error};
use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::postgres::types::PgInterval;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::QueryAs;
use sqlx::{FromRow, Postgres, SqlStr};
use std::time::Duration;

/// Which dead jobs; every field left out = any.
#[derive(Debug, Clone, Default)]
pub struct DeadFilter {
    /// Only this queue.
    pub queue: Option<String>,
    /// Only this kind.
    pub kind: Option<String>,
    /// Only those whose last attempt failed with this code.
    pub code: Option<String>,
    /// Only those that died at least so long ago.
    pub older_than: Option<Duration>,
}

impl DeadFilter {
    fn older(&self) -> Result<PgInterval, Error> {
        interval("older-than", self.older_than.unwrap_or_default())
    }
}

/// A dead job as a person sees it.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct DeadRow {
    /// Its number.
    pub id: JobId,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// How many attempts it has used up.
    pub attempt: i16,
    /// How many it had.
    pub max_attempts: i16,
    /// When it was enqueued.
    pub enqueued_at: DateTime<Utc>,
    /// When it died.
    pub died_at: DateTime<Utc>,
    /// Its idempotency key.
    pub key: Option<String>,
    /// The short name of its last error.
    pub code: String,
    /// Its last error in words.
    pub message: String,
    /// Who ran it last.
    pub worker: String,
}

/// How many dead jobs of one queue and kind have the same error.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct DeadGroup {
    /// Their queue.
    pub queue: String,
    /// Their kind.
    pub kind: String,
    /// The short name of their last error.
    pub code: String,
    /// How many they are.
    pub jobs: i64,
    /// When the first of them died.
    pub oldest: DateTime<Utc>,
    /// When the last of them died.
    pub newest: DateTime<Utc>,
}

#[derive(sqlx::FromRow)]
struct FoundRow {
    #[sqlx(flatten)]
    group: DeadGroup,
    matches: bool,
    last: i64,
}

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct DeadStep {
    /// How many dead jobs it read.
    pub read: i32,
    /// How many of them it changed.
    pub changed: i32,
    last: Option<i64>,
}

/// A walk over the dead jobs of the namespace, in steps that each are a short transaction of their own.
#[derive(Clone)]
#[must_use = "nothing happens before a step is taken"]
pub struct DeadWalk {
    bugle: Bugle,
    filter: DeadFilter,
    older: PgInterval,
    /// Every dead job up to this id has been read; `None`: all of them.
    after: Option<i64>,
}

impl Bugle {
    /// At most `most` dead jobs, the last to die first.
    pub async fn list_dead(&self, filter: &DeadFilter, most: u32) -> Result<Vec<DeadRow>, Error> {
        sqlx::query_as(self.statements().list_dead())
            .bind(self.namespace().as_str())
            .bind(filter.queue.as_deref())
            .bind(filter.kind.as_deref())
            .bind(filter.code.as_deref())
            .bind(filter.older()?)
            .bind(i64::from(most))
            .fetch_all(self.pool())
            .await
            .map_err(Error::executing)
    }

    /// Begins a walk over the dead jobs.
    pub fn walk_dead(&self, filter: DeadFilter) -> Result<DeadWalk, Error> {
        Ok(DeadWalk { bugle: self.clone(), older: filter.older()?, filter, after: Some(0) })
    }
}

impl DeadWalk {
    /// One step that changes nothing: how many jobs it read, and which of them match. `None` at the end.
    pub async fn find(&mut self) -> Result<Option<(i64, Vec<DeadGroup>)>, Error> {
        let Some(after) = self.after else { return Ok(None) };
        let rows: Vec<FoundRow> = self
            .step(self.bugle.statements().find_dead(), after)
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)?;
        let read = rows.iter().map(|row| row.group.jobs).sum();
        self.goes_on(read, rows.iter().map(|row| row.last).max());
        Ok(Some((read, rows.into_iter().filter(|row| row.matches).map(|row| row.group).collect())))
    }

    /// One step: the jobs of it that match are ready again, with all their attempts anew. `None` at the end.
    ///
    /// After an error that may or may not have happened the same step may be taken again.
    pub async fn redrive(&mut self) -> Result<Option<DeadStep>, Error> {
        self.change("redrive").await
    }

    /// One step: the jobs of it that match are deleted for good. `None` at the end.
    pub async fn purge(&mut self) -> Result<Option<DeadStep>, Error> {
        self.change("purge").await
    }

    async fn change(&mut self, how: &str) -> Result<Option<DeadStep>, Error> {
        let Some(after) = self.after else { return Ok(None) };
        let step: DeadStep = self
            .step(self.bugle.statements().change_dead(), after)
            .bind(how)
            .fetch_one(self.bugle.pool())
            .await
            .map_err(Error::executing)?;
        self.goes_on(i64::from(step.read), step.last);
        Ok(Some(step))
    }

    /// A statement of a step: its first seven arguments say which jobs.
    fn step<T>(&self, sql: SqlStr, after: i64) -> QueryAs<'_, Postgres, T, PgArguments>
    where
        T: for<'r> FromRow<'r, PgRow>,
    {
        sqlx::query_as(sql)
            .bind(self.bugle.namespace().as_str())
            .bind(self.filter.queue.as_deref())
            .bind(self.filter.kind.as_deref())
            .bind(self.filter.code.as_deref())
            .bind(self.older)
            .bind(after)
            .bind(DEAD_STEP_JOBS)
    }

    fn goes_on(&mut self, read: i64, last: Option<i64>) {
        self.after = if read < i64::from(DEAD_STEP_JOBS) { None } else { last };
    }
}
