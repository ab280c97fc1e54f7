//! Running steps: a worker of jobs whose jobs carry steps.

use super::begin::{Begin, Begun, lost};
use super::step::Step;
use super::{Counters, Flow};
use crate::Error;
use crate::jobs::worker::IntoVerdict;
use crate::jobs::{Claimed, Ctx, Verdict, Worker};
use crate::pg::watched;
use bugle_wake::{Count, Given};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// As the seed has it.
const STALE_AFTER: Duration = Duration::from_secs(5);

type Run = dyn Fn(Step) -> BoxFuture<'static, Verdict> + Send + Sync;
type Handlers = Arc<HashMap<String, Arc<Run>>>;

/// A worker for the steps of one queue (worker set); [`StepWorker::run`] runs it.
#[must_use = "a worker does nothing before `run`"]
pub struct StepWorker {
    pub(super) flow: Flow,
    pub(super) worker: Worker,
    handlers: Handlers,
    stale: Stale,
}

/// Steps that were ready for long although somebody could have taken them.
#[derive(Clone)]
pub(super) struct Stale {
    pub(super) after: Duration,
    pub(super) count: Arc<Count>,
}

impl Stale {
    /// A step was begun: had it waited longer than it may, while this worker could have been given it?
    fn note(&self, begun: &Begun, given: Option<Given>, counters: &Counters) {
        let was_open_for = given.map_or(Duration::ZERO, |given| given.was_open_for);
        if let Some(ready_for) =
            begun.was_ready_for().filter(|time| *time > self.after && was_open_for > self.after)
        {
            self.count.one();
            counters.note_stale();
            tracing::warn!(
                step = begun.step,
                definition = begun.definition,
                ?ready_for,
                "a step was ready for long, and nobody took it although somebody could: a wake may have been missed"
            );
        }
    }
}

impl Flow {
    /// A worker for the steps of the queue of this name (`steps`, unless the definition says otherwise), without handlers yet.
    pub fn worker(&self, queue: &str) -> StepWorker {
        StepWorker {
            flow: self.clone(),
            worker: self.bugle.worker_of_steps(queue),
            handlers: Arc::default(),
            stale: Stale { after: STALE_AFTER, count: Arc::default() },
        }
    }
}

impl StepWorker {
    /// What to do for steps with this handler: an async function or closure of a [`Step`]. Its result (`Ok(Done(value))`) is the step's output;
    /// an error, a panic or a verdict decides what becomes of the step, as with jobs.
    pub fn handle<F, Fut>(mut self, handler: &str, run: F) -> Self
    where
        F: Fn(Step) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoVerdict> + Send + 'static,
    {
        let run = move |step: Step| run(step).map(IntoVerdict::into_verdict).boxed();
        Arc::make_mut(&mut self.handlers).insert(handler.to_owned(), Arc::new(run));
        self
    }

    /// How many steps run at once. Default 16.
    pub fn concurrency(mut self, steps: u32) -> Self {
        self.worker = self.worker.concurrency(steps);
        self
    }

    /// How long a claim holds without a sign of life from this worker. Default 30 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.worker = self.worker.lease(lease);
        self
    }

    /// How long running steps may go on after the order to stop. Default 25 s.
    pub fn drain(mut self, time: Duration) -> Self {
        self.worker = self.worker.drain(time);
        self
    }

    /// A step that was ready for longer than this when it is begun, while this worker could have taken it, is an alarm: it is told, and counted
    /// ([`StepWorker::stale`]). Default 5 s.
    pub fn stale_after(mut self, time: Duration) -> Self {
        self.stale.after = time;
        self
    }

    /// How many such steps there were.
    #[must_use]
    pub fn stale(&self) -> Arc<Count> {
        self.stale.count.clone()
    }

    /// The name under which leases are held.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.worker = self.worker.name(name);
        self
    }

    /// Runs steps until `stop` is cancelled; then drains as [`Worker::run`] does.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        let crew = self.crew();
        crew.work(self.worker, stop).await
    }

    /// Are its options and handlers such that it can run?
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.handlers.is_empty() {
            return Err(Error::Invalid {
                what: "worker",
                fault: "has no handler".to_owned(),
                next: "add one with `handle`",
            });
        }
        self.worker.check_options()
    }

    pub(super) fn crew(&self) -> Crew {
        Crew { flow: self.flow.clone(), handlers: self.handlers.clone(), stale: self.stale.clone() }
    }
}

/// What every step needs.
#[derive(Clone)]
pub(super) struct Crew {
    flow: Flow,
    handlers: Handlers,
    stale: Stale,
}

impl Crew {
    /// The same in another namespace, where steps are stale after this.
    pub(super) fn in_flow(&self, flow: &Flow, stale_after: Option<Duration>) -> Self {
        let after = stale_after.unwrap_or(self.stale.after);
        let stale = Stale { after, count: self.stale.count.clone() };
        Self { flow: flow.clone(), handlers: self.handlers.clone(), stale }
    }

    /// Runs steps that a worker claims, until `stop` is cancelled.
    pub(super) async fn work(self, worker: Worker, stop: CancellationToken) -> Result<(), Error> {
        let crew = Arc::new(self);
        let run = move |claimed: Claimed, ctx: Ctx| {
            let crew = crew.clone();
            async move { crew.run(claimed, ctx).await }
        };
        worker.handle_any(run).run(stop).await
    }

    async fn run(&self, claimed: Claimed, ctx: Ctx) -> Verdict {
        let wish = match Begin::of(&claimed) {
            Ok(wish) => wish,
            Err(error) => return Verdict::dead("payload", format!("a job that carries no step: {error}")),
        };
        let place = wish.place;
        let Some(handler) = self.handlers.get(&claimed.kind) else {
            let message = format!("worker {} has no handler {:?}", ctx.worker, claimed.kind);
            return Verdict::fail("no_handler", message);
        };
        let begun = match self.flow.begin(&ctx.worker, wish).await {
            Ok(begun) => begun,
            Err(error) => {
                tracing::warn!(job = %claimed.id, %error, "step not begun");
                return Verdict::snooze(Duration::from_secs(1));
            }
        };
        let counters = self.flow.counters();
        counters.note(&begun, claimed.given);
        match begun.verdict.as_str() {
            "run" => {}
            "lost" => return lost(),
            _ => return Verdict::Done, // the step is none of this job's: the job goes, and nothing else happens
        }
        self.stale.note(&begun, claimed.given, counters);
        let _running = counters.running.raise();
        let timeout = begun.timeout_ms.map(|ms| Duration::from_millis(ms.unsigned_abs()));
        let step = match Step::new(&self.flow, ctx, place, begun) {
            Ok(step) => step,
            Err(error) => return Verdict::fail("input", format!("the inputs could not be read: {error}")),
        };
        let running = handler(step);
        match timeout {
            None => running.await,
            Some(time) => tokio::time::timeout(time, watched(running))
                .await
                .unwrap_or_else(|_| Verdict::fail("timeout", format!("it did not end within {time:?}"))),
        }
    }
}
