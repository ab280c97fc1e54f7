//! Queues of messages, by their numbers.

use super::Broker;
use crate::Error;
use crate::name::{PartitionName, QueueName};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Names that a node remembers: some megabytes. Above that it begins anew.
const NAMES_MAX: usize = 100_000;

impl Broker {
    /// The number of a queue, made on first use in a transaction of its own: whoever makes several queues at once waits in no circle.
    pub(super) async fn declare(&self, name: &QueueName) -> Result<i32, Error> {
        if let Some(number) = locked(&self.shared().queues).get(name) {
            return Ok(*number);
        }
        let declare = || async {
            sqlx::query_scalar(self.statements().declare_message_queue())
                .bind(name.as_str())
                .bind(self.bugle.namespace().as_str())
                .fetch_one(self.bugle.pool())
                .await
                .map_err(Error::executing)
        };
        let number = match declare().await {
            Err(error) if error.is_passing() => declare().await?,
            answer => answer?,
        };
        remember(&self.shared().queues, name.clone(), number);
        Ok(number)
    }

    /// The number of a queue that is there already.
    pub(super) async fn find(&self, name: &QueueName) -> Result<Option<i32>, Error> {
        if let Some(number) = locked(&self.shared().queues).get(name) {
            return Ok(Some(*number));
        }
        let number: Option<i32> = sqlx::query_scalar(self.statements().find_message_queue())
            .bind(self.bugle.namespace_number())
            .bind(name.as_str())
            .fetch_optional(self.bugle.pool())
            .await
            .map_err(Error::executing)?;
        if let Some(number) = number {
            remember(&self.shared().queues, name.clone(), number);
        }
        Ok(number)
    }

    /// A queue was not there any more.
    pub(super) fn forget(&self, name: &QueueName) {
        locked(&self.shared().queues).remove(name);
    }

    /// The number of a partition; `None`: there is no such queue, or no such partition and it is not to be made.
    pub(super) async fn partition(
        &self,
        queue: i32,
        name: &PartitionName,
        make: bool,
    ) -> Result<Option<i32>, Error> {
        let known = (queue, name.clone());
        if let Some(number) = locked(&self.shared().partitions).get(&known) {
            return Ok(Some(*number));
        }
        let mut number = self.ask_partition(self.statements().find_partition(), queue, name).await?;
        if number.is_none() && make {
            number = self.ask_partition(self.statements().declare_partition(), queue, name).await?;
        }
        if let Some(number) = number {
            remember(&self.shared().partitions, known, number);
        }
        Ok(number)
    }

    async fn ask_partition(
        &self,
        statement: sqlx::SqlStr,
        queue: i32,
        name: &PartitionName,
    ) -> Result<Option<i32>, Error> {
        sqlx::query_scalar(statement)
            .bind(queue)
            .bind(name.as_str())
            .fetch_one(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }
}

/// Remembers a name's number.
pub(super) fn remember<K: Hash + Eq>(names: &Mutex<HashMap<K, i32>>, name: K, number: i32) {
    let mut names = locked(names);
    if names.len() >= NAMES_MAX {
        names.clear();
    }
    names.insert(name, number);
}

/// Nothing panics half-way while one of these is held.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
