//! One queue, by its number.

use crate::name::QueueName;
use crate::{Bugle, Error};

/// A queue, found once by its name. Cheap to clone.
///
/// A [`Worker`](super::Worker) is the comfortable way to run jobs; this is the plain one: claim, do the work, ack.
#[derive(Clone)]
pub struct Queue {
    pub(super) bugle: Bugle,
    pub(super) number: i32,
    pub(super) name: QueueName,
}

impl Bugle {
    /// The queue of this name, made if it does not exist.
    pub async fn queue(&self, name: &str) -> Result<Queue, Error> {
        let name = QueueName::parse(name)?;
        let number = sqlx::query_scalar(self.statements().declare_queue())
            .bind(name.as_str())
            .bind(self.namespace().as_str())
            .fetch_one(self.pool())
            .await
            .map_err(Error::executing)?;
        Ok(Queue { bugle: self.clone(), number, name })
    }
}

impl Queue {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &QueueName {
        &self.name
    }

    /// Takes back the jobs of leases that have ended; returns how many. Every look that is not full does this by itself: only a queue
    /// whose looks are always full needs the call.
    pub async fn sweep(&self) -> Result<i32, Error> {
        sqlx::query_scalar(self.bugle.statements().sweep())
            .bind(self.number)
            .fetch_one(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }
}
