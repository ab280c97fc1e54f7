//! Waiting for the end of a job.

use super::ends::{EndRow, Told};
use super::{JobId, Queue, State};
use crate::name::QueueName;
use crate::{Bugle, Error};
use bugle_wake::Number;
use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// A job that was enqueued, by whichever process, for those who wait for its end. Cheap to clone.
///
/// ```no_run
/// # async fn example(bugle: bugle::Bugle, job: impl bugle::Job) -> Result<(), Box<dyn std::error::Error>> {
/// let handle = bugle.enqueue(&job).send_handle().await?;
/// let receipt: String = handle.wait().await?.done()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Handle {
    bugle: Bugle,
    id: JobId,
    /// Its queue, when it is known that there is such a job.
    queue: Option<QueueName>,
}

/// How a job ended, and what its handler returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End<R> {
    /// The job's number.
    pub id: JobId,
    /// The attempt that ended it; for a cancelled one, how many it had used up.
    pub attempt: u16,
    /// When it ended, by the database's clock.
    pub ended_at: DateTime<Utc>,
    /// Who ended it, when that was written down.
    pub worker: Option<String>,
    /// What became of it.
    pub how: Ending<R>,
}

/// What became of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending<R> {
    /// It is done, and this is what its handler returned. A handler that returned nothing: `()`, or `None` of an `Option`.
    Done(R),
    /// It is dead: out of attempts. A person may retry it; whoever waits is told of the first end.
    Dead {
        /// The last error's short name; `None`: failed attempts are kept for some days only.
        code: Option<String>,
        /// The last error in words.
        message: Option<String>,
    },
    /// Somebody cancelled it.
    Cancelled,
}

/// A job has ended without a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotDone {
    /// It is out of attempts.
    #[error(
        "job {id} is dead{}; look with `bugle job show {id}`, try it again with `bugle job retry {id}`",
        error.as_ref().map(|error| format!(": {error}")).unwrap_or_default()
    )]
    Dead {
        /// The job's number.
        id: JobId,
        /// The last error, code and words, while it is kept.
        error: Option<String>,
    },
    /// Somebody cancelled it.
    #[error("job {id} was cancelled; enqueue another one if it is still wanted")]
    Cancelled {
        /// The job's number.
        id: JobId,
    },
}

impl<R> End<R> {
    /// The state that it is in.
    pub fn state(&self) -> State {
        match self.how {
            Ending::Done(_) => State::Done,
            Ending::Dead { .. } => State::Dead,
            Ending::Cancelled => State::Cancelled,
        }
    }

    /// What the handler returned, of a job that is done.
    pub fn done(self) -> Result<R, NotDone> {
        match self.how {
            Ending::Done(result) => Ok(result),
            Ending::Dead { code, message } => {
                let words: Vec<String> = code.into_iter().chain(message).collect();
                Err(NotDone::Dead { id: self.id, error: (!words.is_empty()).then(|| words.join(": ")) })
            }
            Ending::Cancelled => Err(NotDone::Cancelled { id: self.id }),
        }
    }
}

impl Bugle {
    /// A job to wait for, by its number: whoever enqueued it, and wherever it runs. See [`Enqueue::send_handle`](super::Enqueue::send_handle).
    #[must_use]
    pub fn handle(&self, id: JobId) -> Handle {
        Handle::new(self, id, None)
    }
}

impl Queue {
    /// Like [`Bugle::handle`], for those who know that the job is or was in this queue: it is not searched for, which takes long among
    /// many that wait their turn. A number that no job has is waited for in vain.
    #[must_use]
    pub fn handle(&self, id: JobId) -> Handle {
        Handle::new(&self.bugle, id, Some(self.name.clone()))
    }
}

impl Handle {
    pub(super) fn new(bugle: &Bugle, id: JobId, queue: Option<QueueName>) -> Self {
        Self { bugle: bugle.clone(), id, queue }
    }

    /// The job's number.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.id
    }

    /// Waits until the job has ended, also when it ended long ago; however many wait, nothing is asked of the database while nothing ends.
    /// `R`: what its handler returns; `serde_json::Value` takes anything.
    ///
    /// Dropping the future ends the wait and nothing else. A queue that keeps no history is refused: nothing would tell.
    pub async fn wait<R: DeserializeOwned>(&self) -> Result<End<R>, Error> {
        let number = self.number().await?;
        // The intention before the look: an end that comes in between is found by it.
        let intention = self.bugle.ends().once(number.ends(), self.id, 1)?;
        match intention.next().await {
            Some(Told::Ended(end)) => end.read(),
            Some(Told::NoHistory(queue)) => Err(Error::Invalid {
                what: "queue",
                fault: format!("{queue:?} keeps no history: nothing tells how its jobs end"),
                next: "set history = true in its row of the table queue before the job is enqueued",
            }),
            None => Err(Error::NoConnection(sqlx::Error::PoolClosed)), // the engine was stopped
        }
    }

    /// Like [`Handle::wait`], but no longer than that; `None` when the job has not ended by then.
    pub async fn wait_within<R: DeserializeOwned>(&self, time: Duration) -> Result<Option<End<R>>, Error> {
        match tokio::time::timeout(time, self.wait()).await {
            Ok(end) => end.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// The number of the job's queue.
    async fn number(&self) -> Result<Number, Error> {
        let known = self.queue.as_ref().and_then(|queue| self.bugle.number_of(queue));
        if let Some(number) = known {
            return Ok(number);
        }
        let (namespace, statements) = (self.bugle.namespace(), self.bugle.statements());
        let search = match &self.queue {
            Some(queue) => {
                sqlx::query_scalar(statements.find_queue()).bind(namespace.as_str()).bind(queue.as_str())
            }
            None => sqlx::query_scalar(statements.queue_of_job()).bind(namespace.as_str()).bind(self.id),
        };
        let found: Option<Option<i32>> =
            search.fetch_optional(self.bugle.pool()).await.map_err(Error::executing)?;
        let Some(number) = found.flatten() else {
            return Err(Error::NoJob { id: self.id, namespace: namespace.to_string() });
        };
        if let Some(queue) = &self.queue {
            self.bugle.remember(queue, number);
        }
        Ok(Number(number))
    }
}

impl EndRow {
    /// For whoever waits for a result of this type.
    fn read<R: DeserializeOwned>(self) -> Result<End<R>, Error> {
        let how = match self.state()? {
            State::Done => {
                let json = self.result.as_ref().map_or("null", |result| result.0.get());
                let result = serde_json::from_str(json);
                Ending::Done(result.map_err(|source| Error::Result { id: self.id, source })?)
            }
            State::Cancelled => Ending::Cancelled,
            _ => Ending::Dead { code: self.code, message: self.message },
        };
        Ok(End {
            id: self.id,
            attempt: self.attempt.unsigned_abs(),
            ended_at: self.ended_at,
            worker: self.worker,
            how,
        })
    }
}
