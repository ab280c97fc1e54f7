//! Running jobs: a worker claims from one queue, runs the handler of each job's kind, and settles what came of it.
//!
//! ```text
//! run:    an intention for the free slots → what a look brought → one task per job
//! leases: which claims are open; renews them all with one statement
//! settle: what the tasks report, in batches → ack / fail / release
//! ```

mod handler;
mod leases;
mod run;
mod settle;

pub use handler::{Ctx, IntoVerdict, Verdict};

use super::{Backoff, Claimed, Job};
use crate::limits::{CLAIM_JOBS_MAX, WORKER_NAME_BYTES_MAX};
use crate::wake::node_name;
use crate::{Bugle, Error};
use handler::Handlers;
use std::future::Future;
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
    options: Options,
    handlers: Handlers,
}

#[derive(Debug, Clone)]
struct Options {
    name: String,
    concurrency: u32,
    lease: Duration,
    drain: Duration,
    backoff: Backoff,
}

impl Bugle {
    /// A worker for the queue of this name, without handlers yet.
    pub fn worker(&self, queue: &str) -> Worker {
        Worker {
            bugle: self.clone(),
            queue: queue.to_owned(),
            options: Options {
                name: node_name(),
                concurrency: 16,
                lease: Duration::from_secs(30),
                drain: Duration::from_secs(25),
                backoff: Backoff::default(),
            },
            handlers: Handlers::default(),
        }
    }
}

impl Worker {
    /// What to do with jobs of type `J`. An error, a panic or a verdict decides what becomes of the job.
    pub fn handle<J, F, Fut>(mut self, handler: F) -> Self
    where
        J: Job,
        F: Fn(J, Ctx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoVerdict> + Send + 'static,
    {
        self.handlers.add::<J, F, Fut>(handler);
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

    /// How long a failed job waits for its next attempt.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.options.backoff = backoff;
        self
    }

    /// The name under which leases are held. Default: host and process, and something random.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.options.name = name.into();
        self
    }

    fn check(&self) -> Result<(), Error> {
        let invalid = |what, fault, next| Err(Error::Invalid { what, fault, next });
        let o = &self.options;
        if o.concurrency == 0 || o.concurrency > CLAIM_JOBS_MAX {
            return invalid("concurrency", format!("is {}", o.concurrency), "use 1 to 1000");
        }
        if o.name.is_empty() || o.name.len() > WORKER_NAME_BYTES_MAX {
            return invalid("worker name", format!("is {} bytes long", o.name.len()), "use 1 to 255 bytes");
        }
        super::claim::check_lease(o.lease)?;
        if self.handlers.is_empty() {
            return invalid("worker", "has no handler".to_owned(), "add one with `handle` or `handle_any`");
        }
        Ok(())
    }
}
