//! Looking at queues: how deep they are, how far they lag, and who works on them.

use crate::{Bugle, Error};
use chrono::{DateTime, Utc};
use serde::Serialize;

/// A queue and how many jobs are in which state.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct QueueRow {
    /// Its name.
    pub name: String,
    /// How its waiters are woken.
    pub mode: String,
    /// Nothing is handed out until somebody resumes it.
    pub paused: bool,
    /// Jobs that wait for their time.
    pub scheduled: i64,
    /// Jobs that may be claimed.
    pub ready: i64,
    /// Jobs in workers' hands.
    pub leased: i64,
    /// Jobs acked so far.
    pub done: i64,
    /// Jobs out of attempts.
    pub dead: i64,
    /// Jobs cancelled so far.
    pub cancelled: i64,
    /// Since when the job has been due that is next in line.
    pub oldest_ready: Option<DateTime<Utc>>,
}

/// A queue with everything that is known about it.
#[derive(Debug, Clone, Serialize)]
pub struct QueueDetail {
    /// What a list shows of it.
    #[serde(flatten)]
    pub row: QueueRow,
    /// What else is known.
    #[serde(flatten)]
    pub more: QueueMore,
    /// Who holds jobs of it.
    pub workers: Vec<Holder>,
}

/// What a list of queues leaves out.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct QueueMore {
    #[serde(skip)]
    #[sqlx(rename = "number")]
    pub(super) number: i32,
    /// The database's clock when it was asked.
    pub now: DateTime<Utc>,
    /// How often it is looked at where its mode polls, in milliseconds; none: as each node's options say.
    pub poll_ms: Option<i64>,
    /// When the first scheduled job is due.
    pub next_due: Option<DateTime<Utc>>,
    /// When the first lease ends.
    pub next_lease_end: Option<DateTime<Utc>>,
    /// Its bucket: a ring names it.
    pub bucket: i32,
    /// How many other queues share the bucket.
    pub neighbours: i64,
    /// The nodes that sleep for its bucket. One that is awake, or polls, is not seen.
    pub sleepers: Vec<String>,
}

/// Somebody who holds jobs of a queue.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct Holder {
    /// The worker's name.
    pub worker: String,
    /// How many leases it has.
    pub leases: i64,
    /// How many jobs are left of them.
    pub jobs: i64,
    /// When it claimed the oldest of them.
    pub since: DateTime<Utc>,
    /// When the first of them ends, unless it is renewed.
    pub until: DateTime<Utc>,
    /// One of them has not ended: it is at work, or died not long ago.
    pub alive: bool,
}

impl Bugle {
    /// Every queue of the namespace with its counts, read from maintained counters.
    pub async fn list_queues(&self) -> Result<Vec<QueueRow>, Error> {
        sqlx::query_as(self.statements().list_queues())
            .bind(self.namespace().as_str())
            .bind(None::<&str>)
            .fetch_all(self.pool())
            .await
            .map_err(Error::executing)
    }

    /// One queue with its counts; `None` when the namespace has none of that name.
    pub async fn find_queue(&self, name: &str) -> Result<Option<QueueRow>, Error> {
        sqlx::query_as(self.statements().list_queues())
            .bind(self.namespace().as_str())
            .bind(name)
            .fetch_optional(self.pool())
            .await
            .map_err(Error::executing)
    }

    /// Everything known about one queue; `None` when the namespace has none of that name.
    pub async fn show_queue(&self, name: &str) -> Result<Option<QueueDetail>, Error> {
        let Some(row) = self.find_queue(name).await? else { return Ok(None) };
        let more: QueueMore = sqlx::query_as(self.statements().show_queue())
            .bind(self.namespace().as_str())
            .bind(name)
            .fetch_one(self.pool())
            .await
            .map_err(Error::executing)?;
        let workers = sqlx::query_as(self.statements().list_holders())
            .bind(more.number)
            .fetch_all(self.pool())
            .await
            .map_err(Error::executing)?;
        Ok(Some(QueueDetail { row, more, workers }))
    }
}
