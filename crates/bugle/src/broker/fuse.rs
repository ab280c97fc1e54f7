//! Pushes, and verdicts, of many callers at once, written together. A lane is chosen by the partition: two statements of one node seldom wait
//! for the same partition.

use super::counts::Shares;
use super::push::{self, Numbered, Written};
use super::settle::{self, Settle, Settled};
use crate::fuse::Batch;
use crate::{Bugle, Error, Outcome};
use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, Postgres};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};

/// Statements under way at once: with two of them the next is on its way while the disk is flushed.
const LANES: usize = 2;

/// What one statement can write for several callers.
pub(crate) trait Write: Clone + Send + Sync + 'static {
    type Item: Send + Sync + 'static;
    type Done: Send + 'static;

    /// Most items of one statement, unless one call alone has more.
    const MOST: usize;

    fn bugle(&self) -> &Bugle;

    /// Where its calls are counted.
    fn shares(&self) -> &Shares;

    /// Writes all of them or none; one answer for each, in their order.
    fn write(
        &self,
        connection: &mut PgConnection,
        items: &[&Self::Item],
    ) -> impl Future<Output = Result<Vec<Self::Done>, Error>> + Send;
}

/// Messages of a handle.
#[derive(Clone)]
pub(crate) struct Pushes(pub(super) Bugle);

impl Write for Pushes {
    type Item = Numbered;
    type Done = Written;

    /// Their partitions' locks live in a table of fixed size.
    const MOST: usize = 500;

    fn bugle(&self) -> &Bugle {
        &self.0
    }

    fn shares(&self) -> &Shares {
        &self.0.broker_shared().counts.pushes
    }

    async fn write(
        &self,
        connection: &mut PgConnection,
        messages: &[&Numbered],
    ) -> Result<Vec<Written>, Error> {
        let statement = self.0.broker_shared().statements.push_messages();
        let written = push::write(connection, statement, messages).await?;
        for queue in push::queues(messages) {
            self.0.wake_local(queue);
        }
        Ok(written)
    }
}

/// Verdicts of a handle.
#[derive(Clone)]
pub(crate) struct Settles(pub(super) Bugle);

impl Write for Settles {
    type Item = Settle;
    type Done = Settled;

    /// What a small machine reads and writes in some milliseconds.
    const MOST: usize = 2_000;

    fn bugle(&self) -> &Bugle {
        &self.0
    }

    fn shares(&self) -> &Shares {
        &self.0.broker_shared().counts.settles
    }

    async fn write(
        &self,
        connection: &mut PgConnection,
        verdicts: &[&Settle],
    ) -> Result<Vec<Settled>, Error> {
        let statements = &self.0.broker_shared().statements;
        let namespace = self.0.namespace_number();
        let (settled, queues) = settle::settle(connection, statements, namespace, verdicts).await?;
        for queue in queues {
            self.0.wake_local(queue);
        }
        Ok(settled)
    }
}

/// The lane of a call, by the first of its partitions.
pub(super) fn lane_of(partition: impl Hash) -> usize {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(partition);
    usize::try_from(hash).unwrap_or_default() % LANES
}

/// Calls that are written together.
#[derive(Clone)]
pub(crate) struct Fused<W>(pub(super) W);

impl<W: Write> Batch for Fused<W> {
    /// The lane.
    type Key = usize;
    type Call = Vec<W::Item>;
    type Answer = Result<Vec<W::Done>, Error>;
    type Kept = Option<PoolConnection<Postgres>>;

    const MOST: usize = W::MOST;

    fn weight(items: &Vec<W::Item>) -> usize {
        items.len()
    }

    async fn make(&self, _: &usize, kept: &mut Self::Kept, calls: Vec<Self::Call>) -> Vec<Self::Answer> {
        let bugle = self.0.bugle();
        self.0.shares().requests.add(u64::try_from(calls.len()).unwrap_or(u64::MAX));
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => match bugle.broker_shared().counts.connection(bugle.pool()).await {
                Ok(acquired) => acquired,
                Err(error) => return alike(calls.len(), &error),
            },
        };
        let answers = self.make_on(&mut connection, &calls).await;
        // Where something failed it is perhaps the connection that is broken.
        *kept = answers.iter().all(Result::is_ok).then_some(connection);
        answers
    }
}

impl<W: Write> Fused<W> {
    async fn make_on(
        &self,
        connection: &mut PgConnection,
        calls: &[Vec<W::Item>],
    ) -> Vec<Result<Vec<W::Done>, Error>> {
        let all: Vec<&W::Item> = calls.iter().flatten().collect();
        match self.write(connection, &all).await {
            Ok(done) => {
                let mut done = done.into_iter();
                calls.iter().map(|call| Ok(done.by_ref().take(call.len()).collect())).collect()
            }
            // Nothing was written, perhaps because of one of them: each gets its own answer.
            Err(error) if calls.len() > 1 && error.outcome() == Outcome::Refused => {
                let mut answers = Vec::with_capacity(calls.len());
                for call in calls {
                    let own: Vec<&W::Item> = call.iter().collect();
                    answers.push(self.write(connection, &own).await);
                }
                answers
            }
            Err(error) => alike(calls.len(), &error),
        }
    }

    /// Writes; what others stood in the way of for a moment is tried once more.
    async fn write(&self, connection: &mut PgConnection, items: &[&W::Item]) -> Result<Vec<W::Done>, Error> {
        self.0.shares().statements.one();
        match self.0.write(&mut *connection, items).await {
            Err(error) if error.is_passing() => {
                self.0.shares().statements.one();
                self.0.write(connection, items).await
            }
            answer => answer,
        }
    }
}

/// The same answer for all.
fn alike<A>(count: usize, error: &Error) -> Vec<Result<A, Error>> {
    (0..count).map(|_| Err(error.again())).collect()
}
