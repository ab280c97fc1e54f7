//! Claiming steps without a handler: for workers that are somewhere else, in whatever language. A [`StepWorker`](super::StepWorker) is the
//! comfortable way for Rust.

use super::Flow;
use super::begin::{Begin, Begun, Place, lost};
use super::receipt::StepReceipt;
use super::run::RunId;
use crate::Error;
use crate::jobs::{Backoff, Claimed, ENGINE_QUEUE, Failure, Look, Queue, Verdict};
use crate::limits::{CLAIM_STEPS_MAX, WORKER_NAME_BYTES_MAX};
use chrono::{DateTime, Utc};
use futures_util::future::join_all;
use serde_json::value::RawValue;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Queues whose numbers are remembered. Above that it begins anew.
const QUEUES_MAX: usize = 10_000;

/// How long a step is put off that could not be begun: somebody's open transaction holds its run.
const BEGIN_AGAIN_IN: Duration = Duration::from_secs(1);

/// A queue of steps (worker set), whose steps are claimed and ended one by one. Cheap to clone.
///
/// ```
/// use bugle::flow::{Claim, Definition};
/// use bugle::pg::embedded::{Options, Server};
/// use bugle::{Bugle, Verdict};
/// use std::time::Duration;
///
/// #[tokio::main]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let server = Server::start(Options::ephemeral()).await?;
///     let bugle = Bugle::connect(&server.url()).await?;
///     let flow = bugle.flow();
///     flow.define(&Definition::parse_yaml("name: greet\nsteps: [ { name: hello } ]")?).await?;
///     let run = flow.start("greet", &"Ann").send().await?;
///
///     let queue = flow.queue("steps").await?;
///     let steps = queue.claim_within(&Claim::new("a worker")?, Duration::from_secs(60)).await?;
///     let output = format!("Hello, {}!", steps[0].input.as_ref().ok_or("no input")?);
///     queue.settle(&steps[0].receipt, Verdict::done_with(&output)).await?;
///     assert!(run.wait().await?.state.has_ended());
///
///     bugle.close().await;
///     server.stop().await?;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct StepQueue {
    pub(super) flow: Flow,
    pub(super) queue: Queue,
}

/// Who claims, how much, and for how long. Every value is checked once, here.
#[derive(Debug, Clone)]
pub struct Claim {
    worker: Arc<str>,
    most: u32,
    lease: Duration,
}

impl Claim {
    /// One step for the worker of this name, leased for 30 seconds.
    pub fn new(worker: &str) -> Result<Self, Error> {
        if worker.is_empty() || worker.len() > WORKER_NAME_BYTES_MAX || worker.chars().any(char::is_control) {
            return Err(Error::Invalid {
                what: "worker name",
                fault: format!("is {} bytes long, or has control characters", worker.len()),
                next: "use 1 to 255 bytes without them, such as the names of the host and the process",
            });
        }
        Ok(Self { worker: worker.into(), most: 1, lease: Duration::from_secs(30) })
    }

    /// Up to so many steps. Those of one claim are under one lease: renewing one renews all.
    pub fn most(mut self, steps: u32) -> Result<Self, Error> {
        if !(1..=CLAIM_STEPS_MAX).contains(&steps) {
            let fault = format!("is {steps}");
            return Err(Error::Invalid { what: "number of steps to claim", fault, next: "use 1 to 100" });
        }
        self.most = steps;
        Ok(self)
    }

    /// How long they are its without a renewal: 100 milliseconds to 24 hours.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }
}

/// A step in a worker's hands, with all that it needs.
#[derive(Debug)]
#[non_exhaustive]
pub struct ClaimedStep {
    /// What ends it.
    pub receipt: StepReceipt,
    /// The run.
    pub run: RunId,
    /// The step's name in the definition.
    pub name: String,
    /// What is to be done: the handler that the definition names, or the step's name.
    pub handler: String,
    /// The definition's name.
    pub definition: String,
    /// The version by which the run goes.
    pub version: i32,
    /// Which element of a map this is, from 1; 0: the step is no map.
    pub index: i32,
    /// Which attempt this is, counted from 1.
    pub attempt: u16,
    /// How many attempts the step has.
    pub attempts: u16,
    /// How long an attempt may take. Whoever works on it sees to that; beyond it the lease is not renewed.
    pub timeout: Option<Duration>,
    /// When the lease ends unless it is renewed, by the database's clock.
    pub lease_until: DateTime<Utc>,
    /// The same in every attempt of this step, and no other step's: for services that take one.
    pub idempotency_key: String,
    /// What the run was started with.
    pub input: Option<Box<RawValue>>,
    /// The outputs of the parents that succeeded, as an object by their names.
    pub outputs: Option<Box<RawValue>>,
    /// Of a map: the element that this is about.
    pub element: Option<Box<RawValue>>,
    /// What an earlier attempt has kept.
    pub checkpoint: Option<Box<RawValue>>,
}

impl Flow {
    /// The queue of steps of this name, made if it does not exist.
    pub async fn queue(&self, name: &str) -> Result<StepQueue, Error> {
        if name == ENGINE_QUEUE {
            return Err(Error::Invalid {
                what: "queue name",
                fault: format!("is {name:?}, where Bugle does its own part of workflows"),
                next: "use a queue that a definition names",
            });
        }
        let queues = || self.bugle.flow_shared().queues.lock().unwrap_or_else(PoisonError::into_inner);
        let known = queues().get(name).copied();
        let queue = if let Some(number) = known {
            self.bugle.step_queue_of(name, number)?
        } else {
            let queue = self.bugle.step_queue(name).await?;
            let mut queues = queues();
            if queues.len() >= QUEUES_MAX {
                queues.clear();
            }
            queues.insert(name.into(), queue.number());
            queue
        };
        Ok(StepQueue { flow: self.clone(), queue })
    }
}

impl StepQueue {
    /// Claims what is ready now. Nothing is a usual answer.
    pub async fn claim(&self, claim: &Claim) -> Result<Vec<ClaimedStep>, Error> {
        let look = self.queue.claim(&claim.worker, claim.most, claim.lease).await?;
        if look.jobs.is_empty() { Ok(Vec::new()) } else { self.begin(claim, look).await }
    }

    /// Like [`StepQueue::claim`], but waits up to `within` until there is something: as an intention on the node's pump, so that however many wait,
    /// one look serves them all, and each step goes to one of them.
    ///
    /// Dropping the future gives back at once what was claimed for it, the attempt not counted.
    pub async fn claim_within(&self, claim: &Claim, within: Duration) -> Result<Vec<ClaimedStep>, Error> {
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let look = self.queue.claim_within(&claim.worker, claim.most, claim.lease, left).await?;
            let Some(look) = look else { return Ok(Vec::new()) };
            let steps = self.begin(claim, look).await?;
            if !steps.is_empty() {
                return Ok(steps); // none: they were cancelled or paused meanwhile
            }
        }
    }

    /// Says of what was claimed that it is begun, and fetches what it needs. What is not to be run is ended here.
    async fn begin(&self, claim: &Claim, look: Look) -> Result<Vec<ClaimedStep>, Error> {
        let alone = look.jobs.len() == 1;
        let mut hands = Hands { queue: self.queue.clone(), look: Some(look) };
        let jobs = hands.look.iter().flat_map(|look| &look.jobs);
        let begun = join_all(jobs.map(|job| self.begin_one(claim, job, alone))).await;
        let (mut steps, mut first_error) = (Vec::new(), None);
        for one in begun {
            match one {
                Ok(step) => steps.extend(step),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        hands.look = None; // each is the caller's now, or ended, or put off
        match first_error {
            Some(error) if steps.is_empty() => Err(error),
            _ => Ok(steps),
        }
    }

    /// `None`: it is not to be run.
    async fn begin_one(
        &self,
        claim: &Claim,
        job: &Claimed,
        alone: bool,
    ) -> Result<Option<ClaimedStep>, Error> {
        let wish = match Begin::of(job) {
            Ok(wish) => wish,
            Err(error) => {
                let verdict = Verdict::dead("payload", format!("a job that carries no step: {error}"));
                return self.end(job, verdict, alone).await.map(|()| None);
            }
        };
        let place = wish.place;
        match self.flow.begin(&claim.worker, wish).await {
            Ok(begun) => {
                self.flow.counters().note(&begun, job.given);
                match begun.verdict.as_str() {
                    "run" => Ok(Some(self.claimed(job, place, begun, alone))),
                    "lost" => self.end(job, lost(), alone).await.map(|()| None),
                    // The step is none of this job's: the job goes, and nothing else happens.
                    _ => self.end(job, Verdict::Done, alone).await.map(|()| None),
                }
            }
            Err(error) => {
                tracing::warn!(job = %job.id, %error, "step not begun");
                self.end(job, Verdict::snooze(BEGIN_AGAIN_IN), alone).await?;
                Err(error)
            }
        }
    }

    /// Ends a job whose step nobody shall run.
    async fn end(&self, job: &Claimed, verdict: Verdict, alone: bool) -> Result<(), Error> {
        let (receipt, closed) = (job.receipt, [job.receipt.token()]);
        let closed = if alone { &closed[..] } else { &[] };
        match verdict {
            Verdict::Dead { code, message } => {
                let failure = Failure { receipt, code, message, retry_in: None };
                self.queue.fail(&[failure], closed).await.map(drop)
            }
            Verdict::Snooze { delay } => self.queue.snooze(&[(receipt, delay)], closed).await.map(drop),
            _ => self.queue.ack(&[receipt], closed).await.map(drop),
        }
    }

    fn claimed(&self, job: &Claimed, place: Place, begun: Begun, alone: bool) -> ClaimedStep {
        let rule = Backoff::of(job.extra.as_deref()).unwrap_or_default();
        let receipt = StepReceipt {
            queue: self.queue.name().clone(),
            job: job.receipt,
            place,
            alone,
            retry_in: rule.after(job.attempt),
        };
        ClaimedStep {
            receipt,
            run: RunId(place.0),
            name: begun.step,
            handler: job.kind.clone(),
            definition: begun.definition,
            version: begun.version,
            index: place.2,
            attempt: job.attempt,
            attempts: begun.attempts.unsigned_abs(),
            timeout: begun.timeout_ms.map(|ms| Duration::from_millis(ms.unsigned_abs())),
            lease_until: job.lease_until,
            idempotency_key: place.idempotency_key(begun.created_at.timestamp_micros()),
            input: begun.input.map(|json| json.0),
            outputs: begun.parents.map(|json| json.0),
            element: begun.element.map(|json| json.0),
            checkpoint: begun.checkpoint.map(|json| json.0),
        }
    }
}

/// What was claimed and nobody has yet. Dropped with something in it, because whoever waited has gone, it gives that back.
struct Hands {
    queue: Queue,
    look: Option<Look>,
}

impl Drop for Hands {
    fn drop(&mut self) {
        let (Some(look), Ok(runtime)) = (self.look.take(), tokio::runtime::Handle::try_current()) else {
            return; // without a runtime the end of the lease does it
        };
        let queue = self.queue.clone();
        runtime.spawn(async move {
            let receipts: Vec<_> = look.jobs.iter().map(|job| job.receipt).collect();
            if let Err(error) = queue.release(&receipts, &[look.token]).await {
                tracing::warn!(%error, steps = receipts.len(), "steps were not given back: they run again when their lease ends");
            }
        });
    }
}
