//! A run as it was at an earlier time, worked out from its log.

use super::detail::{self, Defined, ELEMENTS_SHOWN_MAX, RunDetail};
use super::events::EventRow;
use crate::Error;
use crate::flow::{Flow, Run, RunId, RunState, StepRow};
use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use sqlx::types::Json;
use std::collections::{BTreeMap, HashMap, HashSet};

pub(in crate::flow) type Outputs = HashMap<(i16, i32), Json<Box<RawValue>>>;

/// In which order states are shown of which there is no room for all.
const SHOWN_FIRST: [&str; 8] =
    ["failed", "running", "waiting", "ready", "pending", "cancelled", "skipped", "succeeded"];
/// And counted.
const COUNTED: [&str; 8] =
    ["pending", "ready", "running", "waiting", "succeeded", "failed", "skipped", "cancelled"];

impl Flow {
    /// A run and its steps as they were at a time, worked out from the log alone; what steps say of themselves while they run is not in it. `None`:
    /// there is no such run, or it had not been started then.
    pub async fn run_at(&self, run: RunId, at: DateTime<Utc>) -> Result<Option<RunDetail>, Error> {
        let Some(found) = self.show(run).await?.filter(|found| found.created_at <= at) else {
            return Ok(None);
        };
        let defined: Vec<Defined> = sqlx::query_as(self.statements().defined_steps())
            .bind(run)
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)?;
        let events = self.events(run, Some(at), None, i64::MAX).await?;
        if events.first().is_none_or(|event| event.cause != "start") {
            return Err(Error::Invalid {
                what: "time",
                fault: format!("is {at}, and the log of run {run} does not reach back to its start"),
                next: "events are kept for some days; look at the run as it is now",
            });
        }
        let outputs: Vec<(i16, i32, Json<Box<RawValue>>)> = sqlx::query_as(self.statements().list_outputs())
            .bind(run)
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)?;
        let outputs = outputs.into_iter().map(|(no, epoch, output)| ((no, epoch), output)).collect();
        Ok(Some(replay(found, &defined, &events, &outputs)))
    }
}

/// What a log says.
fn replay(run: Run, defined: &[Defined], events: &[EventRow], outputs: &Outputs) -> RunDetail {
    let mut replay = Replay::new(run, defined);
    for event in events {
        replay.apply(event, outputs);
    }
    replay.end()
}

/// A run and its steps, as far as the log has been read.
pub(in crate::flow) struct Replay<'a> {
    pub(in crate::flow) run: Run,
    defined: &'a [Defined],
    pub(in crate::flow) steps: BTreeMap<(i16, i32), StepRow>,
}

impl<'a> Replay<'a> {
    /// Before its first event.
    pub(in crate::flow) fn new(mut run: Run, defined: &'a [Defined]) -> Self {
        run.paused = false;
        run.started_at = None;
        run.ended_at = None;
        Self { run, defined, steps: BTreeMap::new() }
    }

    /// The next event.
    pub(in crate::flow) fn apply(&mut self, event: &EventRow, outputs: &Outputs) {
        if event.no == 0 { self.move_run(event) } else { self.move_step(event, outputs) }
    }

    fn move_run(&mut self, event: &EventRow) {
        let run = &mut self.run;
        if let Ok(state) = event.to_state.parse::<RunState>() {
            run.state = state;
        }
        match event.cause.as_str() {
            "pause" => run.paused = true,
            "resume" => run.paused = false,
            "claim" => run.started_at = Some(event.at),
            _ => {}
        }
        run.ended_at = run.state.has_ended().then_some(event.at);
        run.paused &= !run.state.has_ended();
    }

    fn move_step(&mut self, event: &EventRow, outputs: &Outputs) {
        let (by_hand, reopened) = (event.is_by_hand(), event.reopens());
        if reopened {
            // Its elements are gone: when it begins again, there are others.
            self.steps.retain(|(no, idx), _| *no != event.no || *idx == 0);
        }
        let defined = self.defined;
        let row = self.steps.entry((event.no, event.idx)).or_insert_with(|| new_row(defined, event));
        if event.from_state.is_none() {
            *row = new_row(defined, event);
        }
        row.state.clone_from(&event.to_state);
        row.since = event.at;
        row.due_at = event.due_at;
        row.why = why(event, &row.kind);
        match event.cause.as_str() {
            "claim" | "ack" | "fail" | "pause" | "release" | "snooze" => row.attempt = event.attempt,
            _ if by_hand => row.attempt = 0,
            _ => {}
        }
        match event.cause.as_str() {
            "claim" | "ack" | "fail" | "snooze" | "pause" | "time" | "signal" | "resolve" | "skip" => {
                row.worker.clone_from(&event.actor);
            }
            _ => {}
        }
        match event.cause.as_str() {
            "claim" | "pause" | "resume" | "release" | "snooze" => {} // what went wrong last
            "retry" if event.from_state.as_deref() == Some("waiting") => {}
            _ => row.message.clone_from(&event.message),
        }
        if reopened || event.cause == "release" {
            row.worker = None;
        }
        let output = outputs.get(&(event.no, event.epoch));
        row.output = output.filter(|_| event.to_state == "succeeded" && event.idx == 0).cloned();
    }

    fn end(mut self) -> RunDetail {
        let has_ended = |row: &StepRow| has_ended(&row.state);
        let steps = self.steps.values().filter(|row| row.idx == 0);
        let open: HashSet<i16> = steps.filter(|row| !has_ended(row)).map(|row| row.no).collect();
        let left = open.len();
        self.run.steps_left = i32::try_from(left).unwrap_or(i32::MAX);
        let mut counts: BTreeMap<(i16, usize), i64> = BTreeMap::new();
        let mut items_left: HashMap<i16, i32> = HashMap::new();
        for row in self.steps.values().filter(|row| row.idx > 0) {
            *counts.entry((row.no, rank(&COUNTED, &row.state))).or_default() += 1;
            *items_left.entry(row.no).or_default() += i32::from(!has_ended(row));
        }
        let mut rows: Vec<StepRow> = self.steps.into_values().collect();
        for row in rows.iter_mut().filter(|row| row.idx == 0) {
            let parents = self.defined.iter().find(|step| step.no == row.no).map(|step| &step.parents);
            let left = parents.into_iter().flatten().filter(|parent| open.contains(parent)).count();
            row.parents_left = i16::try_from(left).unwrap_or(i16::MAX);
            row.items_left = items_left.get(&row.no).copied().unwrap_or_default();
        }
        let counts = counts.into_iter().map(|((no, state), n)| (no, COUNTED[state].to_owned(), n));
        RunDetail { run: self.run, steps: detail::gather(shown(rows), counts.collect(), self.defined) }
    }
}

/// Is it one of the states in which a step has ended?
pub(in crate::flow) fn has_ended(state: &str) -> bool {
    ["succeeded", "failed", "skipped", "cancelled"].contains(&state)
}

/// Of each map as many elements as there is room for, as `show_steps.sql` chooses them.
fn shown(mut rows: Vec<StepRow>) -> Vec<StepRow> {
    rows.sort_by_key(|row| (row.no, row.idx > 0, rank(&SHOWN_FIRST, &row.state), row.idx));
    let mut place = 0;
    rows.retain(|row| {
        place = if row.idx == 0 { 0 } else { place + 1 };
        place <= ELEMENTS_SHOWN_MAX
    });
    rows.sort_by_key(|row| (row.no, row.idx));
    rows
}

fn rank(order: &[&str; 8], state: &str) -> usize {
    order.iter().position(|known| *known == state).unwrap_or_default()
}

/// A step that was just made.
fn new_row(defined: &[Defined], event: &EventRow) -> StepRow {
    let step = defined.iter().find(|step| step.no == event.no);
    StepRow {
        no: event.no,
        idx: event.idx,
        name: step.map_or_else(String::new, |step| step.name.clone()),
        kind: step.map_or_else(String::new, |step| step.kind.clone()),
        state: event.to_state.clone(),
        attempt: 0,
        attempts: step.map_or(0, |step| step.attempts),
        worker: None,
        since: event.at,
        due_at: None,
        why: None,
        message: None,
        parents_left: 0,
        items_left: 0,
        progress: None,
        output: None,
    }
}

/// Why a step is in its state. Of what people do the log has their reason instead.
fn why(event: &EventRow, kind: &str) -> Option<String> {
    match (event.cause.as_str(), event.to_state.as_str()) {
        ("retry" | "restart", "waiting") => Some(kind.to_owned()),
        ("retry" | "restart" | "resolve" | "skip", "pending" | "ready") => None,
        ("resolve" | "skip", _) => Some(event.cause.clone()),
        ("fail", "waiting") => Some("retry".to_owned()), // the event has the failure's code
        _ => event.why.clone(),
    }
}
