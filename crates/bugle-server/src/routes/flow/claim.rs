//! Claiming steps: what a worker in any language begins with.

use super::wait::WaitQuery;
use super::{Refusals, scoped};
use crate::access::{Pop, Scope};
use crate::answer::micros;
use crate::app::App;
use crate::body::OptionalBody;
use crate::error::{Error, Failed};
use crate::params::{Path, Query};
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use bugle::flow::{Claim, ClaimedStep};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::time::Duration;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

/// How long a claim holds that does not say.
const LEASE_MILLISECONDS: u64 = 30_000;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(scoped!(claim))
}

/// Who claims.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClaimRequest {
    /// The worker's name, for people; not sent: the caller's.
    #[schema(min_length = 1, max_length = 255)]
    worker: Option<String>,
    /// Most steps; not sent: 1. They are under one lease: renewing one renews all.
    #[schema(minimum = 1, maximum = 100)]
    most: Option<u32>,
    /// How long they are its without a renewal; not sent: 30,000.
    #[schema(minimum = 100, maximum = 86_400_000)]
    lease_millis: Option<u64>,
}

#[derive(Serialize, ToSchema)]
struct ClaimAnswer {
    steps: Vec<ClaimView>,
}

/// A step in a worker's hands.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ClaimView {
    /// What ends it: to be sent back as it is.
    receipt: String,
    run: i64,
    /// The step's name.
    step: String,
    /// What is to be done: the handler that the definition names, or the step's name.
    handler: String,
    definition: String,
    version: i32,
    /// Which element of a map, from 1; 0: the step itself.
    element: i32,
    /// Which attempt this is, counted from 1.
    attempt: u16,
    /// How many it has.
    attempts: u16,
    /// How long an attempt may take: the worker's to see to. Beyond it the lease is not renewed.
    timeout_millis: Option<u64>,
    /// When the lease ends unless it is renewed.
    lease_until: String,
    /// The same in every attempt of this step, and no other step's: for services that take one.
    idempotency_key: String,
    /// What the run was started with.
    #[schema(value_type = serde_json::Value)]
    input: Option<Box<RawValue>>,
    /// The outputs of the parents that succeeded, by their names.
    #[schema(value_type = Option<Object>)]
    outputs: Option<Box<RawValue>>,
    /// Of a map: the element of the list that this is about.
    #[schema(value_type = serde_json::Value)]
    item: Option<Box<RawValue>>,
    /// What an earlier attempt has kept.
    #[schema(value_type = serde_json::Value)]
    checkpoint: Option<Box<RawValue>>,
}

impl From<ClaimedStep> for ClaimView {
    fn from(step: ClaimedStep) -> Self {
        Self {
            receipt: step.receipt.to_string(),
            run: step.run.0,
            step: step.name,
            handler: step.handler,
            definition: step.definition,
            version: step.version,
            element: step.index,
            attempt: step.attempt,
            attempts: step.attempts,
            timeout_millis: step.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            lease_until: micros(step.lease_until),
            idempotency_key: step.idempotency_key,
            input: step.input,
            outputs: step.outputs,
            item: step.element,
            checkpoint: step.checkpoint,
        }
    }
}

/// Claim steps of a queue (worker set), waiting if told to.
///
/// Each step goes to one of those who wait for it. A queue that is not there is waited for. When the client goes, what was claimed for it is handed
/// back at once.
#[utoipa::path(post, path = "/api/v1/flow/queues/{queue}/claim", tag = "flow workers", params(("queue" = String, Path, example = "steps"), WaitQuery),
    request_body(content = Option<ClaimRequest>, example = json!({"worker": "packer-1", "most": 1, "leaseMillis": 30_000})), responses(
    (status = 200, description = "Steps, leased to the caller", body = ClaimAnswer),
    (status = 204, description = "There are none"),
    (status = 409, description = "The queue holds something else", body = Failed),
    Refusals,
))]
async fn claim(
    scope: Scope<Pop>,
    Path(queue): Path<String>,
    Query(query): Query<WaitQuery>,
    OptionalBody(request): OptionalBody<ClaimRequest>,
) -> Result<Response, Error> {
    let (wait, flow) = (query.time()?, scope.flow_on("queue", &queue)?);
    let worker = request.worker.as_deref().unwrap_or(scope.actor());
    let lease = Duration::from_millis(request.lease_millis.unwrap_or(LEASE_MILLISECONDS));
    let claim = Claim::new(worker)?.most(request.most.unwrap_or(1))?.lease(lease);
    let queue = flow.queue(&queue).await?;
    let steps = match wait {
        None => queue.claim(&claim).await?,
        Some(wait) => {
            let steps = tokio::select! {
                steps = queue.claim_within(&claim, scope.wait_within(wait)) => steps?,
                () = scope.app().stopping().cancelled() => Vec::new(),
                error = scope.is_revoked() => return Err(error),
            };
            if steps.is_empty() {
                scope.check_time()?;
            }
            steps
        }
    };
    Ok(if steps.is_empty() {
        StatusCode::NO_CONTENT.into_response()
    } else {
        Json(ClaimAnswer { steps: steps.into_iter().map(ClaimView::from).collect() }).into_response()
    })
}
