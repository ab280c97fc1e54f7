//! One process of `bench durable`, whatever its provider: a node that runs instances, or a client that starts them.
//!
//! It knows duroxide's own types alone: the program with the other providers, in a workspace of its own (`bench/durable-peers`), includes this
//! folder as it is.

mod client;
mod node;
mod stamps;
pub(crate) mod wire;

use duroxide::providers::Provider;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use wire::{Job, Role};

/// What a process of the benchmark can say about its failure.
pub(crate) type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Nanoseconds of the machine's monotonic clock, which counts from the same moment in every process.
pub(crate) fn now_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

/// Plays the role that the first line of standard input gives, with the provider that `make` makes for it.
pub(crate) async fn run(
    make: impl AsyncFnOnce(&Role) -> Result<Arc<dyn Provider>, Fault>,
) -> Result<(), Fault> {
    let mut orders = Orders::read();
    let Some(role) = orders.next::<Role>().await? else { return Ok(()) };
    let provider = make(&role).await?;
    match role.job {
        Job::Node { dispatchers } => node::run(provider, dispatchers, orders).await,
        Job::Client => client::run(provider, orders).await,
    }
}

/// A child whose parent is gone has lost its database as well, more often than not: it does not wait for it.
const END_WITHIN: Duration = Duration::from_secs(4);

/// The lines of standard input.
pub(crate) struct Orders(mpsc::UnboundedReceiver<String>);

impl Orders {
    /// Reads on a thread of its own: a read of standard input cannot be given up.
    pub(crate) fn read() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in std::io::stdin().lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
            drop(sender);
            std::thread::sleep(END_WITHIN);
            std::process::exit(2); // as for any fault of the database
        });
        Self(receiver)
    }

    /// The next one; none when the parent wants no more.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, serde_json::Error> {
        let line = self.0.recv().await;
        line.map(|line| serde_json::from_str(&line)).transpose()
    }
}

fn answer(value: &impl Serialize) -> Result<(), Fault> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line)?;
    Ok(stdout.flush()?)
}

/// What is said of an order that is for another process.
pub(crate) const MISDIRECTED: &str =
    "an order for another process of the benchmark; this is a mistake in Bugle, please report it";
