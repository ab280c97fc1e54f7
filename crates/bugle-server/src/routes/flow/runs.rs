//! Starting runs, looking at them, and waiting for their ends.

use super::view::{RunView, StepView};
use super::wait::WaitQuery;
use super::{Missing, Refusals, scoped};
use crate::access::{Inspect, Need, Push, Scope};
use crate::answer::micros;
use crate::app::App;
use crate::body::Body;
use crate::error::Error;
use crate::params::{Path, Query, moment, within};
use axum::Json;
use axum::http::StatusCode;
use bugle::Priority;
use bugle::flow::inspect::RunDetail;
use bugle::flow::{Flow, Run, RunId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;

/// Longest time that a key may count.
const KEY_WINDOW_SECONDS_MAX: u64 = 100 * 8_766 * 60 * 60;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(scoped!(start)).routes(scoped!(show))
}

/// A run to be started.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StartRequest {
    /// The definition's name.
    definition: String,
    /// Not sent: the newest.
    version: Option<i32>,
    /// Any JSON, at most 256 KiB; not sent: null.
    #[schema(value_type = Option<serde_json::Value>)]
    input: Option<Box<RawValue>>,
    /// The same key again finds the same run. Some definitions want one.
    key: Option<String>,
    /// How long the key counts; not sent: a day.
    #[schema(minimum = 1, maximum = 3_155_760_000_u64)]
    key_window_seconds: Option<u64>,
    /// Of all its steps: 0 (first) to 3 (last); not sent: each step's own.
    #[schema(minimum = 0, maximum = 3)]
    priority: Option<u8>,
    /// An object that is shown with the run.
    #[schema(value_type = Option<Object>)]
    tags: Option<serde_json::Map<String, serde_json::Value>>,
}

/// A run that was started.
#[derive(Serialize, ToSchema)]
struct StartAnswer {
    /// Its number.
    id: i64,
    /// Has it ended?
    ended: bool,
    /// With `wait`: the run, when it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunView>,
    /// The same for its steps with their outputs, for callers who have the right to inspect.
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<StepView>>,
}

/// Start a run.
///
/// The same key again finds the same run, also one that has ended. With `wait` the answer comes when the run has ended, or when the time is over.
/// Whatever goes wrong after the start is no error: the run is there, and the answer has its number.
#[utoipa::path(post, path = "/api/v1/flow/runs", tag = "flow", params(WaitQuery),
    request_body(content = StartRequest, example = json!({"definition": "order", "input": {"items": ["tea"]}, "key": "order 7"})), responses(
    (status = 200, description = "It was started, now or before, and has ended", body = StartAnswer),
    (status = 202, description = "It was started, now or before", body = StartAnswer, example = json!({"id": 7, "ended": false})),
    Missing, Refusals,
))]
async fn start(
    scope: Scope<Push>,
    Query(query): Query<WaitQuery>,
    Body(request): Body<StartRequest>,
) -> Result<(StatusCode, Json<StartAnswer>), Error> {
    let (wait, flow) = (query.time()?, scope.flow_on("definition", &request.definition)?);
    let id = send(flow, &request, scope.actor()).await?;
    let mut answer = StartAnswer { id: id.0, ended: false, run: None, steps: None };
    if let Some(wait) = wait {
        match until_ended(&scope, flow, id, wait).await {
            Ok(Some(run)) => {
                if scope.has::<Inspect>(&run.definition) {
                    let detail = flow.show_run(id).await.ok().flatten();
                    answer.steps =
                        detail.map(|detail| detail.steps.into_iter().map(StepView::from).collect());
                }
                (answer.ended, answer.run) = (true, Some(run.into()));
            }
            Ok(None) => {}
            Err(error) => {
                tracing::info!(run = id.0, error = error.sentence(), "The wait for a run was broken off.");
            }
        }
    }
    Ok((if answer.ended { StatusCode::OK } else { StatusCode::ACCEPTED }, Json(answer)))
}

async fn send(flow: &Flow, request: &StartRequest, actor: &str) -> Result<RunId, Error> {
    let null = RawValue::NULL.to_owned();
    let mut start = flow.start(&request.definition, request.input.as_ref().unwrap_or(&null)).actor(actor);
    if let Some(key) = &request.key {
        start = start.key(key);
    }
    if let Some(seconds) = request.key_window_seconds {
        let seconds = within("keyWindowSeconds", seconds, 1, KEY_WINDOW_SECONDS_MAX)?;
        start = start.key_window(Duration::from_secs(seconds));
    }
    if let Some(version) = request.version {
        start = start.version(version);
    }
    if let Some(lane) = request.priority {
        start = start.priority(match within("priority", lane.into(), 0, 3)? {
            0 => Priority::Urgent,
            1 => Priority::High,
            2 => Priority::Normal,
            _ => Priority::Low,
        });
    }
    if let Some(tags) = &request.tags {
        start = start.tags(tags.clone().into());
    }
    Ok(start.send().await?.id())
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct AtQuery {
    /// Not as it is now, but as it was at this time.
    #[serde(default, deserialize_with = "moment")]
    #[param(value_type = Option<String>, format = DateTime)]
    at: Option<DateTime<Utc>>,
}

/// A run with its steps.
#[derive(Serialize, ToSchema)]
struct RunAnswer {
    /// Has it ended?
    ended: bool,
    run: RunView,
    /// Its steps, parents before children.
    steps: Vec<StepView>,
}

/// Look at a run; with `wait`, when it has ended.
///
/// The wait ends with the time that it was given, and the answer is the run as it is then. However many wait, nothing is asked of the database
/// while nothing ends. With `at` the run as it was at that time, worked out from its log.
#[utoipa::path(get, path = "/api/v1/flow/runs/{run}", tag = "flow", params(("run" = i64, Path, example = 7), AtQuery, WaitQuery), responses(
    (status = 200, description = "The run", body = RunAnswer), Missing, Refusals,
))]
async fn show(
    scope: Scope<Inspect>,
    Path(run): Path<RunId>,
    Query(at): Query<AtQuery>,
    Query(query): Query<WaitQuery>,
) -> Result<Json<RunAnswer>, Error> {
    let (wait, flow) = (query.time()?, scope.flow_of_run(run).await?);
    if let Some(at) = at.at {
        if wait.is_some() {
            return Err(Error::bad("both at and wait were sent; what was at a time does not change"));
        }
        let before =
            || Error::missing(format!("there is no run {run}, or it was not started yet at {}", micros(at)));
        return Ok(Json(flow.run_at(run, at).await?.ok_or_else(before)?.into()));
    }
    let found = flow.show_run(run).await?.ok_or_else(|| missing(run))?;
    let Some(wait) = wait.filter(|_| !found.run.state.has_ended()) else { return Ok(Json(found.into())) };
    until_ended(&scope, flow, run, wait).await?;
    Ok(Json(flow.show_run(run).await?.ok_or_else(|| missing(run))?.into()))
}

impl From<RunDetail> for RunAnswer {
    fn from(detail: RunDetail) -> Self {
        let ended = detail.run.state.has_ended();
        let steps = detail.steps.into_iter().map(StepView::from).collect();
        Self { ended, run: detail.run.into(), steps }
    }
}

/// Waits for the end of a run; `None`: it has not ended in time, or the server stops. When the client goes, this future is dropped, and nobody waits.
async fn until_ended<N: Need>(
    scope: &Scope<N>,
    flow: &Flow,
    run: RunId,
    wait: Duration,
) -> Result<Option<Run>, Error> {
    let handle = flow.handle(run);
    let ended = tokio::select! {
        ended = handle.wait_within(scope.wait_within(wait)) => ended?,
        () = scope.app().stopping().cancelled() => None,
        error = scope.is_revoked() => return Err(error),
    };
    if ended.is_none() {
        scope.check_time()?;
    }
    Ok(ended)
}

pub(super) fn missing(run: RunId) -> Error {
    Error::missing(format!("there is no run {run}, or no longer; use the number that its start answered"))
}
