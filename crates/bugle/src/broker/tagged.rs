//! Popping from whichever queue has some tags.

use super::operate::Tags;
use super::pop::Pop;
use super::source::Got;
use super::{Broker, Popped};
use crate::Error;
use crate::name::QueueName;
use futures_util::FutureExt as _;
use futures_util::future::select_all;
use std::sync::Arc;
use tokio::time::Instant;

impl Broker {
    /// One look for each queue, in the order of their priorities, until one has something.
    pub(super) async fn pop_tagged_now(&self, pop: &Arc<Pop>, tags: &Tags) -> Result<Option<Popped>, Error> {
        for (queue, _) in self.tagged(tags).await? {
            if let Some(popped) = self.pop_now(pop, &queue, None).await? {
                return Ok(Some(popped));
            }
        }
        Ok(None)
    }

    /// Waits for all queues at once, and gives back what the others bring when one was first. Queues that come or get other tags are control:
    /// it always rings.
    pub(super) async fn pop_tagged_until(
        &self,
        pop: &Arc<Pop>,
        tags: &Tags,
        deadline: Instant,
    ) -> Result<Option<Popped>, Error> {
        let mut changes = self.bugle.wake().node.control_changes();
        loop {
            changes.borrow_and_update(); // before the list is read: what changes meanwhile is seen
            if let Some(popped) = self.pop_tagged_now(pop, tags).await? {
                return Ok(Some(popped));
            }
            let (mut intentions, mut names) = (Vec::new(), Vec::new());
            for (queue, number) in self.tagged(tags).await? {
                if let Some(intention) = self.intend(pop, &queue, number, None).await? {
                    intentions.push(intention);
                    names.push((queue, number));
                }
            }
            let first = async {
                if intentions.is_empty() {
                    return std::future::pending().await;
                }
                let (got, place, _) =
                    select_all(intentions.iter().map(|intention| intention.next().boxed())).await;
                (got, place)
            };
            tokio::select! {
                (got, place) = first => match (got, &names[place]) {
                    (Some(Got::Messages(popped)), _) => return Ok(Some(*popped)),
                    (Some(Got::GroupIsGone), (queue, number)) => self.forget_names(queue, *number, pop),
                    (None, _) => return Err(Error::NoConnection(sqlx::Error::PoolClosed)), // the engine was stopped
                },
                told = changes.changed() => {
                    if told.is_err() {
                        return Err(Error::NoConnection(sqlx::Error::PoolClosed));
                    }
                }
                () = tokio::time::sleep_until(deadline) => return Ok(None),
            }
        }
    }

    /// The queues with these tags, the highest priority first.
    async fn tagged(&self, tags: &Tags) -> Result<Vec<(Arc<QueueName>, i32)>, Error> {
        let rows: Vec<(String, i32)> = sqlx::query_as(self.statements().tagged_queues())
            .bind(self.bugle.namespace_number())
            .bind(&tags.namespace)
            .bind(&tags.task)
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)?;
        rows.into_iter().map(|(name, number)| Ok((Arc::new(QueueName::parse(&name)?), number))).collect()
    }
}
