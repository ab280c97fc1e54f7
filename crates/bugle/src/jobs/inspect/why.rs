//! Why a job is where it is, and what it waits for.

use super::{FailedAttempt, JobDetail, QueueDetail};
use crate::jobs::{JobId, State};
use crate::{Bugle, Error};
use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;

/// Jobs before a ready one are counted up to here: the count is a walk along an index.
pub const AHEAD_MAX: i64 = 10_000;

/// A node that sleeps for a queue has taken a ready job long before this; one that has not sleeps for another queue of the bucket.
const RUNG_WITHIN: TimeDelta = TimeDelta::seconds(2);

/// What a job waits for, or how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// It could be handed out, but its queue is paused.
    Paused,
    /// It could be handed out, but nobody is seen who works on its queue.
    NoWorker,
    /// Others go before it.
    Behind,
    /// It is the next in line.
    Next,
    /// Its time has not come.
    NotDue,
    /// An attempt failed, and the next one is not due.
    BackingOff,
    /// A worker has it.
    Leased,
    /// A worker had it; its lease has ended and nobody has taken it back yet.
    LeaseEnded,
    /// It is done.
    Done,
    /// It is out of attempts, or can never succeed.
    Dead,
    /// Somebody cancelled it.
    Cancelled,
}

/// A job, its queue, and why it is where it is.
#[derive(Debug, Clone, Serialize)]
pub struct Why {
    /// What it waits for.
    pub reason: Reason,
    /// How many jobs go before it, if it is ready: at most [`AHEAD_MAX`], which means as many or more.
    pub ahead: Option<i64>,
    /// The job.
    pub job: JobDetail,
    /// Its queue.
    pub queue: QueueDetail,
}

impl Why {
    /// The database's clock when it was asked.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        self.queue.more.now
    }

    /// What went wrong last.
    #[must_use]
    pub fn last_failure(&self) -> Option<&FailedAttempt> {
        self.job.failures.last()
    }
}

impl Bugle {
    /// Why a job is where it is; `None` when there is no such job, or no longer. It may have moved on while the answer travelled.
    pub async fn why(&self, id: JobId) -> Result<Option<Why>, Error> {
        let Some((job, x)) = self.find_job(id).await? else { return Ok(None) };
        let Some(queue) = self.show_queue(&job.row.queue).await? else { return Ok(None) };
        let state: State = job.row.state.parse()?;
        let ahead = match x {
            Some(x) if state == State::Ready => Some(self.ahead_of(&queue, &job, x).await?),
            _ => None,
        };
        Ok(Some(Why { reason: reason(state, ahead, &job, &queue), ahead, job, queue }))
    }

    async fn ahead_of(&self, queue: &QueueDetail, job: &JobDetail, x: i64) -> Result<i64, Error> {
        sqlx::query_scalar(self.statements().ahead_of())
            .bind(queue.more.number)
            .bind(job.row.priority)
            .bind(x)
            .bind(job.row.id)
            .bind(AHEAD_MAX)
            .fetch_one(self.pool())
            .await
            .map_err(Error::executing)
    }
}

fn reason(state: State, ahead: Option<i64>, job: &JobDetail, queue: &QueueDetail) -> Reason {
    let now = queue.more.now;
    match state {
        State::Ready => waiting(ahead.unwrap_or_default(), job, queue),
        State::Scheduled if job.row.due_at.is_some_and(|due| due > now) => {
            let failed = job.row.attempt > 0 && !job.failures.is_empty();
            if failed { Reason::BackingOff } else { Reason::NotDue }
        }
        State::Scheduled => waiting(0, job, queue), // due; the next look moves it
        State::Leased if job.lease_until.is_some_and(|until| until <= now) => Reason::LeaseEnded,
        State::Leased => Reason::Leased,
        State::Done => Reason::Done,
        State::Dead => Reason::Dead,
        State::Cancelled => Reason::Cancelled,
    }
}

/// Why a job is not handed out that could be.
fn waiting(ahead: i64, job: &JobDetail, queue: &QueueDetail) -> Reason {
    if queue.row.paused {
        Reason::Paused
    } else if is_nobody_seen(queue, job.row.due_at) {
        Reason::NoWorker
    } else if ahead > 0 {
        Reason::Behind
    } else {
        Reason::Next
    }
}

/// Is nobody seen who works on a queue, when something of it is there to be claimed since then? `None`: nothing is.
pub(crate) fn is_nobody_seen(queue: &QueueDetail, since: Option<DateTime<Utc>>) -> bool {
    let more = &queue.more;
    let waited = since.map_or(TimeDelta::zero(), |since| more.now - since);
    let asleep_for_it = !more.sleepers.is_empty() && (more.neighbours == 0 || waited < RUNG_WITHIN);
    !asleep_for_it && !queue.workers.iter().any(|holder| holder.alive)
}
