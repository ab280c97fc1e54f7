//! Pushing messages.

use super::{Refusals, scoped};
use crate::access::{Push, Scope};
use crate::app::App;
use crate::body::Body;
use crate::error::Error;
use axum::Json;
use axum::http::StatusCode;
use bugle::broker::{Message, Pushed};
use bugle::limits::PUSH_MESSAGES_MAX;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use uuid::Uuid;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(scoped!(push))
}

#[derive(Deserialize, ToSchema)]
struct PushRequest {
    /// The messages, at most 10,000.
    items: Option<Vec<PushItem>>,
}

/// A message to be pushed.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PushItem {
    /// Its queue, made if it is not there.
    pub(super) queue: String,
    /// Its partition, made if it is not there; not sent: `Default`.
    partition: Option<String>,
    /// Any JSON; not sent: null.
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<Box<RawValue>>,
    /// The same id in the same partition is the same message, for a day at least.
    transaction_id: Option<String>,
    /// A UUID that the message carries.
    trace_id: Option<String>,
}

impl PushItem {
    /// The id that the caller gave it.
    pub(super) fn key(&self) -> Option<&str> {
        self.transaction_id.as_deref()
    }

    /// Checks it.
    pub(super) fn message(self, subject: Option<&str>) -> Result<Message, Error> {
        let payload = self.payload.unwrap_or_else(|| RawValue::NULL.to_owned());
        let mut message = Message::new(&self.queue, payload)?;
        if let Some(partition) = self.partition {
            message = message.partition(&partition)?;
        }
        if let Some(key) = self.transaction_id {
            message = message.key(&key)?;
        }
        if let Some(trace) = self.trace_id {
            let parsed = Uuid::parse_str(&trace);
            let trace =
                parsed.map_err(|error| Error::bad(format!("traceId {trace:?} is no UUID: {error}")))?;
            message = message.trace(trace);
        }
        if let Some(subject) = subject {
            message = message.pushed_by(subject)?;
        }
        Ok(message)
    }
}

/// What became of one message.
#[derive(Serialize, ToSchema)]
struct PushAnswer {
    index: usize,
    /// `queued`, `duplicate` or `failed`.
    status: &'static str,
    /// Its id; of a duplicate, that of the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<Uuid>,
    /// The id that it was pushed with, or its message id.
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition_id: Option<Uuid>,
    /// null without one; left out of what was not pushed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[allow(clippy::option_option)] // the wire tells both from each other
    trace_id: Option<Option<String>>,
    #[serde(rename = "queueName")]
    queue_name: String,
    /// Why it failed. The others were pushed without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What is repeated in the answer.
struct Asked {
    queue: String,
    key: Option<String>,
    trace: Option<String>,
}

impl Asked {
    fn answer(self, index: usize, pushed: Result<Pushed, &Error>) -> PushAnswer {
        let mut answer = PushAnswer {
            index,
            status: "failed",
            message_id: None,
            transaction_id: self.key,
            partition_id: None,
            trace_id: None,
            queue_name: self.queue,
            error: None,
        };
        match pushed {
            Ok(pushed) => {
                answer.message_id = Some(pushed.id);
                answer.transaction_id.get_or_insert_with(|| pushed.id.to_string());
                answer.status = "duplicate";
                if pushed.seq.is_some() {
                    answer.status = "queued";
                    answer.partition_id = Some(pushed.partition.uuid());
                    answer.trace_id = Some(self.trace);
                }
            }
            Err(error) => answer.error = Some(error.sentence().to_owned()),
        }
        answer
    }
}

/// Push messages.
///
/// Answered when they have been committed, in their order. One that cannot be pushed fails alone; when none can, the first one's error is the answer.
#[utoipa::path(post, path = "/api/v1/push", tag = "messages", request_body = PushRequest, responses(
    (status = 201, description = "What became of each", body = Vec<PushAnswer>),
    (status = 409, description = "The queue holds jobs", body = crate::error::Failed),
    (status = 429, description = "The queue is full", body = crate::error::Failed),
    Refusals,
))]
async fn push(
    scope: Scope<Push>,
    Body(request): Body<PushRequest>,
) -> Result<(StatusCode, Json<Vec<PushAnswer>>), Error> {
    scope.app().refused().check_push()?;
    let items = request.items.ok_or_else(|| Error::bad("items array is required"))?;
    if items.len() > PUSH_MESSAGES_MAX {
        let sentence = format!("items are {}, over the limit of {PUSH_MESSAGES_MAX}", items.len());
        return Err(Error::bad(format!("{sentence}; push them in several requests")));
    }
    let (mut asked, mut results, mut messages) = (Vec::new(), Vec::new(), Vec::new());
    for (index, item) in items.into_iter().enumerate() {
        let (queue, key, trace) = (item.queue.clone(), item.transaction_id.clone(), item.trace_id.clone());
        let checked = scope.on(&queue).and_then(|_| item.message(scope.subject()));
        asked.push(Asked { queue, key, trace });
        match checked {
            Ok(message) => {
                messages.push(message);
                results.push(None);
            }
            Err(error) => results.push(Some(Err(error.at(&format!("items[{index}]"))))),
        }
    }
    if !messages.is_empty() {
        let mut pushed = scope.seen().push(messages).await?.into_iter();
        for (index, result) in results.iter_mut().enumerate().filter(|(_, result)| result.is_none()) {
            *result =
                pushed.next().map(|pushed| pushed.map_err(|e| Error::from(e).at(&format!("items[{index}]"))));
        }
    }
    let results: Vec<Result<Pushed, Error>> = results.into_iter().flatten().collect();
    if let Some(Err(first)) = results.first()
        && results.iter().all(Result::is_err)
    {
        return Err(first.clone());
    }
    let meter = scope.app().meter();
    for pushed in results.iter().flatten() {
        if pushed.seq.is_some() { meter.pushed.one() } else { meter.duplicates.one() }
    }
    let answers = asked.into_iter().zip(&results).enumerate();
    let answers =
        answers.map(|(index, (asked, result))| asked.answer(index, result.as_ref().copied())).collect();
    Ok((StatusCode::CREATED, Json(answers)))
}
