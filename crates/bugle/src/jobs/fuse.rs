//! Single enqueues of many callers at once, written together.
//!
//! A call that finds a writer free is written at once; those that come while all are busy are written together by the first that is
//! done, those of one queue with one statement. Nobody is held back for company, and everybody is answered after the commit of their own
//! job. Eight callers then wait for one flush instead of eight.

use super::JobId;
use super::enqueue::Checked;
use crate::{Bugle, Error, Outcome, crash};
use sqlx::PgConnection;
use std::sync::{Mutex, PoisonError};
use tokio::sync::oneshot;

/// While one waits for its flush, another collects.
const WRITERS: usize = 2;
/// Most jobs of one statement: what a small machine writes in some milliseconds.
const FUSED_MAX: usize = 500;

/// The calls that wait for a writer.
#[derive(Default)]
pub(crate) struct Fuse(Mutex<Waiting>);

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
            let mut waiting = self.lock();
            waiting.calls.push(Call { job, answer });
            let begin = waiting.writers < WRITERS;
            waiting.writers += usize::from(begin);
            begin
        };
        if begin {
            tokio::spawn(Writer { bugle: bugle.clone(), ended: false }.run());
        }
        // A writer that is gone without an answer went with its runtime, perhaps after it had sent the statement.
        answered.await.unwrap_or_else(|_| Err(Error::timed_out()))
    }

    /// The next calls to be written, all of one queue. None: there are none, and the writer is counted as gone from this moment on.
    fn take(&self) -> Option<Vec<Call>> {
        let mut waiting = self.lock();
        if waiting.calls.is_empty() {
            waiting.writers -= 1;
            return None;
        }
        let queue = waiting.calls[0].job.queue.clone();
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for call in waiting.calls.drain(..) {
            let here = call.job.queue == queue && taken.len() < FUSED_MAX;
            if here { &mut taken } else { &mut left }.push(call);
        }
        waiting.calls = left;
        Some(taken)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes what waits until nothing does.
struct Writer {
    bugle: Bugle,
    ended: bool,
}

impl Drop for Writer {
    /// One that panics: the next call starts another.
    fn drop(&mut self) {
        if !self.ended {
            self.bugle.fuse().lock().writers -= 1;
        }
    }
}

impl Writer {
    async fn run(mut self) {
        let mut connection = None;
        while let Some(calls) = self.bugle.fuse().take() {
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
                for (call, id) in calls.into_iter().zip(ids) {
                    self.bugle.wake_local_by_name(&call.job.queue);
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
        let queue = call.job.queue.clone();
        let answer = call.job.write_one(&self.bugle, &mut *connection).await;
        crash::point("enqueue.after_commit");
        let well = answer.is_ok();
        if well {
            self.bugle.wake_local_by_name(&queue);
        }
        let _ = call.answer.send(answer);
        well
    }

    async fn write_fused(&self, connection: &mut PgConnection, calls: &[Call]) -> Result<Vec<JobId>, Error> {
        let Some(first) = calls.first() else { return Ok(Vec::new()) };
        let jobs = || calls.iter().map(|call| &call.job);
        let ids: Vec<i64> = sqlx::query_scalar(self.bugle.statements().enqueue_fused())
            .bind(self.bugle.namespace().as_str())
            .bind(first.job.queue.as_str())
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
