//! What a worker says about a step that it holds. Whoever has lost it is answered 409, with who has it now and what to do.

use super::{Refusals, scoped};
use crate::access::{Pop, Scope};
use crate::answer::micros;
use crate::app::App;
use crate::body::Body;
use crate::error::{Error, Failed};
use crate::params::within;
use axum::Json;
use bugle::Verdict;
use bugle::flow::{StepEnd, StepQueue, StepReceipt};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::time::Duration;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

/// Longest wait before the next attempt.
const DELAY_MILLISECONDS_MAX: u64 = 100 * 8_766 * 60 * 60 * 1_000;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(scoped!(renew))
        .routes(scoped!(save))
        .routes(scoped!(complete))
        .routes(scoped!(fail))
        .routes(scoped!(release))
}

/// Which step.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Held {
    /// As the claim answered it.
    receipt: String,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct RenewAnswer {
    /// When the lease ends unless it is renewed again.
    lease_until: String,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct SaveRequest {
    /// As the claim answered it.
    receipt: String,
    /// How far the step has come, for its next attempt: any JSON, at most 256 KiB; not sent: as it is.
    #[schema(value_type = Option<serde_json::Value>)]
    checkpoint: Option<Box<RawValue>>,
    /// The same for people.
    #[schema(value_type = Option<serde_json::Value>)]
    progress: Option<Box<RawValue>>,
}

#[derive(Serialize, ToSchema)]
struct SaveAnswer {
    saved: bool,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CompleteRequest {
    /// As the claim answered it.
    receipt: String,
    /// What came of it, the step's output: any JSON, at most 256 KiB; not sent: null.
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<Box<RawValue>>,
    /// Instead, of a decision: the names of the steps that shall run.
    choices: Option<Vec<String>>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FailRequest {
    /// As the claim answered it.
    receipt: String,
    /// A short name of the error, for grouping; not sent: `failed`. At most 100 bytes are kept.
    code: Option<String>,
    /// The error in words, of which at most 4,000 bytes are kept.
    message: Option<String>,
    /// May it be tried again? Not sent: yes, for as long as there are attempts.
    retryable: Option<bool>,
    /// When, in milliseconds; not sent: as the definition says.
    #[schema(minimum = 0, maximum = 3_155_760_000_000_u64)]
    delay_millis: Option<u64>,
}

/// What the step is now.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct EndAnswer {
    /// `succeeded`, `failed`, `waiting` (for its next attempt) or `ready` (given back).
    state: String,
    /// When its next attempt is due, if it waits for one.
    due_at: Option<String>,
    /// Why it failed or waits, in words.
    message: Option<String>,
    /// The same receipt had said so before: nothing more has happened.
    repeated: bool,
}

impl From<StepEnd> for EndAnswer {
    fn from(end: StepEnd) -> Self {
        Self {
            state: end.state,
            due_at: end.due_at.map(micros),
            message: end.message,
            repeated: end.was_ended,
        }
    }
}

/// The receipt, and the queue that it is for, if the caller may work there.
async fn held(scope: &Scope<Pop>, receipt: &str) -> Result<(StepQueue, StepReceipt), Error> {
    let receipt: StepReceipt = receipt.parse()?;
    let flow = scope.flow_on("queue", receipt.queue())?;
    Ok((flow.queue(receipt.queue()).await?, receipt))
}

/// Keep a step for as long again as it was claimed for.
///
/// With all that was claimed with it. 409: stop working on it.
#[utoipa::path(post, path = "/api/v1/flow/steps/renew", tag = "flow workers", request_body(content = Held, example = json!({"receipt": "step1...."})), responses(
    (status = 200, description = "Until when it is the caller's", body = RenewAnswer, example = json!({"leaseUntil": "2026-01-31T13:30:00.000000Z"})),
    (status = 409, description = "The step was taken over, cancelled, or has run for too long", body = Failed), Refusals,
))]
async fn renew(scope: Scope<Pop>, Body(request): Body<Held>) -> Result<Json<RenewAnswer>, Error> {
    let (queue, receipt) = held(&scope, &request.receipt).await?;
    Ok(Json(RenewAnswer { lease_until: micros(queue.renew(&receipt).await?) }))
}

/// Keep how far a step has come: a checkpoint for its next attempt, progress for people.
#[utoipa::path(post, path = "/api/v1/flow/steps/checkpoint", tag = "flow workers",
    request_body(content = SaveRequest, example = json!({"receipt": "step1....", "checkpoint": {"page": 3}, "progress": "30 %"})), responses(
    (status = 200, description = "It is kept", body = SaveAnswer, example = json!({"saved": true})),
    (status = 409, description = "The step is not the caller's any more", body = Failed), Refusals,
))]
async fn save(scope: Scope<Pop>, Body(request): Body<SaveRequest>) -> Result<Json<SaveAnswer>, Error> {
    let (queue, receipt) = held(&scope, &request.receipt).await?;
    queue.save(&receipt, request.checkpoint, request.progress).await?;
    Ok(Json(SaveAnswer { saved: true }))
}

/// Say that a step is done, and what came of it.
///
/// The steps after it begin. The same again, because an answer was lost, is answered as the first time.
#[utoipa::path(post, path = "/api/v1/flow/steps/complete", tag = "flow workers",
    request_body(content = CompleteRequest, example = json!({"receipt": "step1....", "result": {"paid": true}})), responses(
    (status = 200, description = "What the step is now: a decision for a step that is not its to choose has failed", body = EndAnswer,
        example = json!({"state": "succeeded", "dueAt": null, "message": null, "repeated": false})),
    (status = 409, description = "The step was taken over, or cancelled: nothing has happened", body = Failed), Refusals,
))]
async fn complete(scope: Scope<Pop>, Body(request): Body<CompleteRequest>) -> Result<Json<EndAnswer>, Error> {
    let (queue, receipt) = held(&scope, &request.receipt).await?;
    let verdict = match (request.result, request.choices) {
        (Some(_), Some(_)) => {
            return Err(Error::bad(
                "both result and choices were sent; send choices for a decision, and result otherwise",
            ));
        }
        (None, None) => Verdict::done_with(&()),
        (Some(result), None) => Verdict::done_with(&result),
        (None, Some(choices)) => Verdict::done_with(&choices),
    };
    // A handler in Rust has nobody left to tell; this caller can still send something smaller.
    if let Verdict::Dead { message, .. } = verdict {
        return Err(Error::bad(message));
    }
    Ok(Json(queue.settle(&receipt, verdict).await?.into()))
}

/// Say that an attempt has failed.
///
/// It is tried again as the definition says, or as this says, for as long as the step has attempts.
#[utoipa::path(post, path = "/api/v1/flow/steps/fail", tag = "flow workers",
    request_body(content = FailRequest, example = json!({"receipt": "step1....", "code": "timeout", "message": "the bank did not answer", "retryable": true, "delayMillis": 5_000})), responses(
    (status = 200, description = "What the step is now", body = EndAnswer,
        example = json!({"state": "waiting", "dueAt": "2026-01-31T13:30:00.000000Z", "message": "the bank did not answer", "repeated": false})),
    (status = 409, description = "The step was taken over, or cancelled: nothing has happened", body = Failed), Refusals,
))]
async fn fail(scope: Scope<Pop>, Body(request): Body<FailRequest>) -> Result<Json<EndAnswer>, Error> {
    let (queue, receipt) = held(&scope, &request.receipt).await?;
    let code = request.code.unwrap_or_else(|| "failed".to_owned());
    let message = request.message.unwrap_or_default();
    let verdict = match (request.retryable.unwrap_or(true), request.delay_millis) {
        (false, Some(_)) => {
            return Err(Error::bad("delayMillis was sent with retryable false; leave one of them out"));
        }
        (false, None) => Verdict::dead(code, message),
        (true, None) => Verdict::fail(code, message),
        (true, Some(millis)) => {
            let millis = within("delayMillis", millis, 0, DELAY_MILLISECONDS_MAX)?;
            Verdict::retry_in(Duration::from_millis(millis), code, message)
        }
    };
    Ok(Json(queue.settle(&receipt, verdict).await?.into()))
}

/// Give a step back untouched: ready at once for anybody, the attempt not counted.
#[utoipa::path(post, path = "/api/v1/flow/steps/release", tag = "flow workers", request_body(content = Held, example = json!({"receipt": "step1...."})), responses(
    (status = 200, description = "What the step is now", body = EndAnswer, example = json!({"state": "ready", "dueAt": null, "message": null, "repeated": false})),
    (status = 409, description = "The step is not the caller's any more", body = Failed), Refusals,
))]
async fn release(scope: Scope<Pop>, Body(request): Body<Held>) -> Result<Json<EndAnswer>, Error> {
    let (queue, receipt) = held(&scope, &request.receipt).await?;
    Ok(Json(queue.settle(&receipt, Verdict::Release).await?.into()))
}
