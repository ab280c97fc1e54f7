//! One queue, by its number.

use super::enqueue::interval;
use crate::name::QueueName;
use crate::wake::Wake;
use crate::{Bugle, Error};
use bugle_wake::Mode;
use std::time::Duration;

/// A queue, found once by its name. Cheap to clone.
///
/// A [`Worker`](super::Worker) is the comfortable way to run jobs; this is the plain one: claim, do the work, ack.
#[derive(Clone)]
pub struct Queue {
    pub(super) bugle: Bugle,
    pub(super) number: i32,
    pub(super) name: QueueName,
    pub(super) carries: Carries,
}

/// The name of the queue of what Bugle itself does in the workflows of a namespace (`bugle.declare_flow`). Nobody else works in it.
pub(crate) const ENGINE_QUEUE: &str = "flow engine";

/// What hangs on the jobs of a queue: whoever ends one ends that as well, in the same statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carries {
    /// Nothing: a job is a job.
    Nothing,
    /// A step of a workflow.
    Steps,
}

impl Bugle {
    /// The queue of this name, made if it does not exist.
    pub async fn queue(&self, name: &str) -> Result<Queue, Error> {
        self.find_or_make(name, self.statements().declare_queue(), Carries::Nothing).await
    }

    /// The same for steps of workflows.
    pub(crate) async fn step_queue(&self, name: &str) -> Result<Queue, Error> {
        self.find_or_make(name, self.statements().declare_step_queue(), Carries::Steps).await
    }

    /// The same, when its number is known.
    pub(crate) fn step_queue_of(&self, name: &str, number: i32) -> Result<Queue, Error> {
        Ok(Queue { bugle: self.clone(), number, name: QueueName::parse(name)?, carries: Carries::Steps })
    }

    /// The queue of what Bugle itself does in the workflows of this namespace.
    pub(crate) async fn engine_queue(&self) -> Result<Queue, Error> {
        let name = QueueName::parse(ENGINE_QUEUE)?;
        if let Some(number) = self.number_of(&name) {
            return self.known_queue(number.0, ENGINE_QUEUE, Carries::Nothing);
        }
        let number = sqlx::query_scalar(self.statements().declare_engine())
            .bind(self.namespace().as_str())
            .fetch_one(self.pool())
            .await
            .map_err(Error::executing)?;
        self.remember(&name, number);
        self.known_queue(number, ENGINE_QUEUE, Carries::Nothing)
    }

    /// A queue of workflows whose number is known.
    pub(crate) fn known_queue(&self, number: i32, name: &str, carries: Carries) -> Result<Queue, Error> {
        Ok(Queue { bugle: self.clone(), number, name: QueueName::parse(name)?, carries })
    }

    async fn find_or_make(&self, name: &str, sql: sqlx::SqlStr, carries: Carries) -> Result<Queue, Error> {
        let name = QueueName::parse(name)?;
        let number = sqlx::query_scalar(sql)
            .bind(name.as_str())
            .bind(self.namespace().as_str())
            .fetch_one(self.pool())
            .await
            .map_err(Error::executing)?;
        Ok(Queue { bugle: self.clone(), number, name, carries })
    }
}

impl Bugle {
    /// Sets how the waiters of a queue are woken, on every node within a second. `poll`: how often to look where the mode polls; `None`:
    /// as each node's options say.
    pub async fn set_mode(&self, queue: &str, mode: Mode, poll: Option<Duration>) -> Result<(), Error> {
        let name = QueueName::parse(queue)?;
        sqlx::query(self.statements().set_mode())
            .bind(name.as_str())
            .bind(mode.as_str())
            .bind(poll.map(|poll| interval("poll interval", poll)).transpose()?)
            .bind(self.namespace().as_str())
            .execute(self.pool())
            .await
            .map_err(Error::executing)
            .map(drop)
    }

    /// From the moment that this returns nothing of the queue is handed out; jobs that workers hold go on and are settled as always.
    /// False when it was paused already.
    pub async fn pause(&self, queue: &str) -> Result<bool, Error> {
        self.set_paused(queue, self.statements().pause()).await
    }

    /// Hands jobs of the queue out again and wakes whoever waits for them, on every node. False when it was not paused.
    pub async fn resume(&self, queue: &str) -> Result<bool, Error> {
        self.set_paused(queue, self.statements().resume()).await
    }

    async fn set_paused(&self, queue: &str, sql: sqlx::SqlStr) -> Result<bool, Error> {
        let name = QueueName::parse(queue)?;
        sqlx::query_scalar(sql)
            .bind(name.as_str())
            .bind(self.namespace().as_str())
            .fetch_one(self.pool())
            .await
            .map_err(Error::executing)
    }
}

impl Queue {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &QueueName {
        &self.name
    }

    pub(crate) fn number(&self) -> i32 {
        self.number
    }

    /// The engine that wakes this queue's waiters; from now on it knows the queue.
    pub(super) fn wake(&self) -> &Wake {
        self.bugle.remember(&self.name, self.number);
        self.bugle.wake()
    }

    /// Takes back the jobs of leases that have ended; returns how many. Every look that is not full does this by itself: only a queue
    /// whose looks are always full needs the call.
    pub async fn sweep(&self) -> Result<i32, Error> {
        sqlx::query_scalar(self.bugle.statements().sweep())
            .bind(self.number)
            .fetch_one(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }
}
