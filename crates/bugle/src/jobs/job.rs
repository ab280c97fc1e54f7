//! What a job is to its user: a type, a number, a state.

use crate::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A type whose values can be enqueued.
///
/// ```
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct SendReceipt { order: i64 }
///
/// impl bugle::Job for SendReceipt {
///     const KIND: &'static str = "send_receipt";
///     const QUEUE: &'static str = "mail";
/// }
/// ```
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// Chooses the handler. Stays the same for as long as such jobs may be in the database.
    const KIND: &'static str;
    /// The queue that such jobs go to.
    const QUEUE: &'static str = "default";
    /// How often such a job is tried before it is dead.
    const MAX_ATTEMPTS: u16 = 5;
    /// How long such a job may run; `None`: as long as its worker allows.
    const TIMEOUT: Option<Duration> = None;
}

/// A job's number. It stays the same through all attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, sqlx::Type)]
#[serde(transparent)]
#[sqlx(transparent)]
pub struct JobId(pub i64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        text.parse().ok().filter(|n| *n > 0).map(Self).ok_or_else(|| Error::Invalid {
            what: "job id",
            fault: format!("is {text:?}"),
            next: "use the number that enqueue or `bugle job ls` printed",
        })
    }
}

/// Which of the four lanes a job goes to. A lane is served before the ones after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    /// Before everything else.
    Urgent,
    /// Before normal jobs.
    High,
    /// The default.
    #[default]
    Normal,
    /// When nothing else waits.
    Low,
}

impl Priority {
    /// The lane's number in the database.
    #[must_use]
    pub fn lane(self) -> i32 {
        match self {
            Self::Urgent => 0,
            Self::High => 1,
            Self::Normal => 2,
            Self::Low => 3,
        }
    }
}

/// Where a job is in its life; drawn in `docs/state-machines.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Waits for its time: enqueued for later, or backing off after a failed attempt.
    Scheduled,
    /// May be claimed.
    Ready,
    /// Held by a worker.
    Leased,
    /// Acked.
    Done,
    /// Out of attempts; kept for a person.
    Dead,
    /// Ended by a person.
    Cancelled,
}

impl State {
    /// All of them, in the order of a job's life.
    pub const ALL: [Self; 6] =
        [Self::Scheduled, Self::Ready, Self::Leased, Self::Done, Self::Dead, Self::Cancelled];

    /// The word in the database, the CLI and the docs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Ready => "ready",
            Self::Leased => "leased",
            Self::Done => "done",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for State {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|s| s.as_str() == text).ok_or_else(|| Error::Invalid {
            what: "state",
            fault: format!("is {text:?}"),
            next: "use scheduled, ready, leased, done, dead or cancelled",
        })
    }
}
