//! Popping messages: claiming for a group, waiting if told to.

use super::{Refusals, scoped};
use crate::access::{self, Scope};
use crate::answer::{micros, payload};
use crate::app::App;
use crate::error::Error;
use crate::limits::POP_WAIT_MILLISECONDS_MAX;
use crate::params::{Get, Path, Query, parse_moment, switch, within};
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use bugle::broker::operate::Tags;
use bugle::broker::{Broker, Delivered, Pop, Popped, QUEUE_MODE, Start};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use uuid::Uuid;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(scoped!(pop_queue)).routes(scoped!(pop_partition)).routes(scoped!(pop_tagged))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", default)]
struct PopQuery {
    /// Most messages, of all partitions together.
    #[param(minimum = 1, maximum = 10_000, default = 1)]
    batch: u32,
    /// Wait until there is something?
    #[serde(deserialize_with = "switch")]
    #[param(required = false)]
    wait: bool,
    /// How long, in milliseconds.
    #[param(maximum = 86_400_000, default = 30_000)]
    timeout: u64,
    /// For this consumer group; not sent: the group of those who name none.
    consumer_group: Option<String>,
    /// Ack with the claim: what is not handled afterwards is lost.
    #[serde(deserialize_with = "switch")]
    #[param(required = false)]
    auto_ack: bool,
    /// Where a new group begins: `all` (the default) or `new`.
    subscription_mode: Option<String>,
    /// The same: `now`, or a time such as `2026-01-31T13:30:00Z`. It goes before the mode.
    subscription_from: Option<String>,
    /// Of up to so many partitions, under one lease.
    #[param(minimum = 1, maximum = 1_000, default = 1)]
    partitions: u32,
}

impl Default for PopQuery {
    fn default() -> Self {
        Self {
            batch: 1,
            wait: false,
            timeout: 30_000,
            consumer_group: None,
            auto_ack: false,
            subscription_mode: None,
            subscription_from: None,
            partitions: 1,
        }
    }
}

impl PopQuery {
    /// What it says about a pop.
    fn apply(&self, pop: Pop) -> Result<Pop, Error> {
        let group = self.consumer_group.as_deref().filter(|group| !group.is_empty()).unwrap_or(QUEUE_MODE);
        let pop = pop.group(group)?.most(self.batch)?.partitions(self.partitions)?;
        Ok(pop.auto_ack(self.auto_ack).start(self.start(group)?))
    }

    /// Consumers that name no group share one, which has read from the beginning whatever a late one of them says.
    fn start(&self, group: &str) -> Result<Start, Error> {
        if group == QUEUE_MODE {
            return Ok(Start::All);
        }
        match self.subscription_from.as_deref().filter(|from| !from.is_empty()) {
            Some("now") => return Ok(Start::New),
            Some(from) => {
                let at = parse_moment(from)
                    .map_err(|fault| Error::bad(format!("subscriptionFrom {fault}, or now")))?;
                return Ok(Start::From(at));
            }
            None => {}
        }
        let is_new = matches!(self.subscription_mode.as_deref(), Some("new" | "new-only"));
        Ok(if is_new { Start::New } else { Start::All })
    }

    fn wait(&self) -> Result<Duration, Error> {
        within("timeout", self.timeout, 0, POP_WAIT_MILLISECONDS_MAX).map(Duration::from_millis)
    }
}

/// Messages of one or more partitions, under one lease.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PopAnswer {
    success: bool,
    queue: String,
    /// The first message's.
    partition: String,
    partition_id: Uuid,
    /// Empty with autoAck.
    lease_id: String,
    consumer_group: String,
    partitions_claimed: usize,
    messages: Vec<PopMessage>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PopMessage {
    id: Uuid,
    transaction_id: String,
    trace_id: Option<Uuid>,
    /// The payload.
    #[schema(value_type = serde_json::Value)]
    data: Box<RawValue>,
    producer_sub: Option<String>,
    created_at: String,
    partition_id: Uuid,
    partition: String,
    lease_id: String,
    consumer_group: String,
    /// How often its claims have come to nothing.
    retry_count: i32,
}

impl PopAnswer {
    /// `None`: there is no message.
    fn of(popped: &Popped) -> Option<Self> {
        let first = popped.messages.first()?;
        let lease_id = if popped.auto_ack { String::new() } else { popped.token.to_string() };
        let consumer_group = popped.group.as_str().to_owned();
        let message = |message: &Delivered| PopMessage {
            id: message.id,
            transaction_id: message.key.clone().unwrap_or_else(|| message.id.to_string()),
            trace_id: message.trace,
            data: payload(&message.payload),
            producer_sub: message.sub.clone(),
            created_at: micros(message.at),
            partition_id: message.partition.uuid(),
            partition: message.partition_name.to_string(),
            lease_id: lease_id.clone(),
            consumer_group: consumer_group.clone(),
            retry_count: message.tries,
        };
        Some(Self {
            success: true,
            queue: popped.queue.as_str().to_owned(),
            partition: first.partition_name.to_string(),
            partition_id: first.partition.uuid(),
            partitions_claimed: popped.partitions().len(),
            messages: popped.messages.iter().map(message).collect(),
            lease_id: lease_id.clone(),
            consumer_group: consumer_group.clone(),
        })
    }
}

/// Pop from any partition of a queue.
///
/// One that is not there is waited for.
#[utoipa::path(get, path = "/api/v1/pop/queue/{queue}", tag = "messages", params(("queue" = String, Path), PopQuery), responses(
    (status = 200, description = "Messages, leased to the caller", body = PopAnswer),
    (status = 204, description = "There are none"),
    (status = 409, description = "The queue holds jobs", body = crate::error::Failed),
    Refusals,
))]
async fn pop_queue(
    scope: Scope<access::Pop>,
    _: Get,
    Path(queue): Path<String>,
    Query(query): Query<PopQuery>,
) -> Result<Response, Error> {
    let broker = scope.on(&queue)?;
    answer(&scope, broker, &query.apply(Pop::new(&queue)?)?, &query).await
}

/// Pop from one partition of a queue.
#[utoipa::path(get, path = "/api/v1/pop/queue/{queue}/partition/{partition}", tag = "messages",
    params(("queue" = String, Path), ("partition" = String, Path), PopQuery), responses(
    (status = 200, description = "Messages, leased to the caller", body = PopAnswer),
    (status = 204, description = "There are none"),
    (status = 409, description = "The queue holds jobs", body = crate::error::Failed),
    Refusals,
))]
async fn pop_partition(
    scope: Scope<access::Pop>,
    _: Get,
    Path((queue, partition)): Path<(String, String)>,
    Query(query): Query<PopQuery>,
) -> Result<Response, Error> {
    let broker = scope.on(&queue)?;
    answer(&scope, broker, &query.apply(Pop::new(&queue)?.partition(&partition)?)?, &query).await
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct TagsQuery {
    /// Of queues with this first tag.
    namespace: Option<String>,
    /// Of queues with this second tag.
    task: Option<String>,
}

/// Pop from whichever queue has these tags.
///
/// Queues that come later are waited for as well. It needs the right for all queues.
#[utoipa::path(get, path = "/api/v1/pop", tag = "messages", params(TagsQuery, PopQuery), responses(
    (status = 200, description = "Messages, leased to the caller", body = PopAnswer),
    (status = 204, description = "There are none"),
    Refusals,
))]
async fn pop_tagged(
    scope: Scope<access::Pop>,
    _: Get,
    Query(tags): Query<TagsQuery>,
    Query(query): Query<PopQuery>,
) -> Result<Response, Error> {
    let broker = scope.everywhere()?;
    let given = |tag: Option<String>| tag.filter(|tag| !tag.is_empty());
    let tags = Tags { namespace: given(tags.namespace), task: given(tags.task) };
    if tags.namespace.as_ref().or(tags.task.as_ref()).is_none() {
        return Err(Error::bad("neither namespace nor task was sent; name one, or pop from a queue"));
    }
    if [&tags.namespace, &tags.task].into_iter().flatten().any(|tag| tag.contains('\0')) {
        return Err(Error::bad("a tag contains a zero; no queue has it"));
    }
    answer(&scope, broker, &query.apply(Pop::tagged(tags)?)?, &query).await
}

/// Pops. When the client goes, this future is dropped, and what was claimed for it is handed back.
async fn answer(
    scope: &Scope<access::Pop>,
    broker: &Broker,
    pop: &Pop,
    query: &PopQuery,
) -> Result<Response, Error> {
    let (wait, app) = (query.wait()?, scope.app());
    let popped = if !app.refused().allows_pop() {
        None
    } else if query.wait {
        let popped = tokio::select! {
            popped = broker.pop_within(pop, scope.wait_within(wait)) => popped?,
            () = app.stopping().cancelled() => None,
            () = app.refused().until_pops_are() => None,
            error = scope.is_revoked() => return Err(error),
        };
        if popped.is_none() {
            scope.check_time()?;
        }
        popped
    } else {
        broker.pop(pop).await?
    };
    Ok(match popped.as_ref().and_then(PopAnswer::of) {
        Some(answer) => {
            app.meter().popped.add(u64::try_from(answer.messages.len()).unwrap_or_default());
            Json(answer).into_response()
        }
        None => StatusCode::NO_CONTENT.into_response(),
    })
}
