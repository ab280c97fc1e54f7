//! Single enqueues of many callers at once, written together.
//!
//! A call that finds nobody writing for its queue is written at once; those that come meanwhile are written together, with one statement,
//! when that is done. Nobody is held back for company, and everybody is answered after the commit of their own
//! job. Eight callers then wait for one flush instead of eight.

use super::JobId;
use super::enqueue::Checked;
use crate::name::QueueName;
use crate::{Bugle, Error, Outcome, crash};
use sqlx::PgConnection;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Writers of one queue at a time.
const WRITERS: usize = 1;
/// Most jobs of one statement: what a small machine writes in some milliseconds.
const FUSED_MAX: usize = 500;

/// The calls that wait for a writer, queue by queue. A queue is here while somebody writes for it.
#[derive(Default)]
pub(crate) struct Fuse(Mutex<HashMap<QueueName, Waiting>>);

#[derive(Default)]
struct Waiting {
    calls: Vec<Call>,
    writers: usize,
}

struct Call {
    job: Checked,
    answer: oneshot::Sender<Result<JobId, Error>>,
}

impl Fuse {
    /// Writes a plain job; answered when it has been committed.
    ///
    /// Whoever drops the future does not learn what became of the job: others are written by the same statement.
    pub(super) async fn write(&self, bugle: &Bugle, job: Checked) -> Result<JobId, Error> {
        let (answer, answered) = oneshot::channel();
        let begin = {
            let mut queues = self.lock();
            let waiting = queues.entry(job.queue.clone()).or_default();
            let queue = (waiting.writers < WRITERS).then(|| job.queue.clone());
            waiting.writers += usize::from(queue.is_some());
            waiting.calls.push(Call { job, answer });
            queue
        };
        if let Some(queue) = begin {
            tokio::spawn(Writer { bugle: bugle.clone(), queue, ended: false }.run());
        }
        // A writer that is gone without an answer went with its runtime, perhaps after it had sent the statement.
        answered.await.unwrap_or_else(|_| Err(Error::timed_out()))
    }

    /// The next calls to be written. None: there are none, and the writer is counted as gone from this moment on.
    fn take(&self, queue: &QueueName) -> Option<Vec<Call>> {
        let mut queues = self.lock();
        let calls = queues.get_mut(queue).map(|waiting| &mut waiting.calls).filter(|calls| !calls.is_empty());
        let Some(calls) = calls else {
            leave(&mut queues, queue);
            return None;
        };
        let most = calls.len().min(FUSED_MAX);
        Some(calls.drain(..most).collect())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<QueueName, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One writer less.
fn leave(queues: &mut HashMap<QueueName, Waiting>, queue: &QueueName) {
    if let Some(waiting) = queues.get_mut(queue) {
        waiting.writers -= 1;
        if waiting.writers == 0 && waiting.calls.is_empty() {
            queues.remove(queue);
        }
    }
}

/// Writes what waits for one queue until nothing does.
struct Writer {
    bugle: Bugle,
    queue: QueueName,
    ended: bool,
}

impl Drop for Writer {
    /// One that panics: the next call starts another.
    fn drop(&mut self) {
        if !self.ended {
            leave(&mut self.bugle.fuse().lock(), &self.queue);
        }
    }
}

impl Writer {
    async fn run(mut self) {
        let mut connection = None;
        while let Some(calls) = self.bugle.fuse().take(&self.queue) {
            if connection.is_none() {
                match self.bugle.pool().acquire().await.map_err(Error::connecting) {
                    Ok(acquired) => connection = Some(acquired),
                    Err(error) => {
                        answer_all(calls, &error);
                        continue;
                    }
                }
            }
            if let Some(acquired) = &mut connection
                && !self.write(acquired, calls).await
            {
                connection = None; // perhaps it is the connection that is broken
            }
            // Those who were just answered and have more to write get in first: without it they would find nobody, one by one.
            tokio::task::yield_now().await;
        }
        self.ended = true;
    }

    /// Writes the jobs of several calls and answers each. False: something failed.
    async fn write(&self, connection: &mut PgConnection, mut calls: Vec<Call>) -> bool {
        crash::point("enqueue.before_send");
        if let [_] = &calls[..]
            && let Some(call) = calls.pop()
        {
            return self.write_alone(connection, call).await;
        }
        match self.write_fused(connection, &calls).await {
            Ok(ids) => {
                crash::point("enqueue.after_commit");
                self.bugle.wake_local_by_name(&self.queue);
                for (call, id) in calls.into_iter().zip(ids) {
                    let _ = call.answer.send(Ok(id)); // whoever asked may be gone
                }
                true
            }
            // Nothing was written, because of one of them: each gets its own answer.
            Err(error) if error.outcome() == Outcome::Refused => {
                let mut well = true;
                for call in calls {
                    well &= self.write_alone(connection, call).await;
                }
                well
            }
            Err(error) => {
                answer_all(calls, &error);
                false
            }
        }
    }

    async fn write_alone(&self, connection: &mut PgConnection, call: Call) -> bool {
        let answer = call.job.write_own(&self.bugle, connection).await;
        crash::point("enqueue.after_commit");
        let well = answer.is_ok();
        if well {
            self.bugle.wake_local_by_name(&self.queue);
        }
        let _ = call.answer.send(answer);
        well
    }

    async fn write_fused(&self, connection: &mut PgConnection, calls: &[Call]) -> Result<Vec<JobId>, Error> {
        let jobs = || calls.iter().map(|call| &call.job);
        let ids: Vec<i64> = sqlx::query_scalar(self.bugle.statements().enqueue_fused())
            .bind(self.bugle.namespace().as_str())
            .bind(self.queue.as_str())
            .bind(jobs().map(|job| job.kind.as_str()).collect::<Vec<_>>())
            .bind(jobs().filter_map(|job| job.payloads.first().cloned()).collect::<Vec<_>>())
            .bind(jobs().map(|job| job.lane).collect::<Vec<_>>())
            .bind(jobs().map(|job| job.max_attempts).collect::<Vec<_>>())
            .fetch_one(connection)
            .await
            .map_err(Error::executing)?;
        Ok(ids.into_iter().map(JobId).collect())
    }
}

fn answer_all(calls: Vec<Call>, error: &Error) {
    for call in calls {
        let _ = call.answer.send(Err(error.again()));
    }
}
