//! Dead letters.

use super::{Refusals, scoped};
use crate::access::{Inspect, Scope};
use crate::answer::{millis, payload};
use crate::app::App;
use crate::error::Error;
use crate::limits::LIST_ROWS_MAX;
use crate::params::{Query, within};
use axum::Json;
use bugle::broker::operate::DeadMessage;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use uuid::Uuid;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(scoped!(list))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", default)]
struct DeadQuery {
    /// Of this queue; not sent: of all, which needs the right for all.
    queue: Option<String>,
    /// Dead for this group; not sent: for any.
    consumer_group: Option<String>,
    #[param(minimum = 1, maximum = 1_000, default = 100)]
    limit: u32,
    #[param(default = 0)]
    offset: u32,
}

impl Default for DeadQuery {
    fn default() -> Self {
        Self { queue: None, consumer_group: None, limit: 100, offset: 0 }
    }
}

#[derive(Serialize, ToSchema)]
struct DeadList {
    messages: Vec<DeadAnswer>,
    /// How many there are in all.
    total: i64,
    pagination: Pagination,
}

/// Which part of a list it is.
#[derive(Serialize, ToSchema)]
pub(super) struct Pagination {
    pub(super) limit: u32,
    pub(super) offset: u32,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DeadAnswer {
    id: Uuid,
    transaction_id: String,
    partition_id: Uuid,
    queue: String,
    partition: String,
    consumer_group: String,
    error_message: Option<String>,
    retry_count: i32,
    /// The payload.
    #[schema(value_type = serde_json::Value)]
    data: Box<RawValue>,
    producer_sub: Option<String>,
    created_at: String,
    failed_at: String,
}

impl From<DeadMessage> for DeadAnswer {
    fn from(dead: DeadMessage) -> Self {
        Self {
            id: dead.id,
            transaction_id: dead.key.unwrap_or_else(|| dead.id.to_string()),
            partition_id: dead.part.uuid(),
            queue: dead.queue,
            partition: dead.partition,
            consumer_group: dead.group_name,
            error_message: dead.error,
            retry_count: dead.tries,
            data: payload(&dead.payload),
            producer_sub: dead.sub,
            created_at: millis(dead.at),
            failed_at: millis(dead.died_at),
        }
    }
}

/// Dead letters, the last to die first.
#[utoipa::path(get, path = "/api/v1/dlq", tag = "operate", params(DeadQuery), responses(
    (status = 200, description = "Dead letters", body = DeadList), Refusals,
))]
async fn list(scope: Scope<Inspect>, Query(query): Query<DeadQuery>) -> Result<Json<DeadList>, Error> {
    within("limit", query.limit.into(), 1, LIST_ROWS_MAX.into())?;
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let (queue, group) = (given(query.queue), given(query.consumer_group));
    let broker = match &queue {
        Some(queue) => scope.on(queue)?,
        None => scope.everywhere()?,
    };
    let pagination = Pagination { limit: query.limit, offset: query.offset };
    if [&queue, &group].into_iter().flatten().any(|name| name.contains('\0')) {
        return Ok(Json(DeadList { messages: Vec::new(), total: 0, pagination })); // nothing has such a name
    }
    let (dead, total) =
        broker.list_dead(queue.as_deref(), group.as_deref(), query.limit, query.offset).await?;
    Ok(Json(DeadList { messages: dead.into_iter().map(DeadAnswer::from).collect(), total, pagination }))
}
