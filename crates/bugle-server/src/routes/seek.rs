//! Moving consumer groups.

use super::{Missing, Refusals, scoped};
use crate::access::{Move, Scope};
use crate::answer::millis;
use crate::app::App;
use crate::body::Body;
use crate::error::Error;
use crate::params::{Path, parse_moment};
use axum::Json;
use bugle::broker::operate::Seek;
use bugle::name::GroupName;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(scoped!(subscribe)).routes(scoped!(seek)).routes(scoped!(seek_partition))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SubscribeRequest {
    subscription_timestamp: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SubscribeAnswer {
    success: bool,
    consumer_group: String,
    new_timestamp: String,
    /// Queues in which it was moved.
    rows_updated: usize,
}

/// Let a group go on from a time, in all its queues.
#[utoipa::path(post, path = "/api/v1/consumer-groups/{group}/subscription", tag = "groups", params(("group" = String, Path)),
    request_body = SubscribeRequest, responses((status = 200, description = "It was moved", body = SubscribeAnswer), Refusals))]
async fn subscribe(
    scope: Scope<Move>,
    Path(group): Path<String>,
    Body(request): Body<SubscribeRequest>,
) -> Result<Json<SubscribeAnswer>, Error> {
    let text =
        request.subscription_timestamp.ok_or_else(|| Error::bad("subscriptionTimestamp is required"))?;
    let at = parse_moment(&text).map_err(|fault| Error::bad(format!("subscriptionTimestamp {fault}")))?;
    let rows = scope.seen().list_groups(None).await?;
    let mut rows_updated = 0;
    for row in rows.into_iter().filter(|row| row.name == group && scope.sees(&row.queue)) {
        let moved = scope.on(&row.queue)?.seek(&row.queue, &group, Seek::Time(at)).await?;
        rows_updated += usize::from(moved);
    }
    Ok(Json(SubscribeAnswer {
        success: true,
        consumer_group: group,
        new_timestamp: millis(at),
        rows_updated,
    }))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SeekRequest {
    /// Behind everything that is there.
    to_end: Option<bool>,
    /// To the oldest message that is kept.
    to_beginning: Option<bool>,
    /// To what was pushed at this time or later.
    timestamp: Option<String>,
}

impl SeekRequest {
    fn place(&self) -> Result<Seek, Error> {
        match (self.to_end.unwrap_or_default(), self.to_beginning.unwrap_or_default(), &self.timestamp) {
            (true, false, None) => Ok(Seek::End),
            (false, true, None) => Ok(Seek::Beginning),
            (false, false, Some(text)) => {
                Ok(Seek::Time(parse_moment(text).map_err(|fault| Error::bad(format!("timestamp {fault}")))?))
            }
            _ => Err(Error::bad("send one of toEnd: true, toBeginning: true and timestamp")),
        }
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SeekAnswer {
    success: bool,
    consumer_group: String,
    queue_name: String,
    seek_to_end: bool,
    target_timestamp: Option<String>,
    partitions_updated: i64,
}

/// Move a group of a queue. What it has leased is lost.
#[utoipa::path(post, path = "/api/v1/consumer-groups/{group}/queues/{queue}/seek", tag = "groups",
    params(("group" = String, Path), ("queue" = String, Path)), request_body = SeekRequest, responses(
    (status = 200, description = "It was moved", body = SeekAnswer), Missing, Refusals,
))]
async fn seek(
    scope: Scope<Move>,
    Path((group, queue)): Path<(String, String)>,
    Body(request): Body<SeekRequest>,
) -> Result<Json<SeekAnswer>, Error> {
    let broker = scope.on(&queue)?;
    let place = request.place()?;
    GroupName::parse(&group)?;
    if !broker.seek(&queue, &group, place).await? {
        return Err(Error::missing("Queue not found"));
    }
    let rows = broker.list_groups(Some(&queue)).await?;
    Ok(Json(SeekAnswer {
        success: true,
        partitions_updated: rows.iter().find(|row| row.name == group).map_or(0, |row| row.partitions),
        consumer_group: group,
        queue_name: queue,
        seek_to_end: place == Seek::End,
        target_timestamp: if let Seek::Time(at) = place { Some(millis(at)) } else { None },
    }))
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SeekPartitionAnswer {
    success: bool,
    updated: bool,
    queue_name: String,
    partition_name: String,
    consumer_group: String,
    /// The place in the log up to which everything counts as done.
    cursor_moved_to: Option<String>,
}

/// Move a group in one partition behind everything that is there.
#[utoipa::path(post, path = "/api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek", tag = "groups",
    params(("group" = String, Path), ("queue" = String, Path), ("partition" = String, Path)), responses(
    (status = 200, description = "Whether there are such a group and partition", body = SeekPartitionAnswer), Refusals,
))]
async fn seek_partition(
    scope: Scope<Move>,
    Path((consumer_group, queue_name, partition_name)): Path<(String, String, String)>,
) -> Result<Json<SeekPartitionAnswer>, Error> {
    let moved = scope.on(&queue_name)?.seek_partition(&queue_name, &consumer_group, &partition_name).await?;
    Ok(Json(SeekPartitionAnswer {
        success: true,
        updated: moved.is_some(),
        queue_name,
        partition_name,
        consumer_group,
        cursor_moved_to: moved.map(|seq| seq.to_string()),
    }))
}
