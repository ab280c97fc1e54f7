//! The canonical form: what the database stores and reads. Every default is written out, steps stand in their order with their numbers, and
//! edges name numbers.
//!
//! The order of the fields below is the order in which they are hashed: to move one is to change every hash.

use super::Definition;
use super::draft::{Draft, DraftEdge, DraftKind, DraftStep};
use super::fault::{At, Faults, Mark};
use super::limits::{ATTEMPTS_DEFAULT, QUEUE_DEFAULT};
use super::node::shorten;
use super::step::{Event, Identity, Join, On, OnFailure, Step, StepKind};
use crate::Priority;
use crate::jobs::{Backoff, Written};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::Duration;

/// A definition in its canonical form.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Canonical {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    identity: Identity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<u64>,
    steps: Vec<CanonicalStep>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CanonicalStep {
    no: usize,
    name: String,
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    handler: Option<String>,
    queue: String,
    priority: i64,
    attempts: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backoff: Option<Written>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<u64>,
    on_failure: OnFailure,
    join: Join,
    after: Vec<CanonicalEdge>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    over: Option<CanonicalOver>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    concurrency: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sleep_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signal: Option<CanonicalSignal>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    events: Vec<Event>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CanonicalEdge {
    no: usize,
    on: On,
}

/// The list of a map: in the output of a step, or, without a number, in the run's input.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CanonicalOver {
    no: Option<usize>,
    at: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CanonicalSignal {
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
}

impl Canonical {
    pub(super) fn of(definition: &Definition) -> Self {
        let names = definition.steps.iter().enumerate();
        let numbers: HashMap<&str, usize> = names.map(|(n, step)| (step.name.as_str(), n + 1)).collect();
        Self {
            name: definition.name.clone(),
            version: definition.version.map(Into::into),
            description: definition.description.clone(),
            identity: definition.identity,
            deadline_ms: definition.deadline.map(milliseconds),
            steps: definition.steps.iter().map(|step| CanonicalStep::of(step, &numbers)).collect(),
        }
    }

    /// What it says, unchecked, except that its numbers must be those of its steps.
    pub(super) fn into_draft(self, mark: Mark, faults: &mut Faults) -> Draft {
        let names: Vec<String> = self.steps.iter().map(|step| step.name.clone()).collect();
        let steps =
            self.steps.into_iter().enumerate().map(|(n, step)| step.into_draft(n + 1, &names, faults));
        let steps = steps.collect();
        Draft {
            mark,
            name: Some(At::new(self.name, mark)),
            version: self.version.map(|version| At::new(version, mark)),
            description: self.description.map(|text| At::new(text, mark)),
            identity: self.identity,
            deadline: self.deadline_ms.map(|ms| At::new(Duration::from_millis(ms), mark)),
            steps: Some(steps),
        }
    }
}

impl CanonicalStep {
    fn of(step: &Step, numbers: &HashMap<&str, usize>) -> Self {
        let number = |name: &str| numbers.get(name).copied().unwrap_or_default();
        let mut written = Self {
            no: number(&step.name),
            name: step.name.clone(),
            kind: step.kind.as_str().to_owned(),
            handler: step.kind.handler().map(str::to_owned),
            queue: step.queue.clone(),
            priority: step.priority.lane().into(),
            attempts: step.attempts.into(),
            backoff: step.backoff.as_ref().map(Written::from),
            timeout_ms: step.timeout.map(milliseconds),
            deadline_ms: step.deadline.map(milliseconds),
            on_failure: step.on_failure,
            join: step.join,
            after: step
                .after
                .iter()
                .map(|edge| CanonicalEdge { no: number(&edge.step), on: edge.on })
                .collect(),
            over: None,
            concurrency: None,
            sleep_ms: None,
            signal: None,
            events: step.events.clone(),
        };
        match &step.kind {
            StepKind::Task { .. } | StepKind::Decision { .. } => {}
            StepKind::Map { over, concurrency, .. } => {
                written.over =
                    Some(CanonicalOver { no: over.step.as_deref().map(number), at: over.at.clone() });
                written.concurrency = concurrency.map(Into::into);
            }
            StepKind::Sleep { length } => written.sleep_ms = Some(milliseconds(*length)),
            StepKind::Signal { key, timeout } => {
                let timeout_ms = timeout.map(milliseconds);
                written.signal = Some(CanonicalSignal { key: key.clone(), timeout_ms });
            }
        }
        written
    }

    fn into_draft(self, place: usize, names: &[String], faults: &mut Faults) -> DraftStep {
        let mark = Mark::Built(place);
        let mut draft = DraftStep::new(mark);
        let at = |ms: u64| At::new(Duration::from_millis(ms), mark);
        draft.timeout = self.signal.as_ref().and_then(|signal| signal.timeout_ms).or(self.timeout_ms).map(at);
        draft.kind = self.draft_kind(mark, names, faults);
        draft.after = self.draft_edges(mark, names, faults);
        if self.no != place {
            let fault = format!("has the number {} and is step {place} of the list", self.no);
            faults.add(mark, Some(&self.name), fault, "number the steps from 1 in the order of the list");
        }
        draft.name = Some(At::new(self.name, mark));
        draft.handler = self.handler.map(|handler| At::new(handler, mark));
        draft.join = self.join;
        // A default is as good as nothing said: steps without a worker have no other.
        draft.queue =
            Some(self.queue).filter(|queue| queue != QUEUE_DEFAULT).map(|queue| At::new(queue, mark));
        let lane = i64::from(Priority::default().lane());
        draft.priority = Some(self.priority).filter(|given| *given != lane).map(|lane| At::new(lane, mark));
        draft.backoff = self.backoff.map(|written| backoff(written, mark, draft.called(), faults));
        let said = self.attempts != i64::from(ATTEMPTS_DEFAULT) || draft.backoff.is_some();
        draft.attempts = Some(self.attempts).filter(|_| said).map(|attempts| At::new(attempts, mark));
        draft.deadline = self.deadline_ms.map(at);
        let on_failure = Some(self.on_failure).filter(|on| *on != OnFailure::default());
        draft.on_failure = on_failure.map(|on| At::new(on, mark));
        draft.concurrency = self.concurrency.map(|most| At::new(most, mark));
        draft.events = self.events.into_iter().map(|event| At::new(event, mark)).collect();
        draft
    }

    /// The name of a step that this one refers to.
    fn step_named(&self, no: usize, mark: Mark, names: &[String], faults: &mut Faults) -> Option<At<String>> {
        let name = no.checked_sub(1).and_then(|n| names.get(n));
        if name.is_none() {
            let fault = format!("refers to step {no}, and there is none");
            faults.add(mark, Some(&self.name), fault, format!("use 1 to {}", names.len()));
        }
        name.map(|name| At::new(name.clone(), mark))
    }

    fn draft_edges(&self, mark: Mark, names: &[String], faults: &mut Faults) -> Vec<DraftEdge> {
        let mut edge = |edge: &CanonicalEdge| {
            Some(DraftEdge { step: self.step_named(edge.no, mark, names, faults)?, on: edge.on })
        };
        self.after.iter().filter_map(&mut edge).collect()
    }

    fn draft_kind(&self, mark: Mark, names: &[String], faults: &mut Faults) -> DraftKind {
        match (self.kind.as_str(), &self.over, self.sleep_ms, &self.signal) {
            ("task", None, None, None) => DraftKind::Task,
            ("decision", None, None, None) => DraftKind::Decision,
            ("map", Some(over), None, None) => {
                let source = over.no.map(|no| self.step_named(no, mark, names, faults));
                match source {
                    Some(None) => DraftKind::Unread,
                    source => DraftKind::Map { source: source.flatten(), at: At::new(over.at.clone(), mark) },
                }
            }
            ("sleep", None, Some(ms), None) => DraftKind::Sleep(At::new(Duration::from_millis(ms), mark)),
            ("signal", None, None, Some(signal)) => DraftKind::Signal(At::new(signal.key.clone(), mark)),
            (kind, ..) => {
                let fault = format!("is of kind {:?} and its fields say something else", shorten(kind));
                let next = "a map has over, a sleep has sleep_ms, a signal has signal, a task and a decision have none of them";
                faults.add(mark, Some(&self.name), fault, next);
                DraftKind::Unread
            }
        }
    }
}

/// A rule as it was before it became seconds with a fraction.
fn backoff(written: Written, mark: Mark, step: Option<&str>, faults: &mut Faults) -> At<Backoff> {
    let shown = format!("{written:?}");
    let rule = written.rule().unwrap_or_else(|| {
        let fault = format!("backoff is {}", shorten(&shown));
        faults.add(mark, step, fault, "use waits from 0 to 100 years, in seconds");
        Backoff::default()
    });
    let whole = |wait: Duration| {
        let ms = wait.as_micros().saturating_add(500) / 1_000;
        Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX))
    };
    let rule = match rule {
        Backoff::Table(waits) => Backoff::table(waits.into_iter().map(whole)),
        Backoff::Exponential { base, max, jitter } => {
            Backoff::Exponential { base: whole(base), max: whole(max), jitter }
        }
    };
    At::new(rule, mark)
}

fn milliseconds(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
