//! Queues: their options, what is in them, and their end.

use crate::Error;
use crate::broker::{Broker, PartitionId};
use crate::name::{PartitionName, QueueName};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sqlx::types::Json;

/// What a queue of messages was told. `None`: it was not told, and no message is ever deleted because of that.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, sqlx::FromRow)]
#[serde(deny_unknown_fields, default)]
pub struct QueueOptions {
    /// One of two tags by which queues are popped from together.
    pub tag_namespace: Option<String>,
    /// The other.
    pub tag_task: Option<String>,
    /// How long a pop leases a partition; not told: 300.
    pub lease_seconds: Option<i32>,
    /// Retries before a message that fails is dead; not told: 3.
    pub retry_limit: Option<i32>,
    /// How long to wait before a retry; not told: not at all.
    pub retry_delay_ms: Option<i32>,
    /// A message is invisible for so long after its push.
    pub delay_seconds: Option<i32>,
    /// A partition is invisible for so long after its newest message.
    pub window_seconds: Option<i32>,
    /// Most messages that the queue shall hold which not all of its groups have done; 0: any number. Pushes beyond it are refused.
    pub messages_max: Option<i32>,
    /// A message is invisible from this age on.
    pub ttl_seconds: Option<i32>,
    /// Whoever pops by tags gets the messages of queues with a higher one before.
    pub priority: Option<i32>,
    /// Does `retention_seconds` count?
    pub retention_enabled: Option<bool>,
    /// Messages may go at this age, done or not.
    pub retention_seconds: Option<i32>,
    /// Messages that all groups have done may go at this age.
    pub completed_retention_seconds: Option<i32>,
    /// A message that has waited for so long is invisible.
    pub wait_seconds_max: Option<i32>,
    /// Shall payloads be encrypted? Yes is refused: it cannot be done yet.
    pub encryption_enabled: Option<bool>,
    /// Kept for whoever asks: dead letters are always kept.
    pub dead_letter_queue: Option<bool>,
    /// The same.
    pub dead_letter_after_retries: Option<bool>,
}

/// Queues by their tags; `None`: any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tags {
    /// Their first tag.
    pub namespace: Option<String>,
    /// Their second tag.
    pub task: Option<String>,
}

/// A queue, as a list shows it.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct QueueRow {
    /// Its number.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// How its waiters are woken.
    pub mode: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// What it was told.
    #[sqlx(flatten)]
    pub options: QueueOptions,
    /// How many partitions it has.
    pub partitions: i64,
    /// Messages that are visible.
    pub total: i64,
    /// Messages that the group that is furthest behind has not done; all of them without a group.
    pub pending: i64,
    /// Messages that are leased now.
    pub leased: i64,
    /// Dead letters.
    pub dead: i64,
}

/// A partition, as its queue shows it.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct PartitionRow {
    /// Its number.
    pub part: PartitionId,
    /// Its name.
    pub partition: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Messages that are visible.
    pub total: i64,
    /// Messages that the group that is furthest behind has not done.
    pub pending: i64,
    /// Messages that are leased now.
    pub leased: i64,
    /// Dead letters.
    pub dead: i64,
    /// When its oldest visible message was pushed.
    pub first_at: Option<DateTime<Utc>>,
    /// When its newest message was pushed.
    pub last_at: Option<DateTime<Utc>>,
}

impl Broker {
    /// Tells a queue its options, all of them: what is `None` is not told any more. The queue and its partition `Default` are made if they are
    /// not there.
    pub async fn configure(&self, queue: &str, options: &QueueOptions) -> Result<i32, Error> {
        let name = QueueName::parse(queue)?;
        sqlx::query_scalar(self.statements().configure_queue())
            .bind(name.as_str())
            .bind(Json(options))
            .bind(self.bugle.namespace().as_str())
            .fetch_one(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }

    /// The queues of messages with these tags, by their names, each with what is in it: some probes for each partition and group.
    pub async fn list_queues(&self, tags: &Tags) -> Result<Vec<QueueRow>, Error> {
        self.queues(tags, None).await
    }

    /// One queue; `None`: there is none of that name that holds messages.
    pub async fn show_queue(&self, queue: &str) -> Result<Option<(QueueRow, Vec<PartitionRow>)>, Error> {
        let Some(row) = self.queues(&Tags::default(), Some(queue)).await?.pop() else { return Ok(None) };
        let partitions = sqlx::query_as(self.statements().partition_counts())
            .bind(row.id)
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)?;
        Ok(Some((row, partitions)))
    }

    /// Is there a queue of this name that holds messages?
    pub async fn has_queue(&self, queue: &str) -> Result<bool, Error> {
        Ok(self.find_anew(&QueueName::parse(queue)?).await?.is_some())
    }

    async fn queues(&self, tags: &Tags, queue: Option<&str>) -> Result<Vec<QueueRow>, Error> {
        sqlx::query_as(self.statements().list_message_queues())
            .bind(self.bugle.namespace_number())
            .bind(&tags.namespace)
            .bind(&tags.task)
            .bind(queue)
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }

    /// Makes everything that is in a queue invisible, at once, for all groups. `false`: there is no such queue.
    pub async fn clear_queue(&self, queue: &str) -> Result<bool, Error> {
        let name = QueueName::parse(queue)?;
        let Some(number) = self.find_anew(&name).await? else { return Ok(false) };
        sqlx::query(self.statements().clear_queue())
            .bind(number)
            .execute(self.bugle.pool())
            .await
            .map_err(Error::executing)?;
        Ok(true)
    }

    /// Deletes a queue with all that it holds. `false`: there is no such queue.
    pub async fn delete_queue(&self, queue: &str) -> Result<bool, Error> {
        let name = QueueName::parse(queue)?;
        let Some(number) = self.find_anew(&name).await? else { return Ok(false) };
        self.forget(&name);
        sqlx::query_scalar(self.statements().delete_message_queue())
            .bind(number)
            .fetch_one(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }

    /// The name of the queue that a partition belongs to; `None`: there is no such partition.
    pub async fn queue_of(&self, partition: PartitionId) -> Result<Option<String>, Error> {
        sqlx::query_scalar(self.statements().queue_of_partition())
            .bind(self.bugle.namespace_number())
            .bind(partition)
            .fetch_optional(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }

    /// The number of a partition; `None`: there is no such queue or partition.
    pub async fn partition_id(&self, queue: &str, partition: &str) -> Result<Option<PartitionId>, Error> {
        let (queue, partition) = (QueueName::parse(queue)?, PartitionName::parse(partition)?);
        let Some(number) = self.find_anew(&queue).await? else { return Ok(None) };
        Ok(self.partition(number, &partition, false).await?.map(PartitionId))
    }

    /// The number of a queue as the database knows it now.
    pub(super) async fn find_anew(&self, name: &QueueName) -> Result<Option<i32>, Error> {
        self.forget(name);
        self.find(name).await
    }
}
