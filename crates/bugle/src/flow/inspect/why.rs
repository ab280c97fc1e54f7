//! What each step of a run waits for.

use crate::Error;
use crate::flow::{Flow, Run, RunId};
use crate::jobs::inspect::{QueueDetail, is_nobody_seen};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sqlx::types::Json;
use std::collections::HashMap;

/// A run, and what each of its steps that has not ended waits for.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct RunWhy {
    /// The run.
    #[serde(flatten)]
    pub run: Run,
    /// The database's clock when it was asked.
    pub now: DateTime<Utc>,
    /// Its steps that have not ended; none of a run that has.
    pub waits: Vec<StepWhy>,
    /// Somebody is seen who ends sleeps and matches signals in this namespace; `None`: nothing of this run waits for that.
    pub engine_seen: Option<bool>,
}

/// A step that has not ended, or some elements of a map for which the same is true.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct StepWhy {
    /// The step's number in the definition.
    pub no: i16,
    /// Its name.
    pub step: String,
    /// task, map, decision, sleep or signal.
    pub kind: String,
    /// How many elements of a map this is about; `None`: it is about the step itself.
    pub elements: Option<i64>,
    /// The first of them, from 1; 0: it is about the step itself.
    pub element: i32,
    /// pending, ready, running or waiting.
    pub state: String,
    /// Since when; of several elements, the first.
    pub since: DateTime<Utc>,
    /// What it waits for.
    #[serde(flatten)]
    pub reason: Reason,
}

/// What a step waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// Parents that have not ended.
    Parents {
        /// Which, parents of parents not.
        missing: Vec<MissingParent>,
    },
    /// The elements of a map that go before it: the definition lets only so many run at once.
    AtOnce {
        /// How many.
        most: i32,
    },
    /// The elements of this map.
    Elements {
        /// How many have not ended.
        left: i32,
        /// How many have failed.
        failed: i32,
    },
    /// An attempt failed, and the next one is not due.
    Backoff {
        /// When it is.
        until: DateTime<Utc>,
        /// Attempts that failed.
        attempt: i16,
        /// How many it has.
        attempts: i16,
        /// What went wrong last.
        message: Option<String>,
    },
    /// A signal.
    Signal {
        /// Its key.
        key: String,
        /// When the step fails without it.
        until: Option<DateTime<Utc>>,
    },
    /// Time to pass.
    Sleep {
        /// Until when.
        until: DateTime<Utc>,
    },
    /// That somebody resumes the run.
    RunPaused,
    /// That somebody resumes its queue.
    QueuePaused {
        /// The queue.
        queue: String,
    },
    /// That a step of the namespace ends: no more may run at once.
    Limit {
        /// How many may.
        most: i32,
        /// How many do, on all nodes.
        running: i32,
    },
    /// A worker: it could be claimed, and nobody is seen who works on its queue.
    NoWorker {
        /// The queue.
        queue: String,
    },
    /// A worker: it could be claimed, and others are at work.
    Unclaimed {
        /// The queue.
        queue: String,
        /// How many steps of the queue could be claimed, this one among them.
        ready: i64,
        /// Who holds steps of the queue.
        workers: Vec<String>,
        /// Nodes that sleep for it.
        sleepers: Vec<String>,
    },
    /// Nothing: it runs.
    Running {
        /// Who has claimed it; of several elements at most ten.
        workers: Vec<String>,
        /// Until when, unless the lease is renewed; of several elements the first.
        lease_until: Option<DateTime<Utc>>,
        /// Which attempt it is.
        attempt: i16,
        /// How many it has.
        attempts: i16,
    },
    /// Time to pass: its handler has put it off, the attempt not counted.
    PutOff {
        /// Until when.
        until: DateTime<Utc>,
    },
    /// That somebody claims it again: whoever had it let the lease end.
    LeaseEnded {
        /// Who had it.
        workers: Vec<String>,
        /// The queue.
        queue: String,
    },
}

/// A parent that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingParent {
    /// Its name.
    pub step: String,
    /// The state that it is in.
    pub state: String,
    /// What must become of it: success, failure or always.
    pub on: String,
}

#[derive(sqlx::FromRow)]
struct Standing {
    no: i16,
    name: String,
    kind: String,
    queue: String,
    is_element: bool,
    state: String,
    why: Option<String>,
    n: i64,
    first: i32,
    since: DateTime<Utc>,
    due_at: Option<DateTime<Utc>>,
    attempt: i16,
    attempts: i16,
    message: Option<String>,
    at_once: Option<i32>,
    signal_key: Option<String>,
    workers: Option<Vec<String>>,
    is_held: Option<bool>,
    lease_until: Option<DateTime<Utc>>,
    limit_most: Option<i32>,
    limit_held: Option<i32>,
    items_left: i32,
    items_failed: i32,
    now: DateTime<Utc>,
    parents: Option<Json<Vec<MissingParent>>>,
}

impl Flow {
    /// What each step of a run that has not ended waits for; `None`: there is no such run. It may have gone on while the answer travelled.
    pub async fn why(&self, run: RunId) -> Result<Option<RunWhy>, Error> {
        let Some(found) = self.show(run).await? else { return Ok(None) };
        let standing: Vec<Standing> = sqlx::query_as(self.statements().why_steps())
            .bind(run)
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)?;
        let now = standing.first().map_or_else(Utc::now, |row| row.now);
        let mut queues = HashMap::new();
        for name in standing.iter().map(|row| &row.queue) {
            if !queues.contains_key(name)
                && let Some(queue) = self.bugle.show_queue(name).await?
            {
                queues.insert(name.clone(), queue);
            }
        }
        let engine = standing.iter().find(|row| is_of_the_engine(row)).and_then(|row| queues.get(&row.queue));
        let engine_seen = engine.map(|queue| !is_nobody_seen(queue, None));
        let paused = found.paused;
        let waits = standing.into_iter().map(|row| StepWhy::of(row, paused, &queues)).collect();
        Ok(Some(RunWhy { run: found, now, waits, engine_seen }))
    }
}

fn is_of_the_engine(row: &Standing) -> bool {
    matches!(row.kind.as_str(), "sleep" | "signal") && matches!(row.why.as_deref(), Some("sleep" | "signal"))
}

impl StepWhy {
    fn of(row: Standing, run_paused: bool, queues: &HashMap<String, QueueDetail>) -> Self {
        let reason = reason(&row, run_paused, queues);
        Self {
            no: row.no,
            step: row.name,
            kind: row.kind,
            elements: row.is_element.then_some(row.n),
            element: row.first,
            state: row.state,
            since: row.since,
            reason,
        }
    }
}

fn reason(row: &Standing, run_paused: bool, queues: &HashMap<String, QueueDetail>) -> Reason {
    let workers = || row.workers.clone().unwrap_or_default();
    match (row.state.as_str(), row.why.as_deref(), row.due_at) {
        ("pending", ..) if row.is_element => Reason::AtOnce { most: row.at_once.unwrap_or_default() },
        ("pending", ..) => {
            Reason::Parents { missing: row.parents.as_ref().map(|json| json.0.clone()).unwrap_or_default() }
        }
        ("running", ..) if row.is_held == Some(true) => Reason::Running {
            workers: workers(),
            lease_until: row.lease_until,
            attempt: row.attempt,
            attempts: row.attempts,
        },
        ("running", ..) => Reason::LeaseEnded { workers: workers(), queue: row.queue.clone() },
        ("waiting", Some("paused"), _) => Reason::RunPaused,
        ("waiting", Some("map"), _) => Reason::Elements { left: row.items_left, failed: row.items_failed },
        ("waiting", Some("signal"), until) => {
            Reason::Signal { key: row.signal_key.clone().unwrap_or_default(), until }
        }
        ("waiting", Some("sleep"), Some(until)) => Reason::Sleep { until },
        ("waiting", Some("snoozed"), Some(until)) if until > row.now => Reason::PutOff { until },
        ("waiting", _, Some(until)) if until > row.now => Reason::Backoff {
            until,
            attempt: row.attempt,
            attempts: row.attempts,
            message: row.message.clone(),
        },
        // It could be claimed.
        _ if run_paused => Reason::RunPaused,
        _ => claimable(row, queues.get(&row.queue)),
    }
}

/// Why a step is not claimed that could be.
fn claimable(row: &Standing, queue: Option<&QueueDetail>) -> Reason {
    let name = row.queue.clone();
    let since = row.due_at.unwrap_or(row.since);
    match queue {
        Some(queue) if queue.row.paused => Reason::QueuePaused { queue: name },
        _ if row.limit_most.is_some_and(|most| row.limit_held >= Some(most)) => Reason::Limit {
            most: row.limit_most.unwrap_or_default(),
            running: row.limit_held.unwrap_or_default(),
        },
        Some(queue) if !is_nobody_seen(queue, Some(since)) => Reason::Unclaimed {
            queue: name,
            ready: queue.row.ready,
            workers: queue.workers.iter().filter(|w| w.alive).map(|w| w.worker.clone()).collect(),
            sleepers: queue.more.sleepers.clone(),
        },
        _ => Reason::NoWorker { queue: name },
    }
}
