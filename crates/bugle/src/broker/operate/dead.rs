//! Dead letters: seen, put back, thrown away.

use crate::Error;
use crate::broker::{Broker, PartitionId};
use crate::name::QueueName;
use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use uuid::Uuid;

/// Dead letters that one transaction puts back.
const STEP: i32 = 1_000;

/// A message that is dead for a group.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct DeadMessage {
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
    /// The group that it is dead for.
    pub group_name: String,
    /// Why, in the consumer's words.
    pub error: Option<String>,
    /// How often it was tried.
    pub tries: i32,
    /// When it was pushed.
    pub at: DateTime<Utc>,
    /// When it died.
    pub died_at: DateTime<Utc>,
    /// The payload, as JSON text.
    #[serde(serialize_with = "as_it_is")]
    pub payload: String,
}

/// JSON text becomes JSON, untouched.
fn as_it_is<S: Serializer>(payload: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serde_json::from_str::<&RawValue>(payload).map_err(serde::ser::Error::custom)?.serialize(serializer)
}

impl Broker {
    /// Dead letters of a queue (`None`: of all) and group (`None`: of all), the last to die first, and how many there are in all.
    pub async fn list_dead(
        &self,
        queue: Option<&str>,
        group: Option<&str>,
        limit: u32,
        offset: u32,
    ) -> Result<(Vec<DeadMessage>, i64), Error> {
        let pool = self.bugle.pool();
        let rows = sqlx::query_as(self.statements().list_dead_messages())
            .bind(self.bugle.namespace_number())
            .bind(queue)
            .bind(group)
            .bind(i64::from(limit))
            .bind(i64::from(offset))
            .fetch_all(pool)
            .await
            .map_err(Error::executing)?;
        let total = sqlx::query_scalar(self.statements().count_dead_messages())
            .bind(self.bugle.namespace_number())
            .bind(queue)
            .bind(group)
            .fetch_one(pool)
            .await
            .map_err(Error::executing)?;
        Ok((rows, total))
    }

    /// Puts dead letters of a queue back: of a group (`None`: of all), of a partition and with a key (`None`: any). Each comes again for the group
    /// that it was dead for, and for no other, at the end of its partition. Returns how many.
    pub async fn redrive_dead(
        &self,
        queue: &str,
        group: Option<&str>,
        partition: Option<PartitionId>,
        key: Option<&str>,
    ) -> Result<u64, Error> {
        let Some(number) = self.find_anew(&QueueName::parse(queue)?).await? else { return Ok(0) };
        let mut total = 0;
        loop {
            let again: i32 = sqlx::query_scalar(self.statements().redrive_dead())
                .bind(number)
                .bind(group)
                .bind(partition)
                .bind(key)
                .bind(STEP)
                .fetch_one(self.bugle.pool())
                .await
                .map_err(Error::executing)?;
            total += u64::from(again.unsigned_abs());
            if again < STEP {
                self.bugle.wake_local(number);
                return Ok(total);
            }
        }
    }

    /// Throws dead letters of a queue away, chosen as for [`Broker::redrive_dead`]. Returns how many.
    pub async fn purge_dead(
        &self,
        queue: &str,
        group: Option<&str>,
        partition: Option<PartitionId>,
        key: Option<&str>,
    ) -> Result<u64, Error> {
        let Some(number) = self.find_anew(&QueueName::parse(queue)?).await? else { return Ok(0) };
        let purged = sqlx::query(self.statements().purge_dead())
            .bind(number)
            .bind(group)
            .bind(partition)
            .bind(key)
            .execute(self.bugle.pool())
            .await
            .map_err(Error::executing)?;
        Ok(purged.rows_affected())
    }
}
