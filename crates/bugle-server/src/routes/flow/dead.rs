//! Runs that failed.

use super::lists::PageQuery;
use super::view::RunView;
use super::{Missing, Refusals, scoped};
use crate::access::{Inspect, Scope};
use crate::answer::micros;
use crate::app::App;
use crate::error::Error;
use crate::params::{Path, Query};
use axum::Json;
use bugle::flow::RunId;
use bugle::flow::inspect::{DeadRun, FailedAttempt, FailedStep};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(scoped!(list)).routes(scoped!(show))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct DeadQuery {
    /// Only of this definition.
    definition: Option<String>,
}

/// A run that failed, and why.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DeadView {
    id: i64,
    definition: String,
    version: i32,
    key: Option<String>,
    created_at: String,
    ended_at: String,
    /// The step that failed first; null: the run's deadline ended it.
    step: Option<String>,
    /// Of a map: which of its elements failed first, from 1; otherwise 0.
    element: i32,
    /// The short name of the error.
    code: String,
    message: String,
    attempt: Option<i16>,
    attempts: Option<i16>,
    worker: Option<String>,
    /// How many steps failed that nothing in the definition sees to.
    steps_failed: i32,
}

impl From<DeadRun> for DeadView {
    fn from(run: DeadRun) -> Self {
        Self {
            id: run.id.0,
            definition: run.definition,
            version: run.version,
            key: run.key,
            created_at: micros(run.created_at),
            ended_at: micros(run.ended_at),
            step: run.step,
            element: run.element,
            code: run.code,
            message: run.message,
            attempt: run.attempt,
            attempts: run.attempts,
            worker: run.worker,
            steps_failed: run.steps_failed,
        }
    }
}

#[derive(Serialize, ToSchema)]
struct DeadRunsAnswer {
    runs: Vec<DeadView>,
    /// Where the next page begins; null: this is the last one.
    next: Option<String>,
}

/// Runs that failed, the last to fail first.
#[utoipa::path(get, path = "/api/v1/flow/dead", tag = "flow", params(DeadQuery, PageQuery), responses(
    (status = 200, description = "Those that the caller may see", body = DeadRunsAnswer), Refusals,
))]
async fn list(
    scope: Scope<Inspect>,
    Query(query): Query<DeadQuery>,
    Query(page): Query<PageQuery>,
) -> Result<Json<DeadRunsAnswer>, Error> {
    let definition = query.definition.as_deref().filter(|definition| !definition.is_empty());
    let rows = scope.flow_seen().list_dead(definition, page.after()?, page.limit()?).await?;
    let next = page.next(&rows, DeadRun::mark);
    let seen = rows.into_iter().filter(|row| scope.sees(&row.definition));
    Ok(Json(DeadRunsAnswer { runs: seen.map(DeadView::from).collect(), next }))
}

/// A step that failed, and what it had before it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct FailedView {
    step: String,
    element: i32,
    code: Option<String>,
    message: Option<String>,
    attempt: i16,
    attempts: i16,
    worker: Option<String>,
    failed_at: String,
    /// The definition says what to do about it, so that the run did not fail for it.
    is_seen_to: bool,
    /// What an attempt had kept for the next one.
    checkpoint: Option<Value>,
    /// Of an element: the value that it was for.
    item: Option<Value>,
    /// What its parents had brought about, by their names.
    outputs: Value,
}

impl From<FailedStep> for FailedView {
    fn from(step: FailedStep) -> Self {
        Self {
            step: step.step,
            element: step.element,
            code: step.code,
            message: step.message,
            attempt: step.attempt,
            attempts: step.attempts,
            worker: step.worker,
            failed_at: micros(step.failed_at),
            is_seen_to: step.is_seen_to,
            checkpoint: step.checkpoint,
            item: step.value,
            outputs: step.parents,
        }
    }
}

/// An attempt that failed.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct AttemptView {
    step: String,
    element: i32,
    failed_at: String,
    attempt: i16,
    worker: Option<String>,
    code: Option<String>,
    message: Option<String>,
}

impl From<FailedAttempt> for AttemptView {
    fn from(attempt: FailedAttempt) -> Self {
        Self {
            step: attempt.step,
            element: attempt.element,
            failed_at: micros(attempt.failed_at),
            attempt: attempt.attempt,
            worker: attempt.worker,
            code: attempt.code,
            message: attempt.message,
        }
    }
}

#[derive(Serialize, ToSchema)]
struct DeadRunAnswer {
    run: RunView,
    /// The first hundred.
    failed: Vec<FailedView>,
    /// The first hundred.
    attempts: Vec<AttemptView>,
}

/// A run that failed, with what its failed steps had before them.
#[utoipa::path(get, path = "/api/v1/flow/dead/{run}", tag = "flow", params(("run" = i64, Path, example = 7)), responses(
    (status = 200, description = "All that is needed to see why", body = DeadRunAnswer), Missing, Refusals,
))]
async fn show(scope: Scope<Inspect>, Path(run): Path<RunId>) -> Result<Json<DeadRunAnswer>, Error> {
    let dead = scope.flow_of_run(run).await?.show_dead(run).await?;
    let dead = dead.ok_or_else(|| Error::missing(format!("there is no run {run} that has failed")))?;
    Ok(Json(DeadRunAnswer {
        run: dead.run.into(),
        failed: dead.failed.into_iter().map(FailedView::from).collect(),
        attempts: dead.attempts.into_iter().map(AttemptView::from).collect(),
    }))
}
