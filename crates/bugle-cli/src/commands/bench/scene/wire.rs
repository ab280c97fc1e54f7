//! What `bench durable` and its processes say to each other: lines of JSON, as for the other benchmarks.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a process is to be, and where.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Role {
    /// The database, with its password: it goes through the pipe, not onto a command line.
    pub(crate) url: String,
    /// The provider's name.
    pub(crate) provider: String,
    pub(crate) job: Job,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Job {
    /// A runtime with so many dispatchers of each kind.
    Node { dispatchers: usize },
    /// Starts instances when ordered to.
    Client,
}

/// What the parent asks for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Of a client: start instances named with the prefix and a number, one every so often. Answer: [`Sent`]s.
    Pace { kind: Kind, prefix: String, count: usize, every: Duration },
    /// Of a client: start them as fast as it goes with so many callers. Answer: [`Sent`]s.
    Burst { kind: Kind, prefix: String, count: usize, callers: usize },
    /// Of a client, while no node is there: how late are a lease's end and a delayed abandon noticed? Answer: [`Late`].
    Probe { prefix: String, after: Duration },
    /// Of a node: which instances have ended since the last report? Answer: [`Seen`]s.
    Report,
}

/// What an instance does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// Nothing.
    NoOp,
    /// One activity.
    One,
    /// Five activities at once.
    FanOut,
    /// A timer of one second.
    Timer,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::NoOp, Self::One, Self::FanOut, Self::Timer];

    /// The orchestration's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NoOp => "NoOp",
            Self::One => "One",
            Self::FanOut => "FanOut",
            Self::Timer => "Timer",
        }
    }
}

/// The time of the timer.
pub(crate) const TIMER: Duration = Duration::from_secs(1);
/// Activities at once.
pub(crate) const FAN_OUT: usize = 5;

/// An instance, and the moment before the call that started it, by the monotonic clock.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub(crate) instance: String,
    pub(crate) at_ns: i64,
}

/// What a node saw of an instance, by the monotonic clock: each moment when it came first.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) instance: String,
    /// Its first turn began.
    pub(crate) turn_ns: i64,
    /// Its activity began, if it has one alone.
    pub(crate) work_ns: i64,
    /// The orchestration had what it had waited for, and ended.
    pub(crate) end_ns: i64,
}

/// Milliseconds after the moment at which something became runnable.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Late {
    /// The lease of a node that is gone.
    pub(crate) lease_ms: f64,
    /// A turn given back with a delay.
    pub(crate) abandon_ms: f64,
}
