//! Messages, for people.

use crate::Error;
use crate::broker::{Broker, PartitionId};
use chrono::{DateTime, Utc};
use uuid::Uuid;

/// Which messages to list.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this queue.
    pub queue: Option<String>,
    /// Of this partition.
    pub partition: Option<String>,
    /// Pushed at this time or later.
    pub from: Option<DateTime<Utc>>,
    /// Pushed before this time.
    pub to: Option<DateTime<Utc>>,
    /// Behind these, of the page before: the last one's seq. The newest come first.
    pub before: Option<i64>,
    /// At most so many; 0: 200.
    pub limit: u32,
}

/// A message, as a list shows it.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct MessageRow {
    /// Its id.
    pub id: Uuid,
    /// The caller's key.
    pub key: Option<String>,
    /// The trace that it belongs to.
    pub trace: Option<Uuid>,
    /// Who pushed it.
    pub sub: Option<String>,
    /// Its queue.
    pub queue: String,
    /// Its partition.
    pub part: PartitionId,
    /// The partition's name.
    pub partition: String,
    /// Its place in the log.
    pub seq: i64,
    /// Its number in its partition.
    pub n: i64,
    /// When it was pushed.
    pub at: DateTime<Utc>,
    /// Groups of its queue.
    pub groups: i64,
    /// Groups that have done it.
    pub done_by: i64,
    /// Groups that have it leased now.
    pub leased_by: i64,
    /// Groups that it is dead for.
    pub dead_for: i64,
}

/// A message with all that is known of it.
#[derive(Debug, Clone)]
pub struct MessageView {
    /// What a list shows.
    pub row: MessageRow,
    /// The payload, as JSON text.
    pub payload: String,
    /// What it is to each group.
    pub groups: Vec<GroupView>,
}

/// What a message is to a group.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct GroupView {
    /// The group.
    pub group_name: String,
    /// It has done it.
    pub is_done: bool,
    /// The end of the lease under which it has it now.
    pub until: Option<DateTime<Utc>>,
    /// How often it was tried there, if it is dead for it.
    pub tries: Option<i32>,
    /// Why it is dead for it.
    pub error: Option<String>,
}

impl Broker {
    /// Messages that are visible, the newest first.
    pub async fn list_messages(&self, filter: &Filter) -> Result<Vec<MessageRow>, Error> {
        let limit = if filter.limit == 0 { 200 } else { filter.limit };
        sqlx::query_as(self.statements().list_messages())
            .bind(self.bugle.namespace_number())
            .bind(&filter.queue)
            .bind(&filter.partition)
            .bind(filter.from)
            .bind(filter.to)
            .bind(filter.before)
            .bind(i64::from(limit))
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }

    /// One message, by its partition and its key, or its id if it has no key; the newest, should there be several. `None`: there is none.
    pub async fn show_message(
        &self,
        partition: PartitionId,
        key: &str,
    ) -> Result<Option<MessageView>, Error> {
        let pool = self.bugle.pool();
        let found: Option<(i64, String)> = sqlx::query_as(self.statements().find_message())
            .bind(self.bugle.namespace_number())
            .bind(partition)
            .bind(key)
            .fetch_optional(pool)
            .await
            .map_err(Error::executing)?;
        let Some((seq, payload)) = found else { return Ok(None) };
        let row: Option<MessageRow> = sqlx::query_as(self.statements().show_message())
            .bind(partition)
            .bind(seq)
            .fetch_optional(pool)
            .await
            .map_err(Error::executing)?;
        let Some(row) = row else { return Ok(None) };
        let groups = sqlx::query_as(self.statements().groups_of_message())
            .bind(partition)
            .bind(seq)
            .fetch_all(pool)
            .await
            .map_err(Error::executing)?;
        Ok(Some(MessageView { row, payload, groups }))
    }
}
