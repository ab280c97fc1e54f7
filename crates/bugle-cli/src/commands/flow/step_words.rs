//! What became of a step, in a line.

use super::drawing::mark;
use crate::output::{Output, clean};
use bugle::flow::StepRow;
use bugle::flow::inspect::StepDetail;
use serde_json::value::RawValue;
use sqlx::types::Json;

/// Of a value or an error so many characters are in the line; the JSON has the rest.
const CHARACTERS_MAX: usize = 120;
/// Of a map with so many elements each has a line; of a larger one at most so many have.
const ELEMENTS_FEW: i64 = 5;
const ELEMENTS_TOLD_MAX: usize = 10;

/// The steps that have begun or ended, a line each, and their elements that are worth one.
pub(super) fn lines(steps: &[StepDetail], output: Output) -> Vec<String> {
    let shown = steps.iter().filter(|step| step.row.state != "pending");
    let shown: Vec<_> =
        shown.flat_map(|step| std::iter::once((&step.row, Some(step))).chain(worth(step))).collect();
    let names: Vec<String> = shown.iter().map(|(row, _)| name(row)).collect();
    let wide = names.iter().map(|name| name.chars().count()).max().unwrap_or_default();
    let line = |((row, step), name): (&(&StepRow, Option<&StepDetail>), &String)| {
        let (sign, colour) = mark(&row.state);
        let state = output.paint(&format!("{sign} {}", row.state), colour);
        let mut line = format!("{}  {state} {}", format_args!("{name:<wide$}"), said(row, output));
        if let Some(step) = step.filter(|step| !step.element_counts.is_empty()) {
            line.push_str(&elements(step));
        }
        line
    };
    shown.iter().zip(&names).map(line).collect()
}

/// Elements that failed, run or wait, of a large map the first of them; of a small one also those that are ready or have succeeded.
fn worth(step: &StepDetail) -> impl Iterator<Item = (&StepRow, Option<&StepDetail>)> {
    let is_small = step.elements_total() <= ELEMENTS_FEW;
    let worth = move |row: &&StepRow| match row.state.as_str() {
        "failed" | "running" | "waiting" => true,
        "ready" | "succeeded" => is_small,
        _ => false,
    };
    step.elements.iter().filter(worth).take(ELEMENTS_TOLD_MAX).map(|row| (row, None))
}

fn name(row: &StepRow) -> String {
    match row.idx {
        0 => row.name.clone(),
        idx => format!("{}[{idx}]", row.name),
    }
}

/// `3s ago, by w-1, attempt 1 of 3: {"receipt": 7}`.
fn said(row: &StepRow, output: Output) -> String {
    let mut parts = vec![output.moment(row.since)];
    parts.extend(row.worker.as_ref().map(|worker| format!("by {}", clean(worker))));
    if row.attempts > 1 && row.attempt > 0 {
        parts.push(format!("attempt {} of {}", row.attempt, row.attempts));
    }
    parts.extend(row.why.as_ref().map(|why| clean(&reason(&row.state, why))));
    parts.extend(row.due_at.filter(|_| row.state == "waiting").map(|due| output.moment(due)));
    let more = match row.state.as_str() {
        "failed" | "waiting" => row.message.clone(),
        "running" => row.progress.as_ref().map(value),
        "succeeded" => row.output.as_ref().map(value).filter(|value| value != "null"),
        _ => None,
    };
    let more = more.map_or_else(String::new, |more| format!(": {}", short(&clean(&more))));
    format!("{}{more}", parts.join(", "))
}

/// The word of the database, as people say it.
fn reason(state: &str, why: &str) -> String {
    match (state, why) {
        ("waiting", "retry") => "tried again".to_owned(),
        ("waiting", "signal") => "for a signal".to_owned(),
        ("waiting", "sleep") => "asleep".to_owned(),
        ("waiting", "map") => "for its elements".to_owned(),
        ("waiting", "paused") => "the run is paused".to_owned(),
        ("skipped", "parents") => "its parents did not lead to it".to_owned(),
        ("succeeded", "resolve") | ("skipped", "skip") => "by hand".to_owned(),
        _ => why.to_owned(),
    }
}

fn elements(step: &StepDetail) -> String {
    let counts: Vec<_> =
        step.element_counts.iter().map(|count| format!("{} {}", count.elements, count.state)).collect();
    format!("; elements: {}", counts.join(", "))
}

fn value(json: &Json<Box<RawValue>>) -> String {
    json.0.get().to_owned()
}

/// At most so much of a text.
pub(super) fn short(text: &str) -> String {
    if text.chars().count() <= CHARACTERS_MAX {
        return text.to_owned();
    }
    text.chars().take(CHARACTERS_MAX - 1).chain(['…']).collect()
}
