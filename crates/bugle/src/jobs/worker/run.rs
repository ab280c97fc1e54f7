//! The worker's loop: an intention for its free slots, one task per job that a look brings.

use super::handler::{Ctx, Handlers, Verdict};
use super::leases::{self, Leases};
use super::settle::{self, Report};
use super::{Options, Worker};
use crate::Error;
use crate::jobs::claim::check_lease;
use crate::jobs::source::Want;
use crate::jobs::{Claimed, Look};
use bugle_wake::{Intention, Number};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

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
        let worker: Arc<str> = self.options.name.as_str().into();
        let want = Want { worker: worker.clone(), lease: check_lease(self.options.lease)? };
        let intention = queue.wake().jobs.standing(Number(queue.number), want, self.options.concurrency)?;
        let runner = Runner {
            worker,
            slots: Arc::new(intention),
            options: self.options,
            handlers: self.handlers,
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
        // Nobody waits here any more: let sleeping peers know before the process ends.
        if let Some(node) = self.bugle.node() {
            node.leave_unused().await;
        }
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
    leases: Arc<Leases>,
    reports: mpsc::UnboundedSender<Report>,
    /// The free slots: what this worker waits for.
    slots: Arc<Slots>,
    tasks: TaskTracker,
    interrupt: CancellationToken,
}

type Slots = Intention<Want, Look>;

impl Runner {
    /// Starts the jobs that looks bring until told to stop.
    async fn serve(&self, stop: &CancellationToken) {
        while let Some(Some(look)) = stop.run_until_cancelled(self.slots.next()).await {
            self.start(look);
        }
    }

    fn start(&self, look: Look) {
        let lost = self.leases.open(look.token, look.jobs.len());
        for job in look.jobs {
            let task = run_job(
                self.handlers.clone(),
                job,
                self.worker.clone(),
                lost.clone(),
                self.interrupt.clone(),
                self.reports.clone(),
            );
            let slots = Arc::downgrade(&self.slots);
            self.tasks.spawn(async move {
                task.await;
                if let Some(slots) = slots.upgrade() {
                    slots.add(1);
                }
            });
        }
    }

    async fn drain(self) {
        drop(self.slots); // whatever was claimed and not started is given back
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
