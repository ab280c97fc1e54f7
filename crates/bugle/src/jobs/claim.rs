//! Leasing jobs from a queue.

use super::enqueue::interval;
use super::hints::{Hint, Seen};
use super::source::Want;
use super::{JobId, Queue, look};
use crate::limits::{CLAIM_JOBS_MAX, LEASE_MILLISECONDS_MIN, LEASE_SECONDS_MAX};
use crate::{Error, crash};
use bugle_wake::{Given, Number};
use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use std::time::Duration;

/// What one look at a queue brought.
#[derive(Debug)]
pub struct Look {
    /// The lease's token; all jobs of this look share it.
    pub token: i64,
    /// The jobs, in the order in which they should start.
    pub jobs: Vec<Claimed>,
    /// It was full: there may be more, look again at once.
    pub full: bool,
    /// How soon something becomes due or a lease ends, by the database's clock; `None` = nothing known.
    pub look_again_in: Option<Duration>,
    /// The database's clock when it looked.
    pub claimed_at: DateTime<Utc>,
    /// What else there is in the queue, as far as the look searched; `None`: somebody else was looking.
    pub(super) seen: Option<Seen>,
}

/// A job in a worker's hands.
#[derive(Debug)]
pub struct Claimed {
    /// The job's number.
    pub id: JobId,
    /// What sort of job it is.
    pub kind: String,
    /// The payload, as JSON text.
    pub payload: Box<RawValue>,
    /// Which attempt this is, counted from 1.
    pub attempt: u16,
    /// How many attempts it has.
    pub max_attempts: u16,
    /// When it was enqueued.
    pub enqueued_at: DateTime<Utc>,
    /// When it was due.
    pub due_at: DateTime<Utc>,
    /// The idempotency key, if it was enqueued with one.
    pub key: Option<String>,
    /// What few jobs have, as JSON text: a retry rule of its own, and whether it was lost with a worker before.
    pub extra: Option<Box<RawValue>>,
    /// When the lease ends unless it is renewed.
    pub lease_until: DateTime<Utc>,
    /// What ends it.
    pub receipt: Receipt,
    /// How it was given to whoever waited for it; none of one who did not wait.
    pub(crate) given: Option<Given>,
}

/// Proof of a claim: what ack, fail and release must show. Worthless once the job was handed out anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Receipt {
    pub(crate) lane: i16,
    pub(crate) x: i64,
    pub(crate) id: i64,
    pub(crate) token: i64,
}

impl Receipt {
    /// The job's number.
    #[must_use]
    pub fn id(&self) -> JobId {
        JobId(self.id)
    }

    /// The lease's token.
    #[must_use]
    pub fn token(&self) -> i64 {
        self.token
    }

    /// The number of the transaction that made the job claimable: grows with every redelivery.
    #[must_use]
    pub fn row(&self) -> i64 {
        self.x
    }
}

impl Queue {
    /// Leases up to `most` ready jobs to `worker` for `lease`, if there are any now.
    pub async fn claim(&self, worker: &str, most: u32, lease: Duration) -> Result<Look, Error> {
        let ask = look::Ask {
            queue: self.number,
            worker: worker.into(),
            most: check_most(most)?,
            lease: check_lease(lease)?,
            sweep: false,
            hint: Hint::default(),
        };
        let mut connection = self.bugle.pool().acquire().await.map_err(Error::connecting)?;
        let looks = look::look(&mut connection, self.bugle.statements(), &[ask]).await?;
        looks.into_iter().flatten().next().ok_or_else(|| Error::Bug("a look was not answered".to_owned()))
    }

    /// Like [`Queue::claim`], but waits up to `wait` until there is a job; `None` when there was none. However many wait, one look
    /// serves them all.
    ///
    /// Dropping the future gives back at once what was claimed for it, the attempt not counted.
    pub async fn claim_within(
        &self,
        worker: &str,
        most: u32,
        lease: Duration,
        wait: Duration,
    ) -> Result<Option<Look>, Error> {
        let asked = Want { worker: worker.into(), lease: check_lease(lease)? };
        let most = check_most(most)?.unsigned_abs();
        let intention = self.wake().jobs.once(Number(self.number), asked, most)?;
        match tokio::time::timeout(wait, intention.next()).await {
            Ok(Some(mut look)) => {
                look.jobs.iter_mut().for_each(|job| job.given = intention.given());
                Ok(Some(look))
            }
            Ok(None) => Err(Error::NoConnection(sqlx::Error::PoolClosed)), // the engine was stopped
            Err(_) => Ok(None),
        }
    }

    /// Extends the leases of `worker` among `tokens`, all with one statement; returns the tokens still held with their new ends.
    /// A token that is not returned was lost: its jobs are or will be somebody else's.
    pub async fn renew(&self, worker: &str, tokens: &[i64]) -> Result<Vec<(i64, DateTime<Utc>)>, Error> {
        let renewed = sqlx::query_as(self.bugle.statements().renew())
            .bind(tokens)
            .bind(worker)
            .fetch_all(&mut *self.bugle.connection().await?)
            .await
            .map_err(Error::executing)?;
        crash::point("renew.after_commit");
        Ok(renewed)
    }

    /// Notes that `worker` is about to begin a job that was lost before, at its last attempt.
    pub(super) async fn note_begun(&self, worker: &str, job: Receipt) -> Result<(), Error> {
        let noted = sqlx::query(self.bugle.statements().note_begun())
            .bind(worker)
            .bind(job.token)
            .bind(job.id)
            .execute(self.bugle.pool())
            .await;
        noted.map(drop).map_err(Error::executing)
    }
}

pub(super) fn check_most(most: u32) -> Result<i32, Error> {
    i32::try_from(most).ok().filter(|_| (1..=CLAIM_JOBS_MAX).contains(&most)).ok_or_else(|| Error::Invalid {
        what: "number of jobs to claim",
        fault: format!("is {most}"),
        next: "use 1 to 1000",
    })
}

pub(super) fn check_lease(lease: Duration) -> Result<sqlx::postgres::types::PgInterval, Error> {
    if lease < Duration::from_millis(LEASE_MILLISECONDS_MIN) || lease > Duration::from_secs(LEASE_SECONDS_MAX)
    {
        return Err(Error::Invalid {
            what: "lease",
            fault: format!("is {lease:?}"),
            next: "use 100 milliseconds to 24 hours",
        });
    }
    interval("lease", lease)
}
