//! Consumer groups, by their numbers.

use super::Broker;
use super::queue::{locked, remember};
use crate::Error;
use crate::name::GroupName;
use chrono::{DateTime, Utc};

/// Where a new group begins to read. A group that is there goes on where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// With the oldest message that is kept.
    #[default]
    All,
    /// With what is pushed from now on.
    New,
    /// With what was pushed at this time or later.
    From(DateTime<Utc>),
}

impl Broker {
    /// The number of a group, made on first use; `None`: there is no such queue any more.
    pub(super) async fn group(
        &self,
        queue: i32,
        name: &GroupName,
        start: Start,
    ) -> Result<Option<i32>, Error> {
        let known = (queue, name.clone());
        if let Some(number) = locked(&self.shared().groups).get(&known) {
            return Ok(Some(*number));
        }
        let (mode, from) = match start {
            Start::All => ("all", None),
            Start::New => ("new", None),
            Start::From(at) => ("from", Some(at)),
        };
        let number: Option<i32> = sqlx::query_scalar(self.statements().declare_group())
            .bind(queue)
            .bind(name.as_str())
            .bind(mode)
            .bind(from)
            .fetch_one(self.bugle.pool())
            .await
            .map_err(Error::executing)?;
        if let Some(number) = number {
            remember(&self.shared().groups, known, number);
        }
        Ok(number)
    }

    /// A group was not there any more: it was deleted, or has moved and has another number.
    pub(super) fn forget_group(&self, queue: i32, name: &GroupName) {
        locked(&self.shared().groups).remove(&(queue, name.clone()));
    }
}
