//! How the whole is doing. Every number comes from maintained counters and probes of indexes.

use super::configure::WireOptions;
use super::counts::Counts;
use super::dead::Pagination;
use super::groups::seconds_since;
use super::health::check_database;
use super::queues::{QueueSummary, TagsQuery, found, seen};
use super::{Missing, Refusals, scoped};
use crate::access::{Inspect, Scope};
use crate::answer::{millis, queue_id};
use crate::app::App;
use crate::error::Error;
use crate::limits::LIST_ROWS_MAX;
use crate::params::{Path, Query, within};
use axum::Json;
use bugle::broker::operate::{Filter, GroupRow, QueueRow};
use chrono::Utc;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use uuid::Uuid;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(scoped!(overview))
        .routes(scoped!(status))
        .routes(scoped!(queues))
        .routes(scoped!(queue))
        .routes(scoped!(messages))
        .routes(scoped!(buffers))
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Overview {
    queues: usize,
    partitions: i64,
    namespaces: usize,
    tasks: usize,
    messages: Counts,
    lag: Lag,
    /// The numbers are of this moment.
    stats_age: u32,
    timestamp: String,
}

#[derive(Serialize, ToSchema)]
struct Lag {
    /// Of groups with lag, the seconds since their oldest open message was pushed.
    time: Spread,
    /// Of all groups, their open messages.
    offset: Spread,
}

#[derive(Default, Serialize, ToSchema)]
struct Spread {
    avg: i64,
    max: i64,
    min: i64,
    median: i64,
}

impl Spread {
    fn of(mut values: Vec<i64>) -> Self {
        values.sort_unstable();
        let count = i64::try_from(values.len()).unwrap_or(i64::MAX);
        match (values.first(), values.last(), values.get(values.len() / 2)) {
            (Some(min), Some(max), Some(median)) => {
                Self { avg: values.iter().sum::<i64>() / count, max: *max, min: *min, median: *median }
            }
            _ => Self::default(),
        }
    }
}

impl Lag {
    fn of(groups: &[GroupRow]) -> Self {
        let behind = groups.iter().filter(|group| group.lag > 0);
        Self {
            time: Spread::of(behind.map(|group| seconds_since(group.first_at)).collect()),
            offset: Spread::of(groups.iter().map(|group| group.lag).collect()),
        }
    }
}

/// Everything in a few numbers.
#[utoipa::path(get, path = "/api/v1/resources/overview", tag = "status", responses(
    (status = 200, description = "Of the queues that the caller may see", body = Overview), Refusals,
))]
async fn overview(scope: Scope<Inspect>) -> Result<Json<Overview>, Error> {
    let rows = seen(&scope, TagsQuery::default()).await?;
    let mut groups = scope.seen().list_groups(None).await?;
    groups.retain(|group| scope.sees(&group.queue));
    let tags =
        |tag: fn(&QueueRow) -> Option<&String>| rows.iter().filter_map(tag).collect::<BTreeSet<_>>().len();
    Ok(Json(Overview {
        queues: rows.len(),
        partitions: rows.iter().map(|row| row.partitions).sum(),
        namespaces: tags(|row| row.options.tag_namespace.as_ref()),
        tasks: tags(|row| row.options.tag_task.as_ref()),
        messages: rows.iter().map(Counts::from).sum(),
        lag: Lag::of(&groups),
        stats_age: 0,
        timestamp: millis(Utc::now()),
    }))
}

#[derive(Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
struct StatusQuery {
    /// Of this queue alone.
    queue: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Status {
    queues: Vec<QueueSummary>,
    messages: Counts,
    leases: Leases,
    dead_letter_queue: DeadLetters,
    /// The numbers are of this moment.
    stats_age: u32,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Leases {
    /// Messages that are leased.
    total_batch_size: i64,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DeadLetters {
    total_messages: i64,
}

/// The queues, what is in them, what is leased and what is dead.
#[utoipa::path(get, path = "/api/v1/status", tag = "status", params(StatusQuery, TagsQuery), responses(
    (status = 200, description = "Of the queues that the caller may see", body = Status), Refusals,
))]
async fn status(
    scope: Scope<Inspect>,
    Query(query): Query<StatusQuery>,
    Query(tags): Query<TagsQuery>,
) -> Result<Json<Status>, Error> {
    let wanted = query.queue.filter(|queue| !queue.is_empty());
    let mut rows = seen(&scope, tags).await?;
    rows.retain(|row| wanted.as_ref().is_none_or(|queue| *queue == row.name));
    let messages: Counts = rows.iter().map(Counts::from).sum();
    Ok(Json(Status {
        queues: rows.iter().map(QueueSummary::from).collect(),
        messages,
        leases: Leases { total_batch_size: messages.processing },
        dead_letter_queue: DeadLetters { total_messages: messages.dead_letter },
        stats_age: 0,
    }))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
struct PageQuery {
    #[param(minimum = 1, maximum = 1_000, default = 100)]
    limit: u32,
    #[param(default = 0)]
    offset: u32,
}

impl Default for PageQuery {
    fn default() -> Self {
        Self { limit: 100, offset: 0 }
    }
}

#[derive(Serialize, ToSchema)]
struct QueuePage {
    queues: Vec<QueueSummary>,
    pagination: Pagination,
}

/// The queues, page by page.
#[utoipa::path(get, path = "/api/v1/status/queues", tag = "status", params(TagsQuery, PageQuery), responses(
    (status = 200, description = "The queues that the caller may see", body = QueuePage), Refusals,
))]
async fn queues(
    scope: Scope<Inspect>,
    Query(tags): Query<TagsQuery>,
    Query(page): Query<PageQuery>,
) -> Result<Json<QueuePage>, Error> {
    let PageQuery { limit, offset } = page;
    within("limit", limit.into(), 1, LIST_ROWS_MAX.into())?;
    let rows = seen(&scope, tags).await?;
    let number = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let page = rows.iter().skip(number(offset)).take(number(limit));
    Ok(Json(QueuePage {
        queues: page.map(QueueSummary::from).collect(),
        pagination: Pagination { limit, offset },
    }))
}

#[derive(Serialize, ToSchema)]
struct QueueStatus {
    queue: QueueInStatus,
    totals: Counts,
    partitions: Vec<PartitionInStatus>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct QueueInStatus {
    id: Uuid,
    name: String,
    namespace: String,
    task: String,
    priority: i32,
    created_at: String,
    config: WireOptions,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PartitionInStatus {
    id: Uuid,
    name: String,
    stats: Counts,
    created_at: String,
    last_activity: Option<String>,
    oldest_message: Option<String>,
    newest_message: Option<String>,
}

/// One queue with its options and its partitions.
#[utoipa::path(get, path = "/api/v1/status/queues/{queue}", tag = "status", params(("queue" = String, Path)), responses(
    (status = 200, description = "The queue", body = QueueStatus), Missing, Refusals,
))]
async fn queue(scope: Scope<Inspect>, Path(queue): Path<String>) -> Result<Json<QueueStatus>, Error> {
    let (row, partitions) = found(&scope, &queue).await?;
    let partition = |row: &bugle::broker::operate::PartitionRow| PartitionInStatus {
        id: row.part.uuid(),
        name: row.partition.clone(),
        stats: Counts::from(row),
        created_at: millis(row.created_at),
        last_activity: row.last_at.map(millis),
        oldest_message: row.first_at.map(millis),
        newest_message: row.last_at.map(millis),
    };
    Ok(Json(QueueStatus {
        totals: Counts::from(&row),
        queue: QueueInStatus {
            id: queue_id(row.id),
            namespace: row.options.tag_namespace.clone().unwrap_or_default(),
            task: row.options.tag_task.clone().unwrap_or_default(),
            priority: row.options.priority.unwrap_or_default(),
            created_at: millis(row.created_at),
            config: WireOptions::in_force(&row.options),
            name: row.name,
        },
        partitions: partitions.iter().map(partition).collect(),
    }))
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct MessageInStatus {
    id: Uuid,
    transaction_id: String,
    partition_id: Uuid,
    queue: String,
    partition: String,
    queue_path: String,
    status: &'static str,
    created_at: String,
}

/// Messages of a queue, the newest first.
#[utoipa::path(get, path = "/api/v1/status/queues/{queue}/messages", tag = "status", params(("queue" = String, Path), PageQuery), responses(
    (status = 200, description = "Its messages", body = Vec<MessageInStatus>), Refusals,
))]
async fn messages(
    scope: Scope<Inspect>,
    Path(queue): Path<String>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Vec<MessageInStatus>>, Error> {
    let broker = scope.on(&queue)?;
    within("limit", page.limit.into(), 1, LIST_ROWS_MAX.into())?;
    within("offset", page.offset.into(), 0, 10_000)?;
    bugle::name::QueueName::parse(&queue)?;
    let filter = Filter { queue: Some(queue), limit: page.limit + page.offset, ..Filter::default() };
    let rows = broker.list_messages(&filter).await?;
    let rows = rows.into_iter().skip(usize::try_from(page.offset).unwrap_or_default());
    let message = |row: bugle::broker::operate::MessageRow| MessageInStatus {
        status: super::messages::status(&row),
        transaction_id: row.key.unwrap_or_else(|| row.id.to_string()),
        partition_id: row.part.uuid(),
        queue_path: format!("{}/{}", row.queue, row.partition),
        id: row.id,
        queue: row.queue,
        partition: row.partition,
        created_at: millis(row.at),
    };
    Ok(Json(rows.map(message).collect()))
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Buffers {
    pending: u32,
    failed: u32,
    db_healthy: bool,
    worker: u32,
}

/// Queen's file buffer, which Bugle does not have: accepted means committed.
#[utoipa::path(get, path = "/api/v1/status/buffers", tag = "status", responses(
    (status = 200, description = "Nothing is ever in it", body = Buffers), Refusals,
))]
async fn buffers(scope: Scope<Inspect>) -> Json<Buffers> {
    let db_healthy = check_database(scope.app()).await.is_ok();
    Json(Buffers { pending: 0, failed: 0, db_healthy, worker: 0 })
}
