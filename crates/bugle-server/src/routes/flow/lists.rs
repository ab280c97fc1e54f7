//! Lists of runs, and the log of one. Each page says where the next begins.

use super::runs::missing;
use super::{Missing, Refusals, scoped};
use crate::access::{Inspect, Scope};
use crate::answer::micros;
use crate::app::App;
use crate::error::Error;
use crate::limits::LIST_ROWS_MAX;
use crate::params::{Path, Query, moment, within};
use axum::Json;
use bugle::flow::inspect::{EventRow, Mark, RunFilter, RunRow};
use bugle::flow::{RunId, RunState};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(scoped!(list)).routes(scoped!(events))
}

/// Which page of a list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct PageQuery {
    #[param(minimum = 1, maximum = 1_000, default = 100)]
    limit: u32,
    /// What the page before answered as `next`; not sent: the first page.
    after: Option<String>,
}

impl Default for PageQuery {
    fn default() -> Self {
        Self { limit: 100, after: None }
    }
}

impl PageQuery {
    pub(super) fn limit(&self) -> Result<u32, Error> {
        within("limit", self.limit.into(), 1, LIST_ROWS_MAX.into()).map(|_| self.limit)
    }

    pub(super) fn after(&self) -> Result<Option<Mark>, Error> {
        let after = self.after.as_deref().filter(|after| !after.is_empty());
        after.map(str::parse).transpose().map_err(|error| Error::from(error).at("after"))
    }

    /// Where the next page begins, when this one is full.
    pub(super) fn next<T>(&self, rows: &[T], mark: impl Fn(&T) -> Mark) -> Option<String> {
        rows.last().filter(|_| u32::try_from(rows.len()) == Ok(self.limit)).map(|last| mark(last).to_string())
    }
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
struct RunsQuery {
    /// Only of this definition, in any version.
    definition: Option<String>,
    /// Only in this state: `queued`, `running`, `succeeded`, `failed` or `cancelled`.
    state: Option<String>,
    /// Only those started at that time or later.
    #[serde(default, deserialize_with = "moment")]
    #[param(value_type = Option<String>, format = DateTime)]
    started_after: Option<DateTime<Utc>>,
}

/// A run as a list shows it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct RunListed {
    id: i64,
    definition: String,
    version: i32,
    state: &'static str,
    paused: bool,
    steps: i32,
    steps_left: i32,
    key: Option<String>,
    #[schema(value_type = Option<Object>)]
    tags: Option<Box<RawValue>>,
    created_at: String,
    started_at: Option<String>,
    ended_at: Option<String>,
    ends_by: Option<String>,
}

impl From<RunRow> for RunListed {
    fn from(row: RunRow) -> Self {
        Self {
            id: row.id.0,
            definition: row.definition,
            version: row.version,
            state: row.state.as_str(),
            paused: row.paused,
            steps: row.steps,
            steps_left: row.steps_left,
            key: row.key,
            tags: row.tags.map(|tags| tags.0),
            created_at: micros(row.created_at),
            started_at: row.started_at.map(micros),
            ended_at: row.ended_at.map(micros),
            ends_by: row.ends_by.map(micros),
        }
    }
}

#[derive(Serialize, ToSchema)]
struct RunsAnswer {
    runs: Vec<RunListed>,
    /// Where the next page begins; null: this is the last one.
    next: Option<String>,
}

/// Runs, the newest first.
///
/// A page may be shorter than asked for: runs that the caller may not see are left out.
#[utoipa::path(get, path = "/api/v1/flow/runs", tag = "flow", params(RunsQuery, PageQuery), responses(
    (status = 200, description = "Those that the caller may see", body = RunsAnswer), Refusals,
))]
async fn list(
    scope: Scope<Inspect>,
    Query(query): Query<RunsQuery>,
    Query(page): Query<PageQuery>,
) -> Result<Json<RunsAnswer>, Error> {
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let filter = RunFilter {
        definition: given(query.definition),
        state: given(query.state).map(|state| state.parse::<RunState>()).transpose()?,
        started_after: query.started_after,
        after: page.after()?,
    };
    let rows = scope.flow_seen().list_runs(&filter, page.limit()?).await?;
    let next = page.next(&rows, RunRow::mark);
    let seen = rows.into_iter().filter(|row| scope.sees(&row.definition));
    Ok(Json(RunsAnswer { runs: seen.map(RunListed::from).collect(), next }))
}

/// One move of a run or of a step.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct EventView {
    at: String,
    /// null: it is a move of the run.
    step: Option<String>,
    /// Which element of a map, from 1; 0: the step itself.
    element: i32,
    /// What moved it.
    cause: String,
    /// null: it was made.
    from: Option<String>,
    to: String,
    attempt: i16,
    /// A worker or a person; null: Bugle.
    actor: Option<String>,
    why: Option<String>,
    message: Option<String>,
    due_at: Option<String>,
}

impl From<EventRow> for EventView {
    fn from(row: EventRow) -> Self {
        Self {
            at: micros(row.at),
            step: row.step,
            element: row.idx,
            cause: row.cause,
            from: row.from_state,
            to: row.to_state,
            attempt: row.attempt,
            actor: row.actor,
            why: row.why,
            message: row.message,
            due_at: row.due_at.map(micros),
        }
    }
}

#[derive(Serialize, ToSchema)]
struct EventsAnswer {
    events: Vec<EventView>,
    /// Where the next page begins; null: this is the last one.
    next: Option<String>,
}

/// The log of a run: every move of it and of its steps, with who made it and why.
#[utoipa::path(get, path = "/api/v1/flow/runs/{run}/events", tag = "flow", params(("run" = i64, Path, example = 7), PageQuery), responses(
    (status = 200, description = "Moves, in their order", body = EventsAnswer), Missing, Refusals,
))]
async fn events(
    scope: Scope<Inspect>,
    Path(run): Path<RunId>,
    Query(page): Query<PageQuery>,
) -> Result<Json<EventsAnswer>, Error> {
    let flow = scope.flow_of_run(run).await?;
    let rows = flow.list_events(run, page.after()?, page.limit()?).await?;
    if rows.is_empty() && flow.show(run).await?.is_none() {
        return Err(missing(run));
    }
    let next = page.next(&rows, EventRow::mark);
    Ok(Json(EventsAnswer { events: rows.into_iter().map(EventView::from).collect(), next }))
}
