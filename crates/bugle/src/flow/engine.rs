//! What Bugle does itself in the workflows of a namespace: ends sleeps, matches signals, sees to deadlines. Jobs like any other, whose handler
//! is a function of the database.

use super::Flow;
use crate::jobs::{Claimed, Ctx, Queue, Verdict};
use crate::{Error, crash};
use sqlx::types::Json;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What a node that dies has in its hands here, a sleep's end or a signal, is late by so long. Each takes a moment only.
const LEASE: Duration = Duration::from_secs(5);

impl Flow {
    /// Does what Bugle has to do itself in the workflows of this namespace, until `stop` is cancelled. Every node that runs steps may: each
    /// thing is done once.
    pub async fn run_engine(&self, stop: CancellationToken) -> Result<(), Error> {
        let queue = self.bugle.engine_queue().await?;
        self.run_engine_on(queue, stop).await
    }

    /// The same on a queue that was found already.
    pub(super) async fn run_engine_on(&self, queue: Queue, stop: CancellationToken) -> Result<(), Error> {
        let (flow, number) = (self.clone(), queue.number());
        let worker = self.bugle.worker_of_known(queue).concurrency(4).lease(LEASE).handle_any(
            move |job: Claimed, ctx: Ctx| {
                let flow = flow.clone();
                async move {
                    flow.run_one(number, job, ctx)
                        .await
                        .unwrap_or_else(|error| Verdict::fail("engine", error.to_string()))
                }
            },
        );
        worker.run(stop).await
    }

    /// Has this namespace workflows, so that there may be something to do? From its first definition or signal on, of which control tells
    /// ([`Bugle::control_changes`](crate::Bugle::control_changes)).
    pub async fn is_used(&self) -> Result<bool, Error> {
        sqlx::query_scalar(self.statements().has_flow())
            .bind(self.bugle.namespace().as_str())
            .fetch_one(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }

    /// Does it, and ends its job, in one transaction.
    async fn run_one(&self, queue: i32, job: Claimed, ctx: Ctx) -> Result<Verdict, Error> {
        self.bugle.is_there().await;
        let begun = self.bugle.begin().await.map_err(Error::connecting);
        let mut tx = begun.inspect_err(|error| self.bugle.suspect(error))?;
        sqlx::query(self.statements().run_engine())
            .bind(queue)
            .bind(&job.kind)
            .bind(Json(&job.payload))
            .execute(&mut *tx)
            .await
            .map_err(Error::executing)?;
        ctx.complete_in(&mut tx).await?;
        tx.commit().await.map_err(Error::executing)?;
        crash::point("engine.after_commit");
        Ok(Verdict::Done)
    }
}
