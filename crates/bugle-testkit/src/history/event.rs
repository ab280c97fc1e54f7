//! One line of a history.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Write jobs.
    Enqueue,
    /// Lease jobs.
    Claim,
    /// The job is finished.
    Ack,
    /// The job failed; retry by rule.
    Fail,
    /// The job is given back, its attempt not counted.
    Release,
    /// The lease is to last longer. Its items name tokens, not jobs.
    Renew,
    /// The job is not wanted any more.
    Cancel,
    /// Write messages.
    Push,
    /// Lease messages to a group.
    Pop,
    /// Something was broken on purpose; see [`Fault`].
    Fault,
}

/// Where in its call an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// About to be sent. For a fault: its window begins.
    Invoke,
    /// It happened. For a fault: its window ends.
    Ok,
    /// It did not happen.
    Refused,
    /// It may have happened.
    Unknown,
}

/// What was broken. The end of a window is its repair: resumed, server up, healed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A process of ours was killed; the victim is its `who`.
    Killed,
    /// A process of ours was stopped and later continued; the victim is its `who`.
    Paused,
    /// PostgreSQL was killed or stopped at once, and came back.
    ServerCrash,
    /// One backend was killed outright, upon which PostgreSQL restarts all of them.
    BackendKilled,
    /// One backend was told to go; nothing else happens to the server.
    BackendTerminated,
    /// The disk refused to flush the log, upon which PostgreSQL breaks down and recovers.
    FlushFailed,
    /// The connection was cut after COMMIT was sent and before its answer.
    CutAfterCommit,
    /// The connection was cut, or swallowed everything.
    Cut,
    /// The connection was slowed down.
    Slow,
    /// The wall clock of a process of ours went elsewhere; the victim is its `who`.
    ClockJumped,
    /// A job made the process that ran it abort; the victim is its `who`.
    Poisoned,
    /// Not a fault: from here on nothing is broken any more.
    Heal,
    /// Any other, by name.
    #[serde(untagged)]
    Other(String),
}

impl FaultKind {
    /// Whether commits that were answered but not yet flushed may be lost: a killed backend takes the shared
    /// memory with it, and the unflushed log with that.
    #[must_use]
    pub fn loses_unflushed_commits(&self) -> bool {
        matches!(self, Self::ServerCrash | Self::BackendKilled | Self::FlushFailed)
    }

    /// Whether work may be slow while it lasts. Nobody's work depends on his wall clock, nor on a job that somebody else
    /// does not survive.
    #[must_use]
    pub fn excuses_delay(&self) -> bool {
        !matches!(self, Self::ClockJumped | Self::Poisoned)
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Killed => "killed",
            Self::Paused => "paused",
            Self::ServerCrash => "server_crash",
            Self::BackendKilled => "backend_killed",
            Self::BackendTerminated => "backend_terminated",
            Self::FlushFailed => "flush_failed",
            Self::CutAfterCommit => "cut_after_commit",
            Self::Cut => "cut",
            Self::Slow => "slow",
            Self::ClockJumped => "clock_jumped",
            Self::Poisoned => "poisoned",
            Self::Heal => "heal",
            Self::Other(name) => name,
        };
        f.write_str(name)
    }
}

/// What the nemesis did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What was broken.
    pub kind: FaultKind,
    /// Whose: the `who` of one of our processes, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim: Option<String>,
}

/// What a call says about one job. Which fields must be there:
///
/// - enqueue: the answer's items stand in the order of the invoke's; the invoke tells `key`, `mark`,
///   `order_key`, `due`, `max_attempts` as far as the job has them, the `ok` adds `job`;
/// - claim, `ok` only: `job`, `token`, `x`, `attempt`, `lease_until`, and `mark`, `key` if the worker can tell;
/// - ack, fail, release: `job` and `token`, in the invoke and in the answers; `due` in the `ok` of a fail or
///   release that comes back later;
/// - renew: `token`, and in the `ok` the new `lease_until`;
/// - cancel: `job`;
/// - push: `partition` and `mark`, the `ok` adds `seq`; pop, `ok` only: `partition`, `seq`, `mark`, `token`, `attempt` (the tries before),
///   `lease_until`; ack, fail, release of messages: `partition`, `seq`, `token`, and the event's `group`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Item {
    /// The job's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<i64>,
    /// A number that the test put into the payload, another one for each job invoked: it tells which enqueue a
    /// job came from even if that was never answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<u64>,
    /// The caller's idempotency key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Box<str>>,
    /// Jobs that share one run one at a time, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_key: Option<Box<str>>,
    /// The partition of a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<Box<str>>,
    /// The place of a message in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<i64>,
    /// The lease's token: random, another one for each claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<i64>,
    /// The transaction number in the row's key; grows with each redelivery of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x: Option<i64>,
    /// Counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i32>,
    /// The last attempt allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<i32>,
    /// The earliest moment the job may be claimed, by the database's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<DateTime<Utc>>,
    /// The lease's end, by the database's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<DateTime<Utc>>,
}

impl Item {
    /// About this job.
    #[must_use]
    pub fn job(id: i64) -> Self {
        Self { job: Some(id), ..Self::default() }
    }

    /// Under this lease.
    #[must_use]
    pub fn token(mut self, token: i64) -> Self {
        self.token = Some(token);
        self
    }
}

/// One event of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its number in the history, by which a report names it; set when the history is sorted.
    #[serde(default)]
    pub n: u64,
    /// Nanoseconds since the recorder began.
    pub t_ns: u64,
    /// The process incarnation that saw it, for example `worker-3#2`; never used again after its death.
    pub who: Box<str>,
    /// The call, unique for `who`: an answer carries the number of its invoke.
    pub call: u64,
    /// What was asked for.
    pub op: Op,
    /// Invoked, or how it was answered.
    pub phase: Phase,
    /// The queue concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Box<str>>,
    /// The consumer group concerned, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Box<str>>,
    /// The database's clock in the middle of the operation. A claim reads it under the queue's lock
    /// (`clock_timestamp()`, not `now()`), so that claims of a queue are ordered by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub db_now: Option<DateTime<Utc>>,
    /// The jobs concerned. A `refused` without items refuses all that were invoked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<Item>,
    /// What the nemesis did, for [`Op::Fault`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// Why it was refused or is unknown, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Box<str>>,
}

impl Event {
    /// An invoke, to be filled in; the client that records it sets number, call and time.
    #[must_use]
    pub fn new(who: &str, op: Op) -> Self {
        Self {
            n: 0,
            t_ns: 0,
            who: who.into(),
            call: 0,
            op,
            phase: Phase::Invoke,
            queue: None,
            group: None,
            db_now: None,
            items: Vec::new(),
            fault: None,
            cause: None,
        }
    }

    /// Concerns this queue.
    #[must_use]
    pub fn queue(mut self, queue: &str) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Concerns this group.
    #[must_use]
    pub fn group(mut self, group: &str) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Read this on the database's clock.
    #[must_use]
    pub fn db_now(mut self, now: DateTime<Utc>) -> Self {
        self.db_now = Some(now);
        self
    }

    /// Concerns these jobs.
    #[must_use]
    pub fn items(mut self, items: impl IntoIterator<Item = Item>) -> Self {
        self.items = items.into_iter().collect();
        self
    }

    /// Because of this.
    #[must_use]
    pub fn cause(mut self, cause: &str) -> Self {
        self.cause = Some(cause.into());
        self
    }
}
