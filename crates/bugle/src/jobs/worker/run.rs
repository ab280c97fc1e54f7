//! The worker's loop: an intention for its free slots, one task per job that a look brings.

use super::company::{Lost, Place};
use super::control;
use super::counters::{Counters, KindCounters};
use super::ctx::{Ctx, Scope};
use super::handler::Handlers;
use super::inbox::Inbox;
use super::leases::{self, Leases};
use super::report::{Fate, Report};
use super::settle::{self, Settler};
use super::verdict::Verdict;
use super::{Holds, Options, Worker};
use crate::Error;
use crate::jobs::claim::check_lease;
use crate::jobs::source::Want;
use crate::jobs::{Backoff, Claimed, Look, Queue};
use crate::pg::watched;
use bugle_wake::{Intention, Number};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

impl Worker {
    /// Runs jobs until `stop` is cancelled; then lets running jobs end for the drain time, interrupts and gives back the rest, and
    /// returns when everything is settled.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        self.check()?;
        let queue = match self.holds.clone() {
            Holds::Jobs => self.bugle.queue(&self.queue).await?,
            Holds::Steps => self.bugle.step_queue(&self.queue).await?,
            Holds::Known(queue) => queue,
        };
        let (reports, reported) = mpsc::unbounded_channel();
        let leases = Arc::new(Leases::default());
        let counters = self.counters();
        let (ended, interrupt) = (CancellationToken::new(), CancellationToken::new());
        // Whoever drops this future instead of stopping it leaves nothing running behind.
        let _guards = (ended.clone().drop_guard(), interrupt.clone().drop_guard());

        tracing::info!(queue = %queue.name(), worker = self.options.name, "worker started");
        let worker: Arc<str> = self.options.name.as_str().into();
        let want = Want { worker: worker.clone(), lease: check_lease(self.options.lease)? };
        let (jobs, number, most) = (&queue.wake().jobs, Number(queue.number), self.options.concurrency);
        let slots = Arc::new(match &self.options.room {
            None => jobs.standing(number, want, most)?,
            Some((room, least)) => jobs.standing_in(room, number, want, most, *least)?,
        });
        let mut background = watch_leases(&queue, &worker, self.options.lease, &leases, &ended);
        let mut settling = tokio::spawn({
            let settler = Settler::new(queue.clone(), leases.clone(), counters.clone());
            settle::run(settler, Inbox::new(reported, &slots))
        });
        let crew = Crew {
            scope: Arc::new(Scope { queue, worker, shared: self.shared }),
            handlers: self.handlers,
            timeout: self.options.timeout,
            backoff: self.options.backoff.clone(),
            counters,
            reports,
            interrupt,
        };
        let runner =
            Runner { slots, crew: Arc::new(crew), leases, tasks: TaskTracker::new(), options: self.options };
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

/// Renews leases and hears of cancelled jobs, until `ended`.
fn watch_leases(
    queue: &Queue,
    worker: &Arc<str>,
    lease: Duration,
    leases: &Arc<Leases>,
    ended: &CancellationToken,
) -> JoinSet<()> {
    let mut background = JoinSet::new();
    background.spawn({
        let (queue, worker, leases, ended) = (queue.clone(), worker.clone(), leases.clone(), ended.clone());
        async move { leases::renew(queue, &worker, lease, &leases, &ended).await }
    });
    background.spawn({
        let (queue, leases, ended) = (queue.clone(), leases.clone(), ended.clone());
        let control = queue.wake().node.control_changes();
        async move {
            control::watch(queue, &leases, control, &ended).await;
            ended.cancelled().await; // the engine may stop before the worker
        }
    });
    background
}

fn broken_task(how: Result<(), JoinError>) -> Error {
    Error::Bug(match how {
        Ok(()) => "a background task of the worker ended before the worker".to_owned(),
        Err(error) => format!("a background task of the worker failed: {error}"),
    })
}

struct Runner {
    /// The free slots: what this worker waits for.
    slots: Arc<Slots>,
    crew: Arc<Crew>,
    leases: Arc<Leases>,
    tasks: TaskTracker,
    options: Options,
}

pub(super) type Slots = Intention<Want, Look>;

impl Runner {
    /// Starts the jobs that looks bring until told to stop.
    async fn serve(&self, stop: &CancellationToken) {
        while let Some(Some(look)) = stop.run_until_cancelled(self.slots.next()).await {
            self.start(look);
        }
    }

    fn start(&self, look: Look) {
        self.crew.counters.claims.one();
        let stops = self.leases.open(&look);
        let given = self.slots.given();
        for (mut job, stop) in look.jobs.into_iter().zip(stops.each) {
            job.given = given;
            let (crew, lost) = (self.crew.clone(), stops.lost.clone());
            match Lost::of(&job).map(|lost| crew.scope.queue.bugle.company().admit(lost)) {
                None => self.tasks.spawn(async move { crew.run(job, stop, lost, None).await }),
                Some(Ok(place)) => {
                    self.tasks.spawn(async move { crew.run_lost(job, stop, lost, place).await })
                }
                Some(Err(wait)) => {
                    crew.put_off(&job, wait);
                    continue;
                }
            };
        }
    }

    async fn drain(self) {
        drop(self.slots); // whatever was claimed and not started is given back
        self.tasks.close();
        if tokio::time::timeout(self.options.drain, self.tasks.wait()).await.is_err() {
            tracing::warn!(jobs = self.tasks.len(), "interrupting jobs that did not end in time");
            self.crew.interrupt.cancel();
            self.tasks.wait().await;
        }
        // Dropping the crew drops the last sender of reports: the settling task ends when it has settled them all.
    }
}

/// What every job's task needs.
struct Crew {
    scope: Arc<Scope>,
    handlers: Handlers,
    timeout: Option<Duration>,
    backoff: Backoff,
    counters: Arc<Counters>,
    reports: mpsc::UnboundedSender<Report>,
    interrupt: CancellationToken,
}

impl Crew {
    /// Runs a job that was lost with a worker before.
    async fn run_lost(&self, job: Claimed, stop: CancellationToken, lost: CancellationToken, place: Place) {
        if place.lone {
            let noted = self.scope.queue.note_begun(&self.scope.worker, job.receipt).await;
            if let Err(error) = noted {
                tracing::warn!(job = %job.id, %error, "job not begun");
                return self.put_off(&job, Duration::from_secs(1));
            }
        }
        if stop.is_cancelled() {
            let _ = self.reports.send(Report::not_run(job.receipt, Fate::Gone));
        } else {
            self.run(job, stop, lost, Some(place)).await;
        }
    }

    /// Gives back a job that cannot run beside those that run now, for later.
    fn put_off(&self, job: &Claimed, wait: Duration) {
        self.counters.put_off.one();
        tracing::debug!(job = %job.id, attempt = job.attempt, ?wait, "job put off: another one that was lost before is running");
        let _ = self.reports.send(Report::not_run(job.receipt, Fate::Snoozed(wait)));
    }

    /// Runs one job and reports what came of it. `stop`: it is no longer ours; `lost`: nor is anything of its claim.
    async fn run(
        &self,
        mut job: Claimed,
        stop: CancellationToken,
        lost: CancellationToken,
        place: Option<Place>,
    ) {
        let known = self.handlers.of(&job.kind, &self.counters);
        let ctx = Ctx::new(&self.scope, &job, stop);
        let (receipt, extra, kind) = (job.receipt, job.extra.take(), job.kind.clone());
        tracing::debug!(job = %ctx.id, kind, attempt = ctx.attempt, worker = &*ctx.worker, "job started");
        known.counters.claimed.one();
        let begun = Instant::now();
        let timeout = known.timeout().or(self.timeout);
        let end = tokio::select! {
            biased; // the handler first: most end at once, and nothing need be set up for the others
            verdict = watched(known.run(job, &ctx)) => End::Verdict(verdict),
            () = ctx.stopped() => if lost.is_cancelled() { End::Lost } else { End::Cancelled },
            () = self.interrupt.cancelled() => End::Verdict(Verdict::Release),
            time = up(timeout) => End::TimeUp(time),
        };
        let ran = begun.elapsed();
        known.counters.run_time.note(ran);
        ctx.stop.cancel(); // whatever the handler started elsewhere
        let verdict = self.judge(end, &ctx, known.counters);
        let rule = || Backoff::of(extra.as_deref()).as_ref().unwrap_or(&self.backoff).after(ctx.attempt);
        let report = Report::new(receipt, ran, verdict, &ctx, rule).in_place(place);
        report.note(&kind, &ctx, known.counters);
        // The receiver lives longer than every task.
        let _ = self.reports.send(report);
    }

    /// What the end of a handler means for the job; `None`: it is not ours any more.
    fn judge(&self, end: End, ctx: &Ctx, counters: &KindCounters) -> Option<Verdict> {
        match end {
            End::Verdict(verdict) => Some(verdict),
            End::TimeUp(time) => {
                counters.timeouts.one();
                Some(Verdict::fail("timeout", format!("it did not end within {time:?}")))
            }
            End::Lost => {
                counters.lost.one();
                tracing::warn!(job = %ctx.id, worker = &*self.scope.worker, "lease lost, job interrupted");
                None
            }
            End::Cancelled => {
                counters.cancelled.one();
                tracing::info!(job = %ctx.id, worker = &*self.scope.worker, "job cancelled, handler interrupted");
                None
            }
        }
    }
}

/// How a handler ended.
enum End {
    Verdict(Verdict),
    TimeUp(Duration),
    Lost,
    Cancelled,
}

/// Waits until the time is up, if there is a limit.
async fn up(timeout: Option<Duration>) -> Duration {
    match timeout {
        Some(time) => {
            tokio::time::sleep(time).await;
            time
        }
        None => std::future::pending().await,
    }
}
