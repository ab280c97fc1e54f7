//! Running jobs: a worker claims from one queue, runs the handler of each job's kind, and settles what came of it.
//!
//! ```text
//! run:     an intention for the free slots → what a look brought → one task per job
//! handler: the job's kind → your code, with its arguments (ctx) → a verdict
//! inbox:   what the tasks report; frees their slots
//! settle:  those reports, in batches → ack / fail / snooze / release
//! company: jobs that were lost with a worker before, and who may run beside them
//! leases:  which claims are open; renews them all with one statement
//! control: who cancelled what? → stops handlers
//! ```

mod company;
mod control;
mod counters;
mod ctx;
mod handler;
mod inbox;
mod leases;
mod part;
mod report;
mod run;
mod settle;
mod verdict;

pub(crate) use company::Company;
pub use counters::{Counters, KindCounters};
pub use ctx::{Argument, Ctx, Shared, SharedState};
pub use handler::Handler;
pub use verdict::{Done, IntoVerdict, Verdict};

use super::{Backoff, Claimed, Job, Queue};
use crate::limits::{CLAIM_JOBS_MAX, WORKER_NAME_BYTES_MAX};
use crate::wake::node_name;
use crate::{Bugle, Error};
use bugle_wake::Room;
use handler::Handlers;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A worker for one queue; [`Worker::run`] runs it.
///
/// ```no_run
/// # #[derive(serde::Serialize, serde::Deserialize)] struct SendReceipt { order: i64 }
/// # impl bugle::Job for SendReceipt { const KIND: &'static str = "send_receipt"; }
/// # async fn example(bugle: bugle::Bugle, stop: tokio_util::sync::CancellationToken) -> Result<(), bugle::Error> {
/// bugle
///     .worker("mail")
///     .concurrency(8)
///     .handle(|job: SendReceipt, _ctx: bugle::Ctx| async move {
///         println!("receipt for order {}", job.order);
///         Ok::<_, std::io::Error>(())   // an error: the job is tried again later
///     })
///     .run(stop)
///     .await
/// # }
/// ```
#[must_use = "a worker does nothing before `run`"]
pub struct Worker {
    bugle: Bugle,
    queue: String,
    holds: Holds,
    options: Options,
    handlers: Handlers,
    shared: SharedState,
    counters: OnceLock<Arc<Counters>>,
}

/// What is in a worker's queue.
#[derive(Clone)]
enum Holds {
    Jobs,
    Steps,
    /// A queue that was found already.
    Known(Queue),
}

#[derive(Clone)]
struct Options {
    name: String,
    concurrency: u32,
    lease: Duration,
    drain: Duration,
    timeout: Option<Duration>,
    backoff: Backoff,
    /// Slots that it shares with other workers, and how many of its own it has beside them.
    room: Option<(Room, u32)>,
}

impl Bugle {
    /// A worker for the queue of this name, without handlers yet.
    pub fn worker(&self, queue: &str) -> Worker {
        self.worker_of(queue, Holds::Jobs)
    }

    /// A worker for a queue of steps.
    pub(crate) fn worker_of_steps(&self, queue: &str) -> Worker {
        self.worker_of(queue, Holds::Steps)
    }

    /// A worker for a queue that was found already.
    pub(crate) fn worker_of_known(&self, queue: Queue) -> Worker {
        self.worker_of("", Holds::Known(queue))
    }

    fn worker_of(&self, queue: &str, holds: Holds) -> Worker {
        Worker {
            bugle: self.clone(),
            queue: queue.to_owned(),
            holds,
            options: Options {
                name: node_name(),
                concurrency: 16,
                lease: Duration::from_secs(30),
                drain: Duration::from_secs(25),
                timeout: None,
                backoff: Backoff::default(),
                room: None,
            },
            handlers: Handlers::default(),
            shared: SharedState::default(),
            counters: OnceLock::new(),
        }
    }
}

impl Worker {
    /// What to do with jobs of type `J`: an async function or closure that takes the job, and after it up to three of [`Ctx`] and
    /// [`Shared`]. An error, a panic or a verdict decides what becomes of the job.
    pub fn handle<J, A, H>(mut self, handler: H) -> Self
    where
        J: Job,
        H: Handler<J, A>,
    {
        self.handlers.add::<J, A, H>(handler);
        self
    }

    /// What to do with jobs whose kind has no handler of its own.
    pub fn handle_any<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(Claimed, Ctx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoVerdict> + Send + 'static,
    {
        self.handlers.add_any(handler);
        self
    }

    /// Shares something with the handlers, one of each type; they take it as [`Shared`].
    pub fn share<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.shared.add(value);
        self
    }

    /// How many jobs run at once. Default 16.
    pub fn concurrency(mut self, jobs: u32) -> Self {
        self.options.concurrency = jobs;
        self
    }

    /// How long a claim holds without a sign of life from this worker (it renews every third of that). Default 30 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    /// How long running jobs may go on after the order to stop; then they are interrupted and given back. Default 25 s.
    pub fn drain(mut self, time: Duration) -> Self {
        self.options.drain = time;
        self
    }

    /// How long a job may run, unless its type says otherwise ([`Job::TIMEOUT`]); then it is interrupted, and the attempt has failed.
    /// Default: as long as it likes.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.options.timeout = Some(time);
        self
    }

    /// How long a failed job waits for its next attempt, unless it has a rule of its own.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.options.backoff = backoff;
        self
    }

    /// The name under which leases are held. Default: host and process, and something random.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.options.name = name.into();
        self
    }

    /// It shares slots with other workers: so many are its own, the rest up to its concurrency it takes as they are free.
    pub(crate) fn in_room(mut self, room: Room, least: u32) -> Self {
        self.options.room = Some((room, least));
        self
    }

    /// What it has done, to be read while it runs. Take it after the last `handle`: each kind that has a handler then has a place in it.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        self.counters.get_or_init(|| Arc::new(Counters::new(self.handlers.kinds()))).clone()
    }

    /// With the options of another one.
    pub(crate) fn like(mut self, other: &Self) -> Self {
        self.options = other.options.clone();
        self
    }

    fn check(&self) -> Result<(), Error> {
        let invalid = |what, fault, next| Err(Error::Invalid { what, fault, next });
        self.check_options()?;
        if self.handlers.is_empty() {
            return invalid("worker", "has no handler".to_owned(), "add one with `handle` or `handle_any`");
        }
        if let Some(missing) = self.handlers.missing(&self.shared) {
            let fault = format!("has a handler that takes Shared<{missing}>, which is not shared");
            return invalid("worker", fault, "give it one with `share`");
        }
        Ok(())
    }

    pub(crate) fn check_options(&self) -> Result<(), Error> {
        let invalid = |what, fault, next| Err(Error::Invalid { what, fault, next });
        let o = &self.options;
        if o.concurrency == 0 || o.concurrency > CLAIM_JOBS_MAX {
            return invalid("concurrency", format!("is {}", o.concurrency), "use 1 to 1000");
        }
        if o.name.is_empty() || o.name.len() > WORKER_NAME_BYTES_MAX {
            return invalid("worker name", format!("is {} bytes long", o.name.len()), "use 1 to 255 bytes");
        }
        super::claim::check_lease(o.lease).map(drop)
    }
}

/// The page's code is compiled with the tests of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../../../docs/jobs.md")]
struct JobsPage;
