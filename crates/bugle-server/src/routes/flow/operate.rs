//! What people do with runs and steps. The log says who did it: the name of the API key, or the subject of the token.

use super::runs::missing;
use super::{Missing, Refusals, scoped};
use crate::access::{Admin, Scope};
use crate::app::App;
use crate::body::OptionalBody;
use crate::error::{Error, Failed};
use crate::limits::REASON_BYTES_MAX;
use crate::params::Path;
use axum::Json;
use bugle::flow::{By, RunId};
use bugle::jobs::enqueue::check_payload;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(scoped!(cancel))
        .routes(scoped!(pause))
        .routes(scoped!(resume))
        .routes(scoped!(retry))
        .routes(scoped!(resolve))
        .routes(scoped!(skip))
        .routes(scoped!(restart))
}

/// Why it is done.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Why {
    /// For the log, at most 4,000 bytes.
    reason: Option<String>,
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RetryRequest {
    /// Which element of a map, from 1; not sent: the step itself.
    #[schema(minimum = 0)]
    element: Option<i32>,
    /// For the log, at most 4,000 bytes.
    reason: Option<String>,
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ResolveRequest {
    /// What the step shall have brought about: any JSON, at most 256 KiB; not sent: null.
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<Box<RawValue>>,
    /// For the log, at most 4,000 bytes.
    reason: Option<String>,
}

/// Whether something has changed.
#[derive(Serialize, ToSchema)]
struct ChangeAnswer {
    /// false: it was so already, or the run has ended.
    changed: bool,
}

/// What a step was.
#[derive(Serialize, ToSchema)]
struct WasAnswer {
    /// The state that the step was in.
    was: String,
}

#[derive(Serialize, ToSchema)]
struct RestartAnswer {
    /// How many steps begin anew.
    steps: i32,
}

/// Who does it, and why.
fn by<'a>(scope: &'a Scope<Admin>, reason: Option<&'a str>) -> Result<By<'a>, Error> {
    if let Some(reason) = reason
        && (reason.len() > REASON_BYTES_MAX || reason.contains('\0'))
    {
        let bytes = reason.len();
        return Err(Error::bad(format!(
            "reason is {bytes} bytes long, or contains a zero; use at most {REASON_BYTES_MAX} bytes"
        )));
    }
    Ok(By { actor: Some(scope.actor()), reason })
}

/// End a run: nothing of it begins any more, and whoever runs a step of it is told to stop.
#[utoipa::path(post, path = "/api/v1/flow/runs/{run}/cancel", tag = "flow", params(("run" = i64, Path, example = 7)),
    request_body(content = Option<Why>, example = json!({"reason": "ordered twice"})), responses(
    (status = 200, description = "Whether it had not ended", body = ChangeAnswer, example = json!({"changed": true})), Missing, Refusals,
))]
async fn cancel(
    scope: Scope<Admin>,
    Path(run): Path<RunId>,
    OptionalBody(why): OptionalBody<Why>,
) -> Result<Json<ChangeAnswer>, Error> {
    let by = by(&scope, why.reason.as_deref())?;
    let flow = scope.flow_of_run(run).await?;
    let changed = flow.cancel(run, by).await?;
    if !changed && flow.show(run).await?.is_none() {
        return Err(missing(run));
    }
    Ok(Json(ChangeAnswer { changed }))
}

/// Pause a run: nothing of it begins; what runs goes on and is settled.
#[utoipa::path(post, path = "/api/v1/flow/runs/{run}/pause", tag = "flow", params(("run" = i64, Path, example = 7)),
    request_body(content = Option<Why>, example = json!({"reason": "the bank is down"})), responses(
    (status = 200, description = "Whether it was not paused", body = ChangeAnswer, example = json!({"changed": true})), Missing, Refusals,
))]
async fn pause(
    scope: Scope<Admin>,
    Path(run): Path<RunId>,
    OptionalBody(why): OptionalBody<Why>,
) -> Result<Json<ChangeAnswer>, Error> {
    let by = by(&scope, why.reason.as_deref())?;
    Ok(Json(ChangeAnswer { changed: scope.flow_of_run(run).await?.pause(run, by).await? }))
}

/// Let a paused run go on.
#[utoipa::path(post, path = "/api/v1/flow/runs/{run}/resume", tag = "flow", params(("run" = i64, Path, example = 7)),
    request_body(content = Option<Why>, example = json!({"reason": "the bank is back"})), responses(
    (status = 200, description = "Whether it was paused", body = ChangeAnswer, example = json!({"changed": true})), Missing, Refusals,
))]
async fn resume(
    scope: Scope<Admin>,
    Path(run): Path<RunId>,
    OptionalBody(why): OptionalBody<Why>,
) -> Result<Json<ChangeAnswer>, Error> {
    let by = by(&scope, why.reason.as_deref())?;
    Ok(Json(ChangeAnswer { changed: scope.flow_of_run(run).await?.resume(run, by).await? }))
}

/// Try a step again that failed or waits for its next attempt, with all its attempts anew.
///
/// What was skipped because of it waits for it again.
#[utoipa::path(post, path = "/api/v1/flow/runs/{run}/steps/{step}/retry", tag = "flow",
    params(("run" = i64, Path, example = 7), ("step" = String, Path, example = "charge")),
    request_body(content = Option<RetryRequest>, example = json!({"reason": "the bank is back"})), responses(
    (status = 200, description = "It is tried again", body = WasAnswer, example = json!({"was": "failed"})),
    (status = 409, description = "It has not failed, or steps after it have begun", body = Failed), Missing, Refusals,
))]
async fn retry(
    scope: Scope<Admin>,
    Path((run, step)): Path<(RunId, String)>,
    OptionalBody(request): OptionalBody<RetryRequest>,
) -> Result<Json<WasAnswer>, Error> {
    let by = by(&scope, request.reason.as_deref())?;
    let flow = scope.flow_of_run(run).await?;
    Ok(Json(WasAnswer { was: flow.retry(run, &step, request.element.unwrap_or(0), by).await? }))
}

/// End a step by hand as if it had succeeded, with this output.
#[utoipa::path(post, path = "/api/v1/flow/runs/{run}/steps/{step}/resolve", tag = "flow",
    params(("run" = i64, Path, example = 7), ("step" = String, Path, example = "charge")),
    request_body(content = Option<ResolveRequest>, example = json!({"output": {"paid": "in cash"}, "reason": "paid at the counter"})), responses(
    (status = 200, description = "It has succeeded", body = WasAnswer, example = json!({"was": "failed"})),
    (status = 409, description = "It has succeeded before, or steps after it have begun", body = Failed), Missing, Refusals,
))]
async fn resolve(
    scope: Scope<Admin>,
    Path((run, step)): Path<(RunId, String)>,
    OptionalBody(request): OptionalBody<ResolveRequest>,
) -> Result<Json<WasAnswer>, Error> {
    let by = by(&scope, request.reason.as_deref())?;
    let flow = scope.flow_of_run(run).await?;
    let output = request.output.unwrap_or_else(|| RawValue::NULL.to_owned());
    let output = check_payload(output).map_err(|error| Error::from(error).at("output"))?;
    let output =
        serde_json::from_str(output.get()).map_err(|error| Error::bad(format!("output: {error}")))?;
    Ok(Json(WasAnswer { was: flow.resolve(run, &step, output, by).await? }))
}

/// End a step by hand as skipped.
#[utoipa::path(post, path = "/api/v1/flow/runs/{run}/steps/{step}/skip", tag = "flow",
    params(("run" = i64, Path, example = 7), ("step" = String, Path, example = "charge")),
    request_body(content = Option<Why>, example = json!({"reason": "a gift"})), responses(
    (status = 200, description = "It is skipped", body = WasAnswer, example = json!({"was": "waiting"})),
    (status = 409, description = "It has ended, or steps after it have begun", body = Failed), Missing, Refusals,
))]
async fn skip(
    scope: Scope<Admin>,
    Path((run, step)): Path<(RunId, String)>,
    OptionalBody(why): OptionalBody<Why>,
) -> Result<Json<WasAnswer>, Error> {
    let by = by(&scope, why.reason.as_deref())?;
    Ok(Json(WasAnswer { was: scope.flow_of_run(run).await?.skip(run, &step, by).await? }))
}

/// Run a step and all that comes after it once more, whatever became of them.
#[utoipa::path(post, path = "/api/v1/flow/runs/{run}/steps/{step}/restart", tag = "flow",
    params(("run" = i64, Path, example = 7), ("step" = String, Path, example = "charge")),
    request_body(content = Option<Why>, example = json!({"reason": "the price was wrong"})), responses(
    (status = 200, description = "They run again", body = RestartAnswer, example = json!({"steps": 2})),
    (status = 409, description = "It has not begun", body = Failed), Missing, Refusals,
))]
async fn restart(
    scope: Scope<Admin>,
    Path((run, step)): Path<(RunId, String)>,
    OptionalBody(why): OptionalBody<Why>,
) -> Result<Json<RestartAnswer>, Error> {
    let by = by(&scope, why.reason.as_deref())?;
    Ok(Json(RestartAnswer { steps: scope.flow_of_run(run).await?.restart(run, &step, by).await? }))
}
