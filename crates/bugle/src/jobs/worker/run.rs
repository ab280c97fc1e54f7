//! The worker's loop: free slots, one look for all of them, one task per job.

use super::handler::{Ctx, Handlers, Verdict};
use super::leases::{self, Leases};
use super::settle::{self, Report};
use super::{Options, Worker};
use crate::Error;
use crate::jobs::{Claimed, Look, Queue, sweep};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A queue whose looks are all full never learns of ended leases: ask for them this often.
const SWEEP_UNDER_LOAD: Duration = Duration::from_secs(1);
/// How long a look may take to be answered.
const LOOK_WITHIN: Duration = Duration::from_secs(30);
/// The longest wait after a look that failed.
const LOOK_RETRY_MAX: Duration = Duration::from_secs(5);

impl Worker {
    /// Runs jobs until `stop` is cancelled; then lets running jobs end for the drain time, interrupts and gives back the rest, and
    /// returns when everything is settled.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        self.check()?;
        let queue = self.bugle.queue(&self.queue).await?;
        let (reports, reported) = mpsc::unbounded_channel();
        let leases = Arc::new(Leases::default());
        let (ended, interrupt) = (CancellationToken::new(), CancellationToken::new());
        // Whoever drops this future instead of stopping it leaves nothing running behind.
        let _guards = (ended.clone().drop_guard(), interrupt.clone().drop_guard());
        let mut background = JoinSet::new();
        background.spawn(sweep::run(self.bugle.clone(), ended.clone()));
        background.spawn({
            let (queue, options, leases, ended) =
                (queue.clone(), self.options.clone(), leases.clone(), ended.clone());
            async move { leases::renew(queue, options.name, options.lease, &leases, &ended).await }
        });
        let mut settling = tokio::spawn({
            let (queue, backoff, leases) = (queue.clone(), self.options.backoff, leases.clone());
            async move { settle::run(queue, backoff, &leases, reported).await }
        });

        tracing::info!(queue = %queue.name(), worker = self.options.name, "worker started");
        let runner = Runner {
            worker: self.options.name.as_str().into(),
            slots: Arc::new(Semaphore::new(usize::try_from(self.options.concurrency).unwrap_or(1))),
            options: self.options,
            handlers: self.handlers,
            queue,
            leases,
            reports,
            tasks: TaskTracker::new(),
            interrupt,
        };
        tokio::select! {
            () = runner.serve(&stop) => {}
            // None of these ends while the worker works. Without one of them it would claim and never settle or renew.
            broken = &mut settling => return Err(broken_task(broken)),
            Some(broken) = background.join_next() => return Err(broken_task(broken)),
        }
        runner.drain().await;
        // Leases are renewed until everything is settled.
        let settled = settling.await;
        ended.cancel();
        background.join_all().await;
        tracing::info!("worker stopped");
        settled.map_err(|error| broken_task(Err(error)))
    }
}

fn broken_task(how: Result<(), JoinError>) -> Error {
    Error::Bug(match how {
        Ok(()) => "a background task of the worker ended before the worker".to_owned(),
        Err(error) => format!("a background task of the worker failed: {error}"),
    })
}

struct Runner {
    worker: Arc<str>,
    options: Options,
    handlers: Handlers,
    queue: Queue,
    leases: Arc<Leases>,
    reports: mpsc::UnboundedSender<Report>,
    slots: Arc<Semaphore>,
    tasks: TaskTracker,
    interrupt: CancellationToken,
}

impl Runner {
    /// Looks and starts jobs until told to stop. Only the waits are cut short: a look under way may have claimed.
    async fn serve(&self, stop: &CancellationToken) {
        let mut failures = 0;
        let mut room_left_at = Instant::now();
        loop {
            let Some(Some(permits)) = stop.run_until_cancelled(self.free_slots()).await else { return };
            let wait = match self.look(permits).await {
                Ok(look) if look.full => {
                    failures = 0;
                    if room_left_at.elapsed() > SWEEP_UNDER_LOAD {
                        room_left_at = Instant::now();
                        if let Err(error) = self.queue.sweep().await {
                            tracing::warn!(%error, "ended leases could not be swept");
                        }
                    }
                    Duration::ZERO
                }
                Ok(look) => {
                    failures = 0;
                    room_left_at = Instant::now();
                    look.look_again_in.unwrap_or(Duration::MAX).min(self.options.poll)
                }
                Err(error) => {
                    failures += 1;
                    tracing::warn!(%error, failures, "look failed, trying again");
                    (Duration::from_millis(50) * 2_u32.pow(failures.min(7))).min(LOOK_RETRY_MAX)
                }
            };
            if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                return;
            }
        }
    }

    /// Every slot that is free, at least one.
    async fn free_slots(&self) -> Option<Vec<OwnedSemaphorePermit>> {
        let mut permits = vec![self.slots.clone().acquire_owned().await.ok()?];
        while let Ok(permit) = self.slots.clone().try_acquire_owned() {
            permits.push(permit);
        }
        Some(permits)
    }

    async fn look(&self, mut permits: Vec<OwnedSemaphorePermit>) -> Result<Look, Error> {
        let most = u32::try_from(permits.len()).unwrap_or(u32::MAX);
        let look =
            tokio::time::timeout(LOOK_WITHIN, self.queue.claim(&self.worker, most, self.options.lease)).await;
        let mut look = look.unwrap_or_else(|_| Err(Error::timed_out()))?;
        if !look.jobs.is_empty() {
            let lost = self.leases.open(look.token, look.jobs.len());
            for job in look.jobs.drain(..) {
                let permit = permits.pop();
                let task = run_job(
                    self.handlers.clone(),
                    job,
                    self.worker.clone(),
                    lost.clone(),
                    self.interrupt.clone(),
                    self.reports.clone(),
                );
                self.tasks.spawn(async move {
                    task.await;
                    drop(permit);
                });
            }
        }
        Ok(look)
    }

    async fn drain(self) {
        self.tasks.close();
        if tokio::time::timeout(self.options.drain, self.tasks.wait()).await.is_err() {
            tracing::warn!(jobs = self.tasks.len(), "interrupting jobs that did not end in time");
            self.interrupt.cancel();
            self.tasks.wait().await;
        }
        // Dropping `self` drops the last sender of reports: the settling task ends when it has settled them all.
    }
}

/// Runs one job and reports what came of it. Nothing is reported of a job whose lease was lost: it is somebody else's.
async fn run_job(
    handlers: Handlers,
    job: Claimed,
    worker: Arc<str>,
    lost: CancellationToken,
    interrupt: CancellationToken,
    reports: mpsc::UnboundedSender<Report>,
) {
    let (receipt, attempt) = (job.receipt, job.attempt);
    let ctx = Ctx { id: job.id, attempt, max_attempts: job.max_attempts, worker, lost: lost.clone() };
    let verdict = tokio::select! {
        biased;
        () = lost.cancelled() => {
            tracing::warn!(job = %receipt.id(), "lease lost, job interrupted");
            return;
        }
        () = interrupt.cancelled() => Verdict::Release,
        verdict = handlers.run(job, ctx) => verdict,
    };
    if let Verdict::Fail { code, message } | Verdict::Dead { code, message } = &verdict {
        tracing::info!(job = %receipt.id(), attempt, code, message, "job failed");
    }
    // The receiver lives longer than every task.
    let _ = reports.send(Report { receipt, attempt, verdict });
}
