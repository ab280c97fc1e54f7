//! What a benchmark and the processes that it starts say to each other: lines of JSON.
//!
//! The parent writes a [`Spec`] and then [`Order`]s to the child's standard input, one at a time; the child answers each with one line
//! on its standard output. A child ends when its standard input does.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What the child is to be, and where.
#[derive(Serialize, Deserialize)]
pub(super) struct Spec {
    /// The server. It holds a password: it goes through the pipe, not onto a command line.
    pub(super) url: String,
    /// The database of the benchmark.
    pub(super) database: String,
    pub(super) part: Part,
}

/// What a process of a benchmark does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Part {
    /// Writes when ordered to.
    Producer,
    /// A node with one worker for each of these queues, each with so many slots.
    Worker { queues: Vec<String>, slots: u32 },
    /// A node whose jobs never end: one worker with so many slots and this lease.
    Stuck { queue: String, slots: u32, lease: Duration },
    /// A node of workflows with coordinators for each of these worker sets, ready when each serves so many namespaces.
    Flow { sets: Vec<String>, slots: u32, namespaces: usize },
    /// Takes rows of the bare table, woken by NOTIFY.
    Bare,
}

/// What a producer writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Write {
    /// A row of a table with one index.
    Bare,
    /// The same, with a NOTIFY in the transaction.
    BareNotify,
    /// A job.
    Job,
}

/// What the parent asks for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Of a producer: write one a transaction, as fast as it goes. Answer: [`Saturated`].
    Saturate { write: Write, clients: usize, length: Duration, slow_flush: bool },
    /// Of a producer, or of a worker that shall produce for itself: write at a rate. Answer: [`Sent`]s.
    Pace { write: Write, queue: String, rate: u32, length: Duration },
    /// Of a producer: enqueue jobs due after `lead`, spread at random over `within`. Answer: [`Scheduled`].
    Schedule { queue: String, jobs: u32, lead: Duration, within: Duration },
    /// Of a producer: enqueue so many with one statement. Answer: nothing.
    Fill { queue: String, jobs: usize },
    /// Of a consumer: what has been started since the last report? Answer: [`Report`].
    Report,
    /// Of a node of workflows: why has it looked? Answer: [`Looks`].
    Looks,
}

impl Order {
    /// How long it takes by itself.
    pub(super) fn length(&self) -> Duration {
        match self {
            Self::Saturate { length, .. } | Self::Pace { length, .. } => *length,
            Self::Schedule { .. } | Self::Fill { .. } | Self::Report | Self::Looks => Duration::ZERO,
        }
    }
}

/// What as fast as it goes was.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Saturated {
    /// Within the time.
    pub(super) commits: usize,
    /// Before it.
    pub(super) warm_up: usize,
    pub(super) took: Duration,
}

/// A row or job, and when its commit was answered, by the monotonic clock.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Sent {
    pub(super) id: i64,
    pub(super) at_ns: i64,
}

/// The jobs that will become due.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Scheduled {
    pub(super) jobs: usize,
    /// Were they all written before the first was due?
    pub(super) in_time: bool,
}

/// What a consumer did since it was last asked.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) started: Vec<Started>,
    /// Work that the fallback found and no wake had announced; none where nobody counts it.
    pub(super) fallback_hits: Option<u64>,
}

/// Why a node of workflows has looked, so far.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Looks {
    /// How often for each reason but the heartbeat.
    pub(super) beyond: std::collections::BTreeMap<String, u64>,
    pub(super) heartbeats: u64,
}

/// A row or job that a consumer has in its hands.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Started {
    pub(super) id: i64,
    /// When, by the monotonic clock.
    pub(super) at_ns: i64,
    /// When it was due, by the database's clock, in microseconds since 1970; 0 for a bare row.
    pub(super) due_us: i64,
}
