//! Runs and steps as they are answered.

use crate::answer::micros;
use bugle::flow::inspect::{ElementCount, StepDetail};
use bugle::flow::{Run, StepRow};
use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::types::Json;
use utoipa::ToSchema;

/// A run.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunView {
    id: i64,
    definition: String,
    /// The version by which it goes, to its end.
    version: i32,
    /// `queued`, `running`, `succeeded`, `failed` or `cancelled`.
    state: &'static str,
    /// Nothing of it begins until it is resumed.
    paused: bool,
    /// Steps that have not ended.
    steps_left: i32,
    /// By which a start of the same is recognised.
    key: Option<String>,
    /// What whoever started it wrote on it.
    #[schema(value_type = Option<Object>)]
    tags: Option<Box<RawValue>>,
    created_at: String,
    /// When its first step began.
    started_at: Option<String>,
    ended_at: Option<String>,
    /// Its deadline.
    ends_by: Option<String>,
    /// What it was started with.
    #[schema(value_type = serde_json::Value)]
    input: Box<RawValue>,
}

impl From<Run> for RunView {
    fn from(run: Run) -> Self {
        Self {
            id: run.id.0,
            definition: run.definition,
            version: run.version,
            state: run.state.as_str(),
            paused: run.paused,
            steps_left: run.steps_left,
            key: run.key,
            tags: raw(run.tags),
            created_at: micros(run.created_at),
            started_at: run.started_at.map(micros),
            ended_at: run.ended_at.map(micros),
            ends_by: run.ends_by.map(micros),
            input: run.input.0,
        }
    }
}

/// A step of a run, and of a map its elements.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StepView {
    #[serde(flatten)]
    row: ElementView,
    /// Of a map that has begun: how many of its elements are in which state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    element_counts: Vec<CountView>,
    /// Of a map: at most 20 of its elements, those first that failed or have not ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    elements: Vec<ElementView>,
}

/// How many elements of a map are in a state.
#[derive(Serialize, ToSchema)]
struct CountView {
    state: String,
    elements: i64,
}

impl From<StepDetail> for StepView {
    fn from(step: StepDetail) -> Self {
        let counted = |count: ElementCount| CountView { state: count.state, elements: count.elements };
        Self {
            row: step.row.into(),
            element_counts: step.element_counts.into_iter().map(counted).collect(),
            elements: step.elements.into_iter().map(ElementView::from).collect(),
        }
    }
}

/// A step of a run, or an element of a map.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ElementView {
    step: String,
    /// Which element of a map, from 1; 0: the step itself.
    element: i32,
    /// `task`, `map`, `decision`, `sleep` or `signal`.
    kind: String,
    /// `pending`, `ready`, `running`, `waiting`, `succeeded`, `failed`, `skipped` or `cancelled`.
    state: String,
    /// Attempts begun.
    attempt: i16,
    /// How many it has.
    attempts: i16,
    /// Who runs it, or ran it last.
    worker: Option<String>,
    /// Since when it is in this state.
    since: String,
    /// When it goes on by itself.
    due_at: Option<String>,
    /// Why it waits, was skipped, failed or was cancelled, in a word.
    why: Option<String>,
    /// The last error in words.
    message: Option<String>,
    /// What it says of itself while it runs.
    #[schema(value_type = Option<serde_json::Value>)]
    progress: Option<Box<RawValue>>,
    /// What it brought about; of a map see its elements.
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<Box<RawValue>>,
}

impl From<StepRow> for ElementView {
    fn from(row: StepRow) -> Self {
        Self {
            step: row.name,
            element: row.idx,
            kind: row.kind,
            state: row.state,
            attempt: row.attempt,
            attempts: row.attempts,
            worker: row.worker,
            since: micros(row.since),
            due_at: row.due_at.map(micros),
            why: row.why,
            message: row.message,
            progress: raw(row.progress),
            output: raw(row.output),
        }
    }
}

fn raw(json: Option<Json<Box<RawValue>>>) -> Option<Box<RawValue>> {
    json.map(|json| json.0)
}
