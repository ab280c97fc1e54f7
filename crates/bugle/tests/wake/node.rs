//! Real nodes: each `Bugle` that waits is one. Their heartbeat is an hour unless a test says otherwise, so that whatever happens soon was
//! caused by a prompt step and not found by the fallback.
use crate::fixture::{LEASE, Place, soon, until};
use bugle::jobs::{Claimed, Look};
use bugle::{Bugle, Options};
use bugle_wake::{Counters, Status};
use futures_util::poll;
use sqlx::PgPool;
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

pub(crate) const HOUR: Duration = Duration::from_hours(1);

impl Place {
    pub(crate) async fn node(&self) -> Bugle {
        self.node_with(|_| {}).await
    }

    pub(crate) async fn node_with(&self, tune: impl FnOnce(&mut Options)) -> Bugle {
        self.node_on(self.db.pool().clone(), tune).await
    }

    pub(crate) async fn node_on(&self, pool: PgPool, tune: impl FnOnce(&mut Options)) -> Bugle {
        let mut options = Options { schema: self.db.schema_name().unwrap(), ..Options::default() };
        options.wake.times.heartbeat = HOUR;
        tune(&mut options);
        Bugle::new(pool, options).await.unwrap()
    }

    /// The session of the only listener there is, or of the sentinel.
    pub(crate) async fn sentinels_session(&self) -> i32 {
        let bucket = self.bucket;
        self.one(&format!("SELECT pid FROM bugle.seat WHERE seat = 'sentinel' AND bucket = {bucket}")).await
    }

    /// A consumer that waits on a node, and that node asleep with the bell.
    pub(crate) async fn sentinel(&self, node: &Bugle) -> Waiter {
        let waiter = Waiter::on(node, "q").await;
        self.until_sentinel(node).await;
        self.until_second_look(node).await;
        waiter
    }

    /// A consumer that waits on a node, and that node asleep without the bell.
    pub(crate) async fn reserve(&self, node: &Bugle) -> Waiter {
        let waiter = Waiter::on(node, "q").await;
        self.until_reserve(node).await;
        self.until_second_look(node).await;
        waiter
    }

    pub(crate) async fn until_sentinel(&self, node: &Bugle) {
        until("it is the sentinel", async || status(node).seats.sentinel == [self.bucket]).await;
    }

    pub(crate) async fn until_reserve(&self, node: &Bugle) {
        until("it is a reserve", async || status(node).seats.reserve == [self.bucket]).await;
    }

    /// Asleep for good: the second look is over, and whatever comes now must be told.
    pub(crate) async fn until_second_look(&self, node: &Bugle) {
        until("the second look is over", async || {
            let status = status(node);
            let seats = [status.seats.sentinel, status.seats.reserve];
            seats.concat() == [self.bucket] && status.looking == 0
        })
        .await;
    }

    /// Nobody holds a seat of the queue's bucket.
    pub(crate) async fn until_nobody_sits(&self) {
        until("nobody sits", async || self.seats().await.is_empty()).await;
    }
}

pub(crate) fn status(node: &Bugle) -> Status {
    node.node().expect("nothing has waited on it").status()
}

pub(crate) fn counters(node: &Bugle) -> &Counters {
    node.node().expect("nothing has waited on it").counters()
}

/// A consumer that waits for one job. Dropped, it waits no more.
pub(crate) struct Waiter(AbortOnDropHandle<Option<Look>>);

impl Waiter {
    pub(crate) async fn on(node: &Bugle, queue: &str) -> Self {
        Self::with_lease(node, queue, LEASE).await
    }

    pub(crate) async fn with_lease(node: &Bugle, queue: &str, lease: Duration) -> Self {
        let queue = node.queue(queue).await.unwrap();
        let waiting = async move { queue.claim_within("w", 1, lease, HOUR).await.unwrap() };
        let mut waiting = Box::pin(waiting);
        assert!(poll!(&mut waiting).is_pending()); // it is registered now
        Self(AbortOnDropHandle::new(tokio::spawn(waiting)))
    }

    /// The job that it gets soon.
    pub(crate) async fn job(self) -> Claimed {
        soon("a job comes", self.0).await.unwrap().expect("the node has stopped").jobs.pop().unwrap()
    }

    pub(crate) fn has_got_something(&self) -> bool {
        self.0.is_finished()
    }
}

/// Waits until exactly one of these has got a job, and takes it out.
pub(crate) async fn winner(waiters: &mut Vec<Waiter>) -> (usize, Claimed) {
    until("somebody gets it", async || waiters.iter().any(Waiter::has_got_something)).await;
    let place = waiters.iter().position(Waiter::has_got_something).unwrap();
    (place, waiters.remove(place).job().await)
}
