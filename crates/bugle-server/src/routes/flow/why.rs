//! What the steps of a run wait for.

use super::runs::missing;
use super::{Missing, Refusals, scoped};
use crate::access::{Inspect, Scope};
use crate::answer::micros;
use crate::app::App;
use crate::error::Error;
use crate::params::Path;
use axum::Json;
use bugle::flow::RunId;
use bugle::flow::inspect::StepWhy;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(scoped!(why))
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct WhyAnswer {
    id: i64,
    definition: String,
    state: &'static str,
    paused: bool,
    /// The database's clock.
    now: String,
    /// Its steps that have not ended; none of a run that has.
    waits: Vec<WhyView>,
    /// Somebody is seen who ends sleeps and matches signals; null: nothing of this run waits for that.
    engine_seen: Option<bool>,
}

/// A step that has not ended, or some elements of a map for which the same is true.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct WhyView {
    step: String,
    /// `task`, `map`, `decision`, `sleep` or `signal`.
    kind: String,
    /// How many elements of a map this is about; null: it is about the step itself.
    elements: Option<i64>,
    /// The first of them, from 1; 0: it is about the step itself.
    element: i32,
    /// `pending`, `ready`, `running` or `waiting`.
    state: String,
    since: String,
    /// `parents`, `at_once`, `elements`, `backoff`, `signal`, `sleep`, `run_paused`, `queue_paused`, `no_worker`, `unclaimed`, `running`, `put_off` or
    /// `lease_ended`; there may be others later.
    reason: String,
    /// What there is to say about it, such as `missing`, `until`, `key`, `queue` or `workers`.
    #[schema(value_type = Object)]
    details: Map<String, Value>,
}

impl From<StepWhy> for WhyView {
    fn from(why: StepWhy) -> Self {
        // As the library writes it, whatever reasons are added there: the name of the reason, and its fields.
        let mut details = match serde_json::to_value(&why.reason) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        let reason = details.remove("reason").and_then(|reason| reason.as_str().map(str::to_owned));
        Self {
            step: why.step,
            kind: why.kind,
            elements: why.elements,
            element: why.element,
            state: why.state,
            since: micros(why.since),
            reason: reason.unwrap_or_default(),
            details: details.into_iter().map(|(name, value)| (camel(&name), value)).collect(),
        }
    }
}

/// `lease_until` as `leaseUntil`.
fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let mut camel = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

/// Say of each step that is not running why not.
#[utoipa::path(get, path = "/api/v1/flow/runs/{run}/why", tag = "flow", params(("run" = i64, Path, example = 7)), responses(
    (status = 200, description = "What each step waits for", body = WhyAnswer), Missing, Refusals,
))]
async fn why(scope: Scope<Inspect>, Path(run): Path<RunId>) -> Result<Json<WhyAnswer>, Error> {
    let why = scope.flow_of_run(run).await?.why(run).await?.ok_or_else(|| missing(run))?;
    Ok(Json(WhyAnswer {
        id: why.run.id.0,
        definition: why.run.definition,
        state: why.run.state.as_str(),
        paused: why.run.paused,
        now: micros(why.now),
        waits: why.waits.into_iter().map(WhyView::from).collect(),
        engine_seen: why.engine_seen,
    }))
}
