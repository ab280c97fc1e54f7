//! Is a process well? Several checks, each with its reason.

use crate::Bugle;
use crate::flow::Board;
use crate::span::short;
use bugle_wake::{Lately, Listens, Node, Status};
use serde::Serialize;
use std::time::Duration;

/// How long an alarm is told after it happened.
const ALARM_FOR: Duration = Duration::from_mins(10);
/// Work that is handed out so long after its ring was heard is late.
const LATE: Duration = Duration::from_secs(1);
/// So many heartbeats may be missing.
const BEATS_MISSED_MAX: u32 = 3;

/// How well something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It works, but more slowly or at a higher cost than it should, or has not worked as it should lately.
    Degraded,
    /// It does not work.
    Failed,
}

impl Level {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
        }
    }
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What: `listener`, `coordinators`, `fallback` or `lag`.
    pub name: &'static str,
    /// How well it is.
    pub level: Level,
    /// Why, in a sentence.
    pub reason: String,
}

/// How well a process is: [`Bugle::health`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// What was checked.
    pub checks: Vec<Check>,
}

impl Health {
    /// That of the worst check.
    #[must_use]
    pub fn level(&self) -> Level {
        self.checks.iter().map(|check| check.level).max().unwrap_or(Level::Ok)
    }
}

impl Bugle {
    /// How well this process is: its listener, its coordinators, its fallback and how late work is handed out. It asks no database, and names no
    /// namespace unless something is wrong with it.
    #[must_use]
    pub fn health(&self) -> Health {
        let coordinators = coordinators(&self.flow_counters().boards());
        let Some(node) = self.node() else {
            let none = || "nobody has waited for anything in this process".to_owned();
            let well = |name| Check { name, level: Level::Ok, reason: none() };
            return Health { checks: vec![well("listener"), coordinators, well("fallback"), well("lag")] };
        };
        let status = node.status();
        let fallback = fallback(&status, node, self.flow_counters().stale_ago());
        Health { checks: vec![listener(&status), coordinators, fallback, lag(&status)] }
    }
}

fn check(name: &'static str, level: Level, reason: impl Into<String>) -> Check {
    Check { name, level, reason: reason.into() }
}

fn listener(status: &Status) -> Check {
    if let Some(away) = status.away_for {
        let reason = format!(
            "the database has been away for {}: one probe a second asks for it, and everybody else waits",
            short(away)
        );
        return check("listener", Level::Failed, reason);
    }
    match status.listens {
        Listens::Yes => check("listener", Level::Ok, "it listens: producers ring for this node"),
        Listens::Away => check(
            "listener",
            Level::Degraded,
            "it has no connection to the database and tries to get one; until then the node looks by itself, again and again",
        ),
        Listens::No => check(
            "listener",
            Level::Degraded,
            "LISTEN is switched off, or impossible behind a pooler, or PostgreSQL's queue of notifications is filling up: the node polls",
        ),
    }
}

fn coordinators(boards: &[Board]) -> Check {
    let faults: Vec<String> = boards.iter().flat_map(faults).collect();
    let active: usize = boards.iter().map(|board| board.active().len()).sum();
    if !faults.is_empty() {
        let level = if active == 0 { Level::Failed } else { Level::Degraded };
        return check("coordinators", level, faults.join("; "));
    }
    let reason = match (boards.len(), active) {
        (0, _) => "none are to run in this process".to_owned(),
        (_, 1) => "1 namespace is served".to_owned(),
        (_, n) => format!("{n} namespaces are served"),
    };
    check("coordinators", Level::Ok, reason)
}

fn faults(board: &Board) -> Vec<String> {
    let unlisted = board.unlisted().map(|why| format!("the namespaces cannot be listed: {why}"));
    let unserved = board.unserved().into_iter();
    let unserved = unserved.map(|one| format!("namespace {} is not served: {}", one.namespace, one.why));
    unlisted.into_iter().chain(unserved).collect()
}

fn fallback(status: &Status, node: &Node, stale: Option<Duration>) -> Check {
    let Lately { heartbeat, fallback_hit, .. } = status.lately;
    let (every, since_start) = (node.heartbeat(), node.age());
    let silent_for = heartbeat.unwrap_or(since_start);
    if silent_for > every * BEATS_MISSED_MAX {
        let reason = format!(
            "the last heartbeat was {} ago, and one is due every {}",
            short(silent_for),
            short(every)
        );
        return check("fallback", Level::Failed, reason);
    }
    if let Some(ago) = fallback_hit.filter(|ago| *ago < ALARM_FOR) {
        let hits = node.counters().fallback_hits.get();
        let reason = format!(
            "the heartbeat found work that no ring had announced, {hits} times since the start, last {} ago: somebody writes past Bugle's functions, or a ring was lost",
            short(ago)
        );
        return check("fallback", Level::Degraded, reason);
    }
    if let Some(ago) = stale.filter(|ago| *ago < ALARM_FOR) {
        let reason = format!(
            "{} ago a step was begun that had been ready for too long while this node could have taken it",
            short(ago)
        );
        return check("fallback", Level::Degraded, reason);
    }
    let last =
        heartbeat.map_or_else(|| "none was due yet".to_owned(), |ago| format!("the last {} ago", short(ago)));
    check(
        "fallback",
        Level::Ok,
        format!("a heartbeat every {}, {last}; it found nothing that was missed lately", short(every)),
    )
}

fn lag(status: &Status) -> Check {
    let Lately { delivery_timeout, latency_max, .. } = status.lately;
    if status.alert {
        return check(
            "lag",
            Level::Degraded,
            "on alert after a fault: it looks at short intervals until all is quiet",
        );
    }
    if let Some(late) = latency_max.filter(|latency| *latency > LATE) {
        let reason =
            format!("in the last minute work was handed out up to {} after its ring was heard", short(late));
        return check("lag", Level::Degraded, reason);
    }
    if let Some(ago) = delivery_timeout.filter(|ago| *ago < Duration::from_mins(1)) {
        return check(
            "lag",
            Level::Degraded,
            format!("{} ago no look had begun in time after a ring", short(ago)),
        );
    }
    let reason = latency_max.map_or_else(
        || "no ring led to work in the last minute".to_owned(),
        |most| {
            format!("in the last minute work was handed out at most {} after its ring was heard", short(most))
        },
    );
    check("lag", Level::Ok, reason)
}
