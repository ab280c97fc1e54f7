//! Single messages, for people.

use super::queues::{TagsQuery, seen};
use super::{Missing, Refusals, scoped};
use crate::access::{Inspect, Move, Scope};
use crate::answer::{millis, payload};
use crate::app::App;
use crate::body::OptionalBody;
use crate::error::Error;
use crate::limits::LIST_ROWS_MAX;
use crate::params::{Path, Query, moment, within};
use axum::Json;
use axum::http::StatusCode;
use bugle::broker::operate::{Filter, GroupView, MessageRow, MessageView, QueueOptions};
use bugle::broker::{PartitionId, QUEUE_MODE, Settle, Settlement, Verdict};
use bugle::name::GroupName;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::HashMap;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use uuid::Uuid;

/// Messages that a list with a filter looks at, at most: what lies further back is found by asking for an earlier `to`.
const LOOKED_AT_MAX: usize = 20_000;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(scoped!(list))
        .routes(scoped!(show, delete))
        .routes(scoped!(retry))
        .routes(scoped!(bury))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
struct MessagesQuery {
    /// Of this queue.
    queue: Option<String>,
    /// Of this partition.
    partition: Option<String>,
    /// Of queues with this first tag.
    ns: Option<String>,
    /// Of queues with this second tag.
    task: Option<String>,
    /// `pending`, `processing`, `completed` or `dead_letter`.
    status: Option<String>,
    /// Pushed at this time or later.
    #[serde(deserialize_with = "moment")]
    #[param(value_type = Option<String>)]
    from: Option<DateTime<Utc>>,
    /// Pushed before this time.
    #[serde(deserialize_with = "moment")]
    #[param(value_type = Option<String>)]
    to: Option<DateTime<Utc>>,
    #[param(minimum = 1, maximum = 1_000, default = 200)]
    limit: u32,
    #[param(maximum = 10_000, default = 0)]
    offset: u32,
}

impl Default for MessagesQuery {
    fn default() -> Self {
        let (queue, partition, ns, task, status, from, to) = Default::default();
        Self { queue, partition, ns, task, status, from, to, limit: 200, offset: 0 }
    }
}

#[derive(Serialize, ToSchema)]
struct MessageList {
    messages: Vec<MessageSummary>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct MessageSummary {
    id: Uuid,
    transaction_id: String,
    partition_id: Uuid,
    queue_path: String,
    queue: String,
    partition: String,
    namespace: String,
    task: String,
    /// `pending`, `processing`, `completed` or `dead_letter`.
    status: &'static str,
    bus_status: BusStatus,
    trace_id: Option<Uuid>,
    producer_sub: Option<String>,
    queue_priority: i32,
    created_at: String,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct BusStatus {
    /// Groups that have done it.
    consumed_by: i64,
    total_groups: i64,
}

/// What a message is, over all groups.
pub(super) fn status(row: &MessageRow) -> &'static str {
    if row.dead_for > 0 {
        "dead_letter"
    } else if row.leased_by > 0 {
        "processing"
    } else if row.groups > 0 && row.done_by == row.groups {
        "completed"
    } else {
        "pending"
    }
}

impl MessageSummary {
    fn new(row: MessageRow, options: Option<&QueueOptions>) -> Self {
        Self {
            status: status(&row),
            bus_status: BusStatus { consumed_by: row.done_by, total_groups: row.groups },
            transaction_id: row.key.unwrap_or_else(|| row.id.to_string()),
            partition_id: row.part.uuid(),
            queue_path: format!("{}/{}", row.queue, row.partition),
            namespace: options.and_then(|options| options.tag_namespace.clone()).unwrap_or_default(),
            task: options.and_then(|options| options.tag_task.clone()).unwrap_or_default(),
            queue_priority: options.and_then(|options| options.priority).unwrap_or_default(),
            id: row.id,
            queue: row.queue,
            partition: row.partition,
            trace_id: row.trace,
            producer_sub: row.sub,
            created_at: millis(row.at),
        }
    }
}

/// Messages, the newest first.
#[utoipa::path(get, path = "/api/v1/messages", tag = "operate", params(MessagesQuery), responses(
    (status = 200, description = "Messages that the caller may see", body = MessageList), Refusals,
))]
async fn list(scope: Scope<Inspect>, Query(query): Query<MessagesQuery>) -> Result<Json<MessageList>, Error> {
    within("limit", query.limit.into(), 1, LIST_ROWS_MAX.into())?;
    within("offset", query.offset.into(), 0, 10_000)?;
    let (limit, offset) = (query.limit, query.offset);
    let tags = TagsQuery { namespace: query.ns.clone(), task: query.task.clone() };
    let options: HashMap<String, QueueOptions> =
        seen(&scope, tags).await?.into_iter().map(|row| (row.name, row.options)).collect();
    let wanted = usize::try_from(limit).unwrap_or_default() + usize::try_from(offset).unwrap_or_default();
    let rows = search(&scope, query, wanted, |row| options.contains_key(&row.queue)).await?;
    let page = rows.into_iter().skip(usize::try_from(offset).unwrap_or_default());
    let messages = page.map(|row| {
        let options = options.get(&row.queue);
        MessageSummary::new(row, options)
    });
    Ok(Json(MessageList { messages: messages.collect() }))
}

/// Messages that fit, page by page: the log is read from its newest end and never as a whole.
async fn search(
    scope: &Scope<Inspect>,
    query: MessagesQuery,
    wanted: usize,
    fits: impl Fn(&MessageRow) -> bool,
) -> Result<Vec<MessageRow>, Error> {
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let (queue, partition) = (given(query.queue), given(query.partition));
    if [&queue, &partition].into_iter().flatten().any(|name| name.contains('\0')) {
        return Ok(Vec::new()); // nothing has such a name
    }
    let wanted_status = given(query.status);
    let mut filter =
        Filter { queue, partition, from: query.from, to: query.to, limit: LIST_ROWS_MAX, before: None };
    let (mut found, mut looked_at) = (Vec::new(), 0);
    while found.len() < wanted && looked_at < LOOKED_AT_MAX {
        let rows = scope.seen().list_messages(&filter).await?;
        let is_last = rows.len() < usize::try_from(LIST_ROWS_MAX).unwrap_or_default();
        looked_at += rows.len();
        filter.before = rows.last().map(|row| row.seq);
        let fit = |row: &MessageRow| fits(row) && wanted_status.as_deref().is_none_or(|s| s == status(row));
        found.extend(rows.into_iter().filter(fit));
        if is_last {
            break;
        }
    }
    found.truncate(wanted);
    Ok(found)
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct MessageAnswer {
    #[serde(flatten)]
    summary: MessageSummary,
    #[schema(value_type = serde_json::Value)]
    payload: Box<RawValue>,
    is_encrypted: bool,
    /// Why it is dead for a group.
    error_message: Option<String>,
    retry_count: i32,
    consumer_groups: Vec<GroupAnswer>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct GroupAnswer {
    name: String,
    consumed: bool,
    lease_expires_at: Option<String>,
}

impl From<GroupView> for GroupAnswer {
    fn from(group: GroupView) -> Self {
        Self { name: group.group_name, consumed: group.is_done, lease_expires_at: group.until.map(millis) }
    }
}

/// A message by its place. Whoever may not see its queue learns no more than that.
async fn find<N: crate::access::Need>(
    scope: &Scope<N>,
    partition: &str,
    key: &str,
) -> Result<(PartitionId, MessageView), Error> {
    let missing = || Error::missing("Message not found");
    let partition = Uuid::parse_str(partition).ok().and_then(PartitionId::from_uuid).ok_or_else(missing)?;
    let broker = scope.on_partition(partition).await?;
    if key.contains('\0') {
        return Err(missing());
    }
    let view = broker.show_message(partition, key).await?.ok_or_else(missing)?;
    Ok((partition, view))
}

/// One message with its payload.
#[utoipa::path(get, path = "/api/v1/messages/{partition_id}/{transaction_id}", tag = "operate",
    params(("partition_id" = String, Path), ("transaction_id" = String, Path)), responses(
    (status = 200, description = "The message", body = MessageAnswer), Missing, Refusals,
))]
async fn show(
    scope: Scope<Inspect>,
    Path((partition, key)): Path<(String, String)>,
) -> Result<Json<MessageAnswer>, Error> {
    let (_, view) = find(&scope, &partition, &key).await?;
    let queue = scope.seen().show_queue(&view.row.queue).await?;
    let dead = view.groups.iter().find(|group| group.tries.is_some());
    Ok(Json(MessageAnswer {
        payload: payload(&view.payload),
        is_encrypted: false,
        error_message: dead.and_then(|group| group.error.clone()),
        retry_count: dead.and_then(|group| group.tries).unwrap_or_default(),
        summary: MessageSummary::new(view.row, queue.as_ref().map(|(row, _)| &row.options)),
        consumer_groups: view.groups.into_iter().map(GroupAnswer::from).collect(),
    }))
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DoneAnswer {
    success: bool,
    partition_id: String,
    transaction_id: String,
    message: String,
}

/// Throw the dead letters of a message away.
///
/// A message in the log is not deleted alone: `success` is false then. Ack it, or let its queue's retention do it.
#[utoipa::path(delete, path = "/api/v1/messages/{partition_id}/{transaction_id}", tag = "operate",
    params(("partition_id" = String, Path), ("transaction_id" = String, Path)), responses(
    (status = 200, description = "Whether there was one", body = DoneAnswer), Refusals,
))]
async fn delete(
    scope: Scope<Move>,
    Path((partition_id, transaction_id)): Path<(String, String)>,
) -> Result<Json<DoneAnswer>, Error> {
    let partition = Uuid::parse_str(&partition_id).ok().and_then(PartitionId::from_uuid);
    let mut purged = 0;
    if let Some(partition) = partition.filter(|_| !transaction_id.contains('\0')) {
        let broker = scope.on_partition(partition).await?;
        if let Some(queue) = scope.app().queue_of(partition).await? {
            purged = broker.purge_dead(&queue, None, Some(partition), Some(&transaction_id)).await?;
        }
    }
    let message = match purged {
        0 => "there is no such dead letter; a message in the log is acked, or goes by the retention of its queue".to_owned(),
        n => format!("{n} dead letters deleted"),
    };
    Ok(Json(DoneAnswer { success: purged > 0, partition_id, transaction_id, message }))
}

/// Put the dead letters of a message back.
///
/// It comes again, for each group that it was dead for and for no other, at the end of its partition.
#[utoipa::path(post, path = "/api/v1/messages/{partition_id}/{transaction_id}/retry", tag = "operate",
    params(("partition_id" = String, Path), ("transaction_id" = String, Path)), responses(
    (status = 200, description = "It comes again", body = DoneAnswer), Missing, Refusals,
))]
async fn retry(
    scope: Scope<Move>,
    Path((partition_id, transaction_id)): Path<(String, String)>,
) -> Result<Json<DoneAnswer>, Error> {
    let missing = || Error::missing("there is no such dead letter");
    let partition =
        Uuid::parse_str(&partition_id).ok().and_then(PartitionId::from_uuid).ok_or_else(missing)?;
    let broker = scope.on_partition(partition).await?;
    let queue = scope
        .app()
        .queue_of(partition)
        .await?
        .filter(|_| !transaction_id.contains('\0'))
        .ok_or_else(missing)?;
    let again = broker.redrive_dead(&queue, None, Some(partition), Some(&transaction_id)).await?;
    if again == 0 {
        return Err(missing());
    }
    let message = format!("{again} dead letters put back");
    Ok(Json(DoneAnswer { success: true, partition_id, transaction_id, message }))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct BuryRequest {
    /// The group that has it leased; not sent: the group of those who name none.
    consumer_group: Option<String>,
    /// Why.
    error: Option<String>,
}

/// Make a leased message a dead letter.
///
/// The group's cursor passes it. One that nobody has leased is refused: others before it would be passed as well.
#[utoipa::path(post, path = "/api/v1/messages/{partition_id}/{transaction_id}/dlq", tag = "operate",
    params(("partition_id" = String, Path), ("transaction_id" = String, Path)), request_body = Option<BuryRequest>, responses(
    (status = 200, description = "It is among the dead letters", body = DoneAnswer),
    (status = 409, description = "It is not leased", body = crate::error::Failed), Missing, Refusals,
))]
async fn bury(
    scope: Scope<Move>,
    Path((partition_id, transaction_id)): Path<(String, String)>,
    OptionalBody(request): OptionalBody<BuryRequest>,
) -> Result<Json<DoneAnswer>, Error> {
    let (partition, _) = find(&scope, &partition_id, &transaction_id).await?;
    let group = GroupName::parse(request.consumer_group.as_deref().unwrap_or(QUEUE_MODE))?;
    let mut settle = Settle::by_key(partition, group, None, &transaction_id, Verdict::Dead)?;
    settle = settle.error(request.error.as_deref().unwrap_or("made a dead letter by a person"));
    let settled = scope.seen().settle(&[settle]).await?;
    if settled.first().is_none_or(|settled| settled.settlement != Settlement::Dead) {
        let sentence = "the group has not leased it now; pop it, or ack it with the status dlq";
        return Err(Error::new(StatusCode::CONFLICT, sentence));
    }
    let message = "it is a dead letter".to_owned();
    Ok(Json(DoneAnswer { success: true, partition_id, transaction_id, message }))
}
