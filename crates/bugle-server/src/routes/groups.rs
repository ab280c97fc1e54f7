//! Consumer groups: how far each has read, and their end.

use super::{Refusals, scoped};
use crate::access::{Admin, Inspect, Scope};
use crate::answer::millis;
use crate::app::App;
use crate::error::Error;
use crate::params::{Path, Query, switch};
use axum::Json;
use bugle::broker::operate::{GroupRow, LagRow};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(scoped!(list))
        .routes(scoped!(lagging))
        .routes(scoped!(show, delete))
        .routes(scoped!(delete_of_queue))
}

/// Whole seconds from then to now, for people.
pub(super) fn seconds_since(at: Option<DateTime<Utc>>) -> i64 {
    at.map_or(0, |at| (Utc::now() - at).num_seconds().max(0))
}

/// The groups of the queues that the caller sees.
async fn seen(scope: &Scope<Inspect>) -> Result<Vec<GroupRow>, Error> {
    let rows = scope.seen().list_groups(None).await?;
    Ok(rows.into_iter().filter(|row| scope.sees(&row.queue)).collect())
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct GroupSummary {
    name: String,
    queue_name: String,
    topics: [String; 1],
    /// Partitions of the queue.
    members: i64,
    /// Messages that it has not done.
    total_lag: i64,
    /// Seconds since the oldest of them was pushed.
    max_time_lag: i64,
    partitions_with_lag: i64,
    /// `Stable` or `Lagging`.
    state: &'static str,
    subscription_mode: String,
    subscription_timestamp: Option<String>,
    subscription_created_at: String,
}

impl From<GroupRow> for GroupSummary {
    fn from(row: GroupRow) -> Self {
        Self {
            name: row.name,
            topics: [row.queue.clone()],
            queue_name: row.queue,
            members: row.partitions,
            total_lag: row.lag,
            max_time_lag: seconds_since(row.first_at),
            partitions_with_lag: row.partitions_behind,
            state: if row.lag > 0 { "Lagging" } else { "Stable" },
            subscription_mode: row.mode,
            subscription_timestamp: row.start_at.map(millis),
            subscription_created_at: millis(row.created_at),
        }
    }
}

/// The groups, one row for each queue.
#[utoipa::path(get, path = "/api/v1/consumer-groups", tag = "groups", responses(
    (status = 200, description = "The groups of the queues that the caller may see", body = Vec<GroupSummary>), Refusals,
))]
async fn list(scope: Scope<Inspect>) -> Result<Json<Vec<GroupSummary>>, Error> {
    Ok(Json(seen(&scope).await?.into_iter().map(GroupSummary::from).collect()))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", default)]
struct LaggingQuery {
    /// Behind for at least so many seconds.
    #[param(default = 3_600)]
    min_lag_seconds: u32,
}

impl Default for LaggingQuery {
    fn default() -> Self {
        Self { min_lag_seconds: 3_600 }
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct LaggingPartition {
    consumer_group: String,
    queue_name: String,
    partition_name: String,
    offset_lag: i64,
    time_lag_seconds: i64,
    oldest_message_at: Option<String>,
}

/// Partitions in which a group is far behind.
#[utoipa::path(get, path = "/api/v1/consumer-groups/lagging", tag = "groups", params(LaggingQuery), responses(
    (status = 200, description = "The partitions", body = Vec<LaggingPartition>), Refusals,
))]
async fn lagging(
    scope: Scope<Inspect>,
    Query(query): Query<LaggingQuery>,
) -> Result<Json<Vec<LaggingPartition>>, Error> {
    let is_late = |at| seconds_since(at) >= i64::from(query.min_lag_seconds);
    let mut partitions = Vec::new();
    for group in seen(&scope).await?.into_iter().filter(|row| row.lag > 0 && is_late(row.first_at)) {
        let rows = scope.seen().lag(&group.queue, Some(&group.name)).await?;
        partitions.extend(rows.into_iter().filter(|row| row.lag > 0 && is_late(row.first_at)).map(|row| {
            LaggingPartition {
                consumer_group: row.group_name,
                queue_name: group.queue.clone(),
                partition_name: row.partition,
                offset_lag: row.lag,
                time_lag_seconds: seconds_since(row.first_at),
                oldest_message_at: row.first_at.map(millis),
            }
        }));
    }
    Ok(Json(partitions))
}

#[derive(Serialize, ToSchema)]
struct GroupInQueue {
    partitions: Vec<GroupInPartition>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct GroupInPartition {
    partition: String,
    /// The lease that it has now.
    worker_id: Option<String>,
    lease_active: bool,
    lease_expires_at: Option<String>,
    offset_lag: i64,
    time_lag_seconds: i64,
    /// Claims in a row that came to nothing.
    retry_count: i32,
}

impl From<LagRow> for GroupInPartition {
    fn from(row: LagRow) -> Self {
        Self {
            partition: row.partition,
            worker_id: row.token.map(|token| token.to_string()),
            lease_active: row.token.is_some(),
            lease_expires_at: row.until.map(millis),
            offset_lag: row.lag,
            time_lag_seconds: seconds_since(row.first_at),
            retry_count: row.tries,
        }
    }
}

/// Where a group is, queue by queue and partition by partition.
#[utoipa::path(get, path = "/api/v1/consumer-groups/{group}", tag = "groups", params(("group" = String, Path)), responses(
    (status = 200, description = "Its queues; none when there is no such group", body = BTreeMap<String, GroupInQueue>), Refusals,
))]
async fn show(
    scope: Scope<Inspect>,
    Path(group): Path<String>,
) -> Result<Json<BTreeMap<String, GroupInQueue>>, Error> {
    let mut queues = BTreeMap::new();
    for row in seen(&scope).await?.into_iter().filter(|row| row.name == group) {
        let rows = scope.seen().lag(&row.queue, Some(&group)).await?;
        let partitions = rows.into_iter().map(GroupInPartition::from).collect();
        queues.insert(row.queue, GroupInQueue { partitions });
    }
    Ok(Json(queues))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
struct DeleteQuery {
    /// Its cursors and its subscription are one here, and go together.
    #[serde(default = "yes", deserialize_with = "switch")]
    #[param(required = false)]
    delete_metadata: bool,
}

fn yes() -> bool {
    true
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct GroupDeleted {
    success: bool,
    consumer_group: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_name: Option<String>,
    /// Partitions in which it is not any more.
    deleted_partitions: i64,
    metadata_deleted: bool,
}

/// Delete a group in all its queues.
#[utoipa::path(delete, path = "/api/v1/consumer-groups/{group}", tag = "groups", params(("group" = String, Path), DeleteQuery), responses(
    (status = 200, description = "It is not there any more", body = GroupDeleted), Refusals,
))]
async fn delete(
    scope: Scope<Admin>,
    Path(group): Path<String>,
    Query(query): Query<DeleteQuery>,
) -> Result<Json<GroupDeleted>, Error> {
    let rows = scope.seen().list_groups(None).await?;
    let mut deleted_partitions = 0;
    for row in rows.into_iter().filter(|row| row.name == group && scope.sees(&row.queue)) {
        if scope.on(&row.queue)?.delete_group(&row.queue, &group).await? {
            deleted_partitions += row.partitions;
        }
    }
    let metadata_deleted = query.delete_metadata;
    Ok(Json(GroupDeleted {
        success: true,
        consumer_group: group,
        queue_name: None,
        deleted_partitions,
        metadata_deleted,
    }))
}

/// Delete a group of one queue.
#[utoipa::path(delete, path = "/api/v1/consumer-groups/{group}/queues/{queue}", tag = "groups",
    params(("group" = String, Path), ("queue" = String, Path), DeleteQuery), responses(
    (status = 200, description = "It is not there any more", body = GroupDeleted), Refusals,
))]
async fn delete_of_queue(
    scope: Scope<Admin>,
    Path((group, queue)): Path<(String, String)>,
    Query(query): Query<DeleteQuery>,
) -> Result<Json<GroupDeleted>, Error> {
    let broker = scope.on(&queue)?;
    bugle::name::QueueName::parse(&queue)?;
    let rows = broker.list_groups(Some(&queue)).await?;
    let partitions = rows.iter().find(|row| row.name == group).map_or(0, |row| row.partitions);
    let was_there = broker.delete_group(&queue, &group).await?;
    Ok(Json(GroupDeleted {
        success: true,
        consumer_group: group,
        queue_name: Some(queue),
        deleted_partitions: if was_there { partitions } else { 0 },
        metadata_deleted: query.delete_metadata,
    }))
}
