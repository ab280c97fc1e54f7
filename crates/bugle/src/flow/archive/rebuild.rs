//! The tables of a run, worked out from its log: what people see of it is replayed as for an earlier time (`inspect::replay`); here are the counters that
//! settlements go by, moved as `0023_go_on.sql` to `0028_operate_flow.sql` move them.

use super::format::RunHead;
use crate::flow::inspect::EventRow;
use crate::flow::inspect::detail::Defined;
use crate::flow::inspect::replay::{Outputs, Replay, has_ended};
use crate::flow::{Run, RunState};
use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::types::Json;
use std::collections::BTreeMap;

/// What must be known of a definition.
pub(super) struct Shape {
    pub(super) defined: Vec<Defined>,
    pub(super) steps: Vec<StepShape>,
    pub(super) edges: Vec<Edge>,
}

/// What a step's failure means.
#[derive(sqlx::FromRow)]
pub(super) struct StepShape {
    no: i16,
    goes_on: bool,
    seen_to: bool,
}

#[derive(sqlx::FromRow)]
pub(super) struct Edge {
    from_no: i16,
    to_no: i16,
    on_state: String,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counters {
    parents_left: i16,
    satisfied: i16,
    items_left: i32,
    items_ready: i32,
    items_failed: i32,
}

/// A run, as far as its log has been read.
pub(super) struct Rebuild<'a> {
    replay: Replay<'a>,
    shape: &'a Shape,
    outputs: Outputs,
    counters: BTreeMap<i16, Counters>,
    epochs: BTreeMap<(i16, i32), i32>,
    /// In which epoch and when steps were handed over last: their deadlines count from there.
    pub(super) handed: BTreeMap<i16, (i32, DateTime<Utc>)>,
    /// Steps that are ready because somebody gave them back: the attempts that they have used up. Others begin anew.
    pub(super) given_back: BTreeMap<(i16, i32), i16>,
    pub(super) steps_left: i32,
    pub(super) failed: i32,
    /// When it was made to go on after it had ended.
    pub(super) restarted_at: Option<DateTime<Utc>>,
    last: DateTime<Utc>,
    /// Steps were reopened, and the counters not worked out anew yet: once for all that were at the same time.
    is_reopened: bool,
}

/// A row of the table of steps, without what the log does not say.
#[derive(Serialize)]
pub(super) struct StepLine<'a> {
    no: i16,
    idx: i32,
    state: &'a str,
    epoch: i32,
    parents_left: i16,
    satisfied: i16,
    items_left: i32,
    items_ready: i32,
    items_failed: i32,
    attempt: i16,
    worker: Option<&'a str>,
    since: DateTime<Utc>,
    why: Option<&'a str>,
    message: Option<&'a str>,
    due_at: Option<DateTime<Utc>>,
}

impl<'a> Rebuild<'a> {
    pub(super) fn new(head: &RunHead, shape: &'a Shape) -> Self {
        let run = Run {
            id: head.id,
            definition: head.definition.clone(),
            version: head.version,
            state: RunState::Queued,
            paused: false,
            steps_left: 0,
            key: None,
            tags: None,
            created_at: head.created_at,
            started_at: None,
            ended_at: None,
            ends_by: None,
            input: Json(RawValue::NULL.to_owned()),
        };
        Self {
            replay: Replay::new(run, &shape.defined),
            shape,
            outputs: Outputs::new(),
            counters: BTreeMap::new(),
            epochs: BTreeMap::new(),
            handed: BTreeMap::new(),
            given_back: BTreeMap::new(),
            steps_left: 0,
            failed: 0,
            restarted_at: None,
            last: head.created_at,
            is_reopened: false,
        }
    }

    pub(super) fn run(&self) -> &Run {
        &self.replay.run
    }

    /// Is it a step whose output decides which of its children run?
    pub(super) fn is_decision(&self, no: i16) -> bool {
        self.shape.defined.iter().any(|step| step.no == no && step.kind == "decision")
    }

    /// What a decision was for.
    pub(super) fn decided(&mut self, no: i16, epoch: i32, output: &RawValue) {
        self.outputs.insert((no, epoch), Json(output.to_owned()));
    }

    /// The next event of the log.
    pub(super) fn apply(&mut self, event: &EventRow) {
        self.last = self.last.max(event.at);
        if !event.reopens() {
            self.count_reopened();
        }
        self.replay.apply(event, &self.outputs);
        if event.cause == "release" {
            self.given_back.insert((event.no, event.idx), event.attempt);
        } else {
            self.given_back.remove(&(event.no, event.idx));
        }
        match (event.no, event.idx) {
            (0, _) => self.count_run(event),
            (_, 0) => self.count_step(event),
            _ => self.count_element(event),
        }
    }

    fn count_run(&mut self, event: &EventRow) {
        match (event.cause.as_str(), event.why.as_deref()) {
            ("cancel", _) | ("end", Some("deadline")) => self.steps_left = 0,
            ("restart", _) => {
                self.restarted_at = Some(event.at);
                self.recount();
            }
            _ => {}
        }
    }

    fn count_step(&mut self, event: &EventRow) {
        let (no, state) = (event.no, event.to_state.as_str());
        self.epochs.insert((no, 0), event.epoch);
        if event.from_state.is_none() {
            let parents = self.shape.edges.iter().filter(|edge| edge.to_no == no).count();
            let parents_left = i16::try_from(parents).unwrap_or(i16::MAX);
            self.counters.insert(no, Counters { parents_left, ..Counters::default() });
            self.steps_left += 1;
        }
        if event.reopens() {
            self.epochs.retain(|(of, idx), _| *of != no || *idx == 0);
            self.counters.insert(no, Counters::default());
            self.is_reopened = true;
        }
        let begins =
            event.from_state.as_deref().is_none_or(|from| from == "pending") || event.cause == "resume";
        if begins && (state == "ready" || state == "waiting" && event.why.as_deref() != Some("paused")) {
            self.handed.insert(no, (event.epoch, event.at));
        }
        // Of a run that is stopped nobody counts any more.
        if has_ended(state) && event.cause != "cancel" {
            self.go_on(no, state);
        }
    }

    fn count_element(&mut self, event: &EventRow) {
        self.epochs.insert((event.no, event.idx), event.epoch);
        let map = self.counters.entry(event.no).or_default();
        match (event.from_state.as_deref(), event.cause.as_str(), event.to_state.as_str()) {
            (None, _, state) => {
                map.items_left += 1;
                map.items_ready += i32::from(state == "ready");
            }
            (Some("pending"), "parents", "ready") => map.items_ready += 1,
            (_, "ack" | "fail", state) if has_ended(state) => {
                map.items_left -= 1;
                map.items_failed += i32::from(state == "failed");
            }
            (Some("failed"), "retry", _) => {
                map.items_left += 1;
                map.items_failed -= 1;
            }
            _ => {}
        }
    }

    /// A step has ended: as `bugle.go_on`.
    fn go_on(&mut self, no: i16, state: &str) {
        self.steps_left -= 1;
        self.failed += i32::from(self.counts_as_failed(no, state));
        for edge in self.shape.edges.iter().filter(|edge| edge.from_no == no) {
            let satisfied = self.is_satisfied(edge, state);
            let child = self.counters.entry(edge.to_no).or_default();
            child.parents_left -= 1;
            child.satisfied += i16::from(satisfied);
        }
    }

    fn count_reopened(&mut self) {
        if std::mem::take(&mut self.is_reopened) {
            self.recount();
        }
    }

    /// Works the counters out anew: as `bugle.reopen`.
    fn recount(&mut self) {
        let states: BTreeMap<i16, String> = self
            .replay
            .steps
            .values()
            .filter(|row| row.idx == 0)
            .map(|row| (row.no, row.state.clone()))
            .collect();
        let open = states.values().filter(|state| !has_ended(state)).count();
        self.steps_left = i32::try_from(open).unwrap_or(i32::MAX);
        let failed = states.iter().filter(|(no, state)| self.counts_as_failed(**no, state)).count();
        self.failed = i32::try_from(failed).unwrap_or(i32::MAX);
        for child in states.keys() {
            let (mut left, mut satisfied) = (0, 0);
            for edge in self.shape.edges.iter().filter(|edge| edge.to_no == *child) {
                match states.get(&edge.from_no) {
                    Some(state) if has_ended(state) => satisfied += i16::from(self.is_satisfied(edge, state)),
                    _ => left += 1,
                }
            }
            let counters = self.counters.entry(*child).or_default();
            (counters.parents_left, counters.satisfied) = (left, satisfied);
        }
    }

    fn counts_as_failed(&self, no: i16, state: &str) -> bool {
        state == "failed" && self.step(no).is_some_and(|step| !step.goes_on && !step.seen_to)
    }

    fn is_satisfied(&self, edge: &Edge, state: &str) -> bool {
        let goes_on = self.step(edge.from_no).is_some_and(|step| step.goes_on);
        match edge.on_state.as_str() {
            "always" => true,
            "failure" => state == "failed" && !goes_on,
            _ => state == "succeeded" && self.is_chosen(edge) || state == "failed" && goes_on,
        }
    }

    /// As `bugle.is_chosen`, of any step but a decision always.
    fn is_chosen(&self, edge: &Edge) -> bool {
        if !self.is_decision(edge.from_no) {
            return true;
        }
        let epoch = self.epochs.get(&(edge.from_no, 0)).copied().unwrap_or_default();
        let child = self.shape.defined.iter().find(|step| step.no == edge.to_no);
        let (Some(output), Some(child)) = (self.outputs.get(&(edge.from_no, epoch)), child) else {
            return false;
        };
        match serde_json::from_str(output.0.get()) {
            Ok(serde_json::Value::String(name)) => name == child.name,
            Ok(serde_json::Value::Array(names)) => names.iter().any(|name| *name == *child.name),
            _ => false,
        }
    }

    fn step(&self, no: i16) -> Option<&StepShape> {
        self.shape.steps.iter().find(|step| step.no == no)
    }

    /// The log is over. Steps that somebody ran when the run was exported are given back: he is nobody here. The events that say so, at `now` or behind the last.
    pub(super) fn release(&mut self, now: DateTime<Utc>) -> Vec<EventRow> {
        self.count_reopened();
        let at = now.max(self.last + TimeDelta::microseconds(1));
        let running = self.replay.steps.values().filter(|row| row.state == "running");
        let events: Vec<EventRow> = running
            .zip(1..)
            .map(|(row, seq)| EventRow {
                at,
                seq,
                no: row.no,
                idx: row.idx,
                step: None,
                epoch: self.epochs.get(&(row.no, row.idx)).copied().unwrap_or_default(),
                cause: "release".to_owned(),
                from_state: Some("running".to_owned()),
                to_state: "ready".to_owned(),
                attempt: (row.attempt - 1).max(0),
                actor: Some("import".to_owned()),
                why: None,
                message: None,
                due_at: None,
            })
            .collect();
        for event in &events {
            self.apply(event);
        }
        events
    }

    /// The rows of its steps.
    pub(super) fn steps(&self) -> impl Iterator<Item = StepLine<'_>> {
        self.replay.steps.values().map(|row| {
            let counters = self.counters.get(&row.no).filter(|_| row.idx == 0).copied().unwrap_or_default();
            StepLine {
                no: row.no,
                idx: row.idx,
                state: &row.state,
                epoch: self.epochs.get(&(row.no, row.idx)).copied().unwrap_or(1),
                parents_left: counters.parents_left,
                satisfied: counters.satisfied,
                items_left: counters.items_left,
                items_ready: counters.items_ready,
                items_failed: counters.items_failed,
                attempt: row.attempt,
                worker: row.worker.as_deref(),
                since: row.since,
                why: row.why.as_deref(),
                message: row.message.as_deref(),
                due_at: row.due_at,
            }
        })
    }
}
