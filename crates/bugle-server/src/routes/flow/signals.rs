//! Signals to steps that wait for one.

use super::{Refusals, scoped};
use crate::access::{Push, Scope};
use crate::app::App;
use crate::body::Body;
use crate::error::Error;
use axum::Json;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(scoped!(signal))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct SignalRequest {
    /// The key that a step waits for.
    key: String,
    /// Any JSON, at most 256 KiB: the output of the step that gets it; not sent: null.
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<Box<RawValue>>,
}

#[derive(Serialize, ToSchema)]
struct SignalAnswer {
    key: String,
    accepted: bool,
}

/// Send a signal.
///
/// One step that waits for this key gets it, now or when it begins to wait. It needs the right for names that begin as the key does.
#[utoipa::path(post, path = "/api/v1/flow/signals", tag = "flow",
    request_body(content = SignalRequest, example = json!({"key": "approval:7", "payload": {"approved": true}})), responses(
    (status = 202, description = "It is kept until a step takes it", body = SignalAnswer, example = json!({"key": "approval:7", "accepted": true})),
    Refusals,
))]
async fn signal(
    scope: Scope<Push>,
    Body(request): Body<SignalRequest>,
) -> Result<(StatusCode, Json<SignalAnswer>), Error> {
    let flow = scope.flow_on("signal", &request.key)?;
    let payload = request.payload.unwrap_or_else(|| RawValue::NULL.to_owned());
    flow.signal(&request.key, &payload, Some(scope.actor())).await?;
    Ok((StatusCode::ACCEPTED, Json(SignalAnswer { key: request.key, accepted: true })))
}
