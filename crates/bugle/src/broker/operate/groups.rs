//! Consumer groups: where they are, and how they are moved.

use crate::Error;
use crate::broker::{Broker, PartitionId};
use crate::name::{GroupName, PartitionName, QueueName};
use chrono::{DateTime, Utc};
use serde::Serialize;
use uuid::Uuid;

/// How often a seek in one partition is tried that met a claim or an ack.
const TRIES: usize = 20;

/// Where a group shall go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seek {
    /// With the oldest message that is kept.
    Beginning,
    /// With what is pushed from now on.
    End,
    /// With what was pushed at this time or later.
    Time(DateTime<Utc>),
}

/// A group of a queue.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct GroupRow {
    /// Its name.
    pub name: String,
    /// Its queue.
    pub queue: String,
    /// How it was subscribed, or last moved: `all`, `new` or `from`.
    pub mode: String,
    /// From when on, for `from`.
    pub start_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Partitions of its queue.
    pub partitions: i64,
    /// Messages that it has not done.
    pub lag: i64,
    /// Partitions that have some.
    pub partitions_behind: i64,
    /// When the oldest of them was pushed.
    pub first_at: Option<DateTime<Utc>>,
}

/// A group in one partition.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct LagRow {
    /// The group.
    pub group_name: String,
    /// The partition.
    pub part: PartitionId,
    /// Its name.
    pub partition: String,
    /// Everything up to here is done.
    pub cur: i64,
    /// Messages that are not.
    pub lag: i64,
    /// When the oldest of them was pushed.
    pub first_at: Option<DateTime<Utc>>,
    /// The lease that it has now.
    pub token: Option<Uuid>,
    /// Its end.
    pub until: Option<DateTime<Utc>>,
    /// Claims in a row that came to nothing.
    pub tries: i32,
    /// Messages that are leased now.
    pub leased: i64,
}

impl Broker {
    /// All groups of all queues, or of one; exact, by two probes for each partition.
    pub async fn list_groups(&self, queue: Option<&str>) -> Result<Vec<GroupRow>, Error> {
        sqlx::query_as(self.statements().list_groups())
            .bind(self.bugle.namespace_number())
            .bind(queue)
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }

    /// Where the groups of a queue are, or one of them, partition by partition.
    pub async fn lag(&self, queue: &str, group: Option<&str>) -> Result<Vec<LagRow>, Error> {
        let Some(number) = self.find_anew(&QueueName::parse(queue)?).await? else { return Ok(Vec::new()) };
        sqlx::query_as(self.statements().group_lag())
            .bind(number)
            .bind(group)
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }

    /// Moves a group, which is made if it is not there. What it has leased is lost. `false`: there is no such queue.
    pub async fn seek(&self, queue: &str, group: &str, to: Seek) -> Result<bool, Error> {
        let (name, group) = (QueueName::parse(queue)?, GroupName::parse(group)?);
        let Some(number) = self.find_anew(&name).await? else { return Ok(false) };
        let (place, at) = match to {
            Seek::Beginning => ("beginning", None),
            Seek::End => ("end", None),
            Seek::Time(at) => ("time", Some(at)),
        };
        let moved = sqlx::query_scalar(self.statements().seek_group())
            .bind(number)
            .bind(group.as_str())
            .bind(place)
            .bind(at)
            .fetch_one(self.bugle.pool())
            .await
            .map_err(Error::executing);
        self.forget_group(number, &group);
        moved
    }

    /// Moves a group in one partition behind all that is there; the seq that it is at. `None`: there is no such group or partition.
    pub async fn seek_partition(
        &self,
        queue: &str,
        group: &str,
        partition: &str,
    ) -> Result<Option<i64>, Error> {
        let (name, group) = (QueueName::parse(queue)?, GroupName::parse(group)?);
        let partition = PartitionName::parse(partition)?;
        let Some(number) = self.find_anew(&name).await? else { return Ok(None) };
        for _ in 0..TRIES {
            let place: Option<i64> = sqlx::query_scalar(self.statements().seek_partition())
                .bind(number)
                .bind(group.as_str())
                .bind(partition.as_str())
                .fetch_one(self.bugle.pool())
                .await
                .map_err(Error::executing)?;
            if place != Some(-1) {
                return Ok(place);
            }
        }
        Err(Error::Bug("a seek met somebody else's write again and again".to_owned()))
    }

    /// Deletes a group of a queue; its dead letters stay. `false`: there is none.
    pub async fn delete_group(&self, queue: &str, group: &str) -> Result<bool, Error> {
        let (name, group) = (QueueName::parse(queue)?, GroupName::parse(group)?);
        let Some(number) = self.find_anew(&name).await? else { return Ok(false) };
        let deleted = sqlx::query_scalar(self.statements().delete_group())
            .bind(number)
            .bind(group.as_str())
            .fetch_one(self.bugle.pool())
            .await
            .map_err(Error::executing);
        self.forget_group(number, &group);
        deleted
    }
}
