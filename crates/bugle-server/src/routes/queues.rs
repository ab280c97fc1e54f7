//! Queues: which there are, what is in them, and their end.

use super::counts::Counts;
use super::{Missing, Refusals, scoped};
use crate::access::{Admin, Inspect, Scope};
use crate::answer::{millis, queue_id};
use crate::app::App;
use crate::error::Error;
use crate::params::{Path, Query};
use axum::Json;
use bugle::broker::operate::{PartitionRow, QueueRow, Tags};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use uuid::Uuid;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(scoped!(list))
        .routes(scoped!(show, delete))
        .routes(scoped!(clear))
        .routes(scoped!(partitions))
        .routes(scoped!(namespaces))
        .routes(scoped!(tasks))
}

#[derive(Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct TagsQuery {
    /// Those with this first tag.
    pub(super) namespace: Option<String>,
    /// Those with this second tag.
    pub(super) task: Option<String>,
}

/// The queues that the caller sees, with these tags.
pub(super) async fn seen(scope: &Scope<Inspect>, tags: TagsQuery) -> Result<Vec<QueueRow>, Error> {
    let given = |tag: Option<String>| tag.filter(|tag| !tag.is_empty());
    let tags = Tags { namespace: given(tags.namespace), task: given(tags.task) };
    if [&tags.namespace, &tags.task].into_iter().flatten().any(|tag| tag.contains('\0')) {
        return Ok(Vec::new()); // no queue has such a tag
    }
    let rows = scope.seen().list_queues(&tags).await?;
    Ok(rows.into_iter().filter(|row| scope.sees(&row.name)).collect())
}

/// One queue with its partitions.
pub(super) async fn found(
    scope: &Scope<Inspect>,
    queue: &str,
) -> Result<(QueueRow, Vec<PartitionRow>), Error> {
    let broker = scope.on(queue)?;
    bugle::name::QueueName::parse(queue)?;
    broker.show_queue(queue).await?.ok_or_else(|| Error::missing("Queue not found"))
}

#[derive(Serialize, ToSchema)]
pub(super) struct QueueList {
    queues: Vec<QueueSummary>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct QueueSummary {
    id: Uuid,
    name: String,
    namespace: String,
    task: String,
    partitions: i64,
    messages: Counts,
    created_at: String,
}

impl From<&QueueRow> for QueueSummary {
    fn from(row: &QueueRow) -> Self {
        Self {
            id: queue_id(row.id),
            name: row.name.clone(),
            namespace: row.options.tag_namespace.clone().unwrap_or_default(),
            task: row.options.tag_task.clone().unwrap_or_default(),
            partitions: row.partitions,
            messages: Counts::from(row),
            created_at: millis(row.created_at),
        }
    }
}

/// The queues.
#[utoipa::path(get, path = "/api/v1/resources/queues", tag = "queues", params(TagsQuery), responses(
    (status = 200, description = "The queues of messages that the caller may see", body = QueueList), Refusals,
))]
async fn list(scope: Scope<Inspect>, Query(tags): Query<TagsQuery>) -> Result<Json<QueueList>, Error> {
    let rows = seen(&scope, tags).await?;
    Ok(Json(QueueList { queues: rows.iter().map(QueueSummary::from).collect() }))
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct QueueView {
    id: Uuid,
    name: String,
    namespace: String,
    task: String,
    created_at: String,
    totals: Counts,
    partitions: Vec<PartitionView>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PartitionView {
    id: Uuid,
    name: String,
    created_at: String,
    stats: Counts,
    oldest_message: Option<String>,
    newest_message: Option<String>,
}

impl From<&PartitionRow> for PartitionView {
    fn from(row: &PartitionRow) -> Self {
        Self {
            id: row.part.uuid(),
            name: row.partition.clone(),
            created_at: millis(row.created_at),
            stats: Counts::from(row),
            oldest_message: row.first_at.map(millis),
            newest_message: row.last_at.map(millis),
        }
    }
}

/// One queue with its partitions.
#[utoipa::path(get, path = "/api/v1/resources/queues/{queue}", tag = "queues", params(("queue" = String, Path)), responses(
    (status = 200, description = "The queue", body = QueueView), Missing, Refusals,
))]
async fn show(scope: Scope<Inspect>, Path(queue): Path<String>) -> Result<Json<QueueView>, Error> {
    let (row, partitions) = found(&scope, &queue).await?;
    Ok(Json(QueueView {
        id: queue_id(row.id),
        namespace: row.options.tag_namespace.clone().unwrap_or_default(),
        task: row.options.tag_task.clone().unwrap_or_default(),
        created_at: millis(row.created_at),
        totals: Counts::from(&row),
        partitions: partitions.iter().map(PartitionView::from).collect(),
        name: row.name,
    }))
}

#[derive(Serialize, ToSchema)]
struct QueueDeleted {
    deleted: bool,
    queue: String,
    existed: bool,
}

/// Delete a queue with all that it holds.
#[utoipa::path(delete, path = "/api/v1/resources/queues/{queue}", tag = "queues", params(("queue" = String, Path)), responses(
    (status = 200, description = "It is not there any more", body = QueueDeleted), Refusals,
))]
async fn delete(scope: Scope<Admin>, Path(queue): Path<String>) -> Result<Json<QueueDeleted>, Error> {
    let existed = scope.on(&queue)?.delete_queue(&queue).await?;
    Ok(Json(QueueDeleted { deleted: true, queue, existed }))
}

#[derive(Serialize, ToSchema)]
struct QueueCleared {
    success: bool,
    queue: String,
}

/// Make everything that is in a queue invisible, for all groups, at once.
#[utoipa::path(delete, path = "/api/v1/queues/{queue}/clear", tag = "queues", params(("queue" = String, Path)), responses(
    (status = 200, description = "It is empty", body = QueueCleared), Missing, Refusals,
))]
async fn clear(scope: Scope<Admin>, Path(queue): Path<String>) -> Result<Json<QueueCleared>, Error> {
    if !scope.on(&queue)?.clear_queue(&queue).await? {
        return Err(Error::missing("Queue not found"));
    }
    Ok(Json(QueueCleared { success: true, queue }))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct PartitionsQuery {
    /// Of this queue; not sent: of all.
    queue: Option<String>,
}

#[derive(Serialize, ToSchema)]
struct PartitionList {
    partitions: Vec<PartitionSummary>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PartitionSummary {
    queue: String,
    #[serde(flatten)]
    partition: PartitionView,
}

/// The partitions.
#[utoipa::path(get, path = "/api/v1/resources/partitions", tag = "queues", params(PartitionsQuery), responses(
    (status = 200, description = "The partitions of the queues that the caller may see", body = PartitionList), Missing, Refusals,
))]
async fn partitions(
    scope: Scope<Inspect>,
    Query(query): Query<PartitionsQuery>,
) -> Result<Json<PartitionList>, Error> {
    let queues = match query.queue.filter(|queue| !queue.is_empty()) {
        Some(queue) => vec![queue],
        None => seen(&scope, TagsQuery::default()).await?.into_iter().map(|row| row.name).collect(),
    };
    let mut partitions = Vec::new();
    for queue in queues {
        let (_, rows) = found(&scope, &queue).await?;
        let summary = |row| PartitionSummary { queue: queue.clone(), partition: PartitionView::from(row) };
        partitions.extend(rows.iter().map(summary));
    }
    Ok(Json(PartitionList { partitions }))
}

/// The queues that share a tag.
#[derive(Default, Serialize, ToSchema)]
struct Tagged {
    queues: usize,
    partitions: i64,
    messages: Counts,
}

#[derive(Serialize, ToSchema)]
struct NamespaceList {
    namespaces: Vec<NamespaceSummary>,
}

#[derive(Serialize, ToSchema)]
struct NamespaceSummary {
    namespace: String,
    #[serde(flatten)]
    tagged: Tagged,
}

/// The first tags of the queues.
#[utoipa::path(get, path = "/api/v1/resources/namespaces", tag = "queues", responses(
    (status = 200, description = "The first tags, with what is in their queues", body = NamespaceList), Refusals,
))]
async fn namespaces(scope: Scope<Inspect>) -> Result<Json<NamespaceList>, Error> {
    let by_tag =
        by_tag(&seen(&scope, TagsQuery::default()).await?, |row| row.options.tag_namespace.as_deref());
    let namespaces = by_tag.into_iter().map(|(namespace, tagged)| NamespaceSummary { namespace, tagged });
    Ok(Json(NamespaceList { namespaces: namespaces.collect() }))
}

#[derive(Serialize, ToSchema)]
struct TaskList {
    tasks: Vec<TaskSummary>,
}

#[derive(Serialize, ToSchema)]
struct TaskSummary {
    task: String,
    #[serde(flatten)]
    tagged: Tagged,
}

/// The second tags of the queues.
#[utoipa::path(get, path = "/api/v1/resources/tasks", tag = "queues", responses(
    (status = 200, description = "The second tags, with what is in their queues", body = TaskList), Refusals,
))]
async fn tasks(scope: Scope<Inspect>) -> Result<Json<TaskList>, Error> {
    let by_tag = by_tag(&seen(&scope, TagsQuery::default()).await?, |row| row.options.tag_task.as_deref());
    let tasks = by_tag.into_iter().map(|(task, tagged)| TaskSummary { task, tagged });
    Ok(Json(TaskList { tasks: tasks.collect() }))
}

fn by_tag(rows: &[QueueRow], tag: fn(&QueueRow) -> Option<&str>) -> BTreeMap<String, Tagged> {
    let mut tags: BTreeMap<String, Tagged> = BTreeMap::new();
    for row in rows {
        let Some(tag) = tag(row) else { continue };
        let tagged = tags.entry(tag.to_owned()).or_default();
        tagged.queues += 1;
        tagged.partitions += row.partitions;
        tagged.messages = tagged.messages + Counts::from(row);
    }
    tags
}
