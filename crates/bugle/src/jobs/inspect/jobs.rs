//! Looking at jobs, and what a person does to a single one.

use crate::jobs::{JobId, State};
use crate::{Bugle, Error};
use chrono::{DateTime, Utc};
use serde::Serialize;
use std::time::Duration;

/// How often a job that is just being settled is tried again, and how long to wait in between.
const CHANGE_TRIES_MAX: u32 = 10;
const CHANGE_PAUSE: Duration = Duration::from_millis(20);

/// A list looks among so many ids first, and among all only when that did not fill it.
const NEWEST_IDS: i64 = 100_000;

/// Which jobs to list; every field left out = any.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only this queue.
    pub queue: Option<String>,
    /// Only this state.
    pub state: Option<State>,
    /// Only this kind.
    pub kind: Option<String>,
}

/// A job as a person sees it.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct JobRow {
    /// Its number.
    pub id: JobId,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// Where it is in its life.
    pub state: String,
    /// Its lane: 0 is served first.
    pub priority: i16,
    /// How many attempts it has used up.
    pub attempt: i16,
    /// How many it has.
    pub max_attempts: i16,
    /// When it was enqueued.
    pub enqueued_at: DateTime<Utc>,
    /// When it is or was due.
    pub due_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// Its idempotency key.
    pub key: Option<String>,
}

/// A job with everything that is known about it.
#[derive(Debug, Clone, Serialize)]
pub struct JobDetail {
    /// What a list shows of it.
    #[serde(flatten)]
    pub row: JobRow,
    /// Its payload.
    pub payload: serde_json::Value,
    /// Who holds it, when it is leased.
    pub worker: Option<String>,
    /// Since when.
    pub claimed_at: Option<DateTime<Utc>>,
    /// Until when.
    pub lease_until: Option<DateTime<Utc>>,
    /// Who ended it, when it is done and that was written down.
    pub ended_by: Option<String>,
    /// What its handler returned.
    pub result: Option<serde_json::Value>,
    /// The attempts that failed, as far as they are kept (as long as history is); of a dead job at least the last one.
    pub failures: Vec<FailedAttempt>,
}

/// A job, and where it stands in line.
#[derive(sqlx::FromRow)]
struct DetailRow {
    #[sqlx(flatten)]
    row: JobRow,
    x: Option<i64>,
    payload: serde_json::Value,
    worker: Option<String>,
    claimed_at: Option<DateTime<Utc>>,
    lease_until: Option<DateTime<Utc>>,
    ended_by: Option<String>,
    result: Option<serde_json::Value>,
}

/// One attempt that did not end well.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct FailedAttempt {
    /// When it failed.
    pub failed_at: DateTime<Utc>,
    /// Which attempt it was, counted from 1.
    pub attempt: i16,
    /// Who ran it.
    pub worker: String,
    /// The error's short name.
    pub code: String,
    /// The error in words.
    pub message: String,
}

impl Bugle {
    /// At most `most` jobs, newest first.
    pub async fn list_jobs(&self, filter: &Filter, most: u32) -> Result<Vec<JobRow>, Error> {
        for newest in [NEWEST_IDS, i64::MAX] {
            let jobs: Vec<JobRow> = sqlx::query_as(self.statements().list_jobs())
                .bind(self.namespace().as_str())
                .bind(filter.queue.as_deref())
                .bind(filter.state.map(State::as_str))
                .bind(filter.kind.as_deref())
                .bind(i64::from(most))
                .bind(newest)
                .fetch_all(self.pool())
                .await
                .map_err(Error::executing)?;
            let enough = usize::try_from(most).is_ok_and(|most| jobs.len() >= most);
            if enough || newest == i64::MAX {
                return Ok(jobs);
            }
        }
        Ok(Vec::new())
    }

    /// Everything known about one job; `None` when there is no such job, or no longer.
    pub async fn show_job(&self, id: JobId) -> Result<Option<JobDetail>, Error> {
        Ok(self.find_job(id).await?.map(|(job, _)| job))
    }

    /// A job, and the number of the transaction that made it claimable: with lane and id its place in line.
    pub(super) async fn find_job(&self, id: JobId) -> Result<Option<(JobDetail, Option<i64>)>, Error> {
        let found: Option<DetailRow> = sqlx::query_as(self.statements().show_job())
            .bind(self.namespace().as_str())
            .bind(id)
            .fetch_optional(self.pool())
            .await
            .map_err(Error::executing)?;
        let Some(found) = found else { return Ok(None) };
        let failures = sqlx::query_as(self.statements().list_failures())
            .bind(id)
            .fetch_all(self.pool())
            .await
            .map_err(Error::executing)?;
        let job = JobDetail {
            row: found.row,
            payload: found.payload,
            worker: found.worker,
            claimed_at: found.claimed_at,
            lease_until: found.lease_until,
            ended_by: found.ended_by,
            result: found.result,
            failures,
        };
        Ok(Some((job, found.x)))
    }

    /// Ends an open job. Returns the state that it was in: `ready` or `scheduled` = it will never start; `leased` = a worker may be at
    /// it and will find it gone; `None` = there is no such open job.
    pub async fn cancel_job(&self, id: JobId) -> Result<Option<State>, Error> {
        self.change(id, self.statements().cancel()).await
    }

    /// Makes a scheduled or dead job ready now (a dead one with all its attempts anew). Returns the state that it was in; `None` = it is
    /// neither.
    pub async fn retry_job(&self, id: JobId) -> Result<Option<State>, Error> {
        self.change(id, self.statements().retry()).await
    }

    async fn change(&self, id: JobId, sql: sqlx::SqlStr) -> Result<Option<State>, Error> {
        let mut tries = 0;
        loop {
            let change = sqlx::query_scalar(sql.clone()).bind(id).bind(self.namespace().as_str());
            let was: Result<Option<String>, _> =
                change.fetch_one(self.pool()).await.map_err(Error::executing);
            match was {
                Ok(was) => return was.map(|state| state.parse()).transpose(),
                // Somebody is just settling it, most likely a worker, which takes a moment. Waited for here and not in the database, where
                // the queue's lock would be held meanwhile.
                Err(Error::Refused { code, .. }) if code == "55P03" && tries < CHANGE_TRIES_MAX => {
                    tries += 1;
                    tokio::time::sleep(CHANGE_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
