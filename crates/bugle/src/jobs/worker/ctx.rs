//! What a handler is given besides the job: who runs it, what the application shares with it, and how to end it.

use super::verdict::Verdict;
use crate::Error;
use crate::jobs::{Claimed, JobId, Queue, Receipt};
use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::PgTransaction;
use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_util::sync::CancellationToken;

/// One attempt of one job. Cheap to clone.
#[derive(Clone)]
#[non_exhaustive]
pub struct Ctx {
    /// The job's number: the same in every attempt.
    pub id: JobId,
    /// Which attempt this is, counted from 1.
    pub attempt: u16,
    /// How many attempts the job has.
    pub max_attempts: u16,
    /// When it was enqueued: the same in every attempt.
    pub enqueued_at: DateTime<Utc>,
    /// The worker's name.
    pub worker: Arc<str>,
    /// Cancelled when the handler shall stop: the lease was lost, somebody cancelled the job, its time is up, or the worker drains no
    /// longer. The handler itself is dropped then; this is for what it has started elsewhere.
    pub stop: CancellationToken,
    receipt: Receipt,
    scope: Arc<Scope>,
    completed: Arc<AtomicBool>,
}

/// What all jobs of a worker have in common.
pub(super) struct Scope {
    pub(super) queue: Queue,
    pub(super) worker: Arc<str>,
    pub(super) shared: SharedState,
}

impl Ctx {
    pub(super) fn new(scope: &Arc<Scope>, job: &Claimed, stop: CancellationToken) -> Self {
        Self {
            id: job.id,
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            enqueued_at: job.enqueued_at,
            worker: scope.worker.clone(),
            stop,
            receipt: job.receipt,
            scope: scope.clone(),
            completed: Arc::default(),
        }
    }

    /// A text that is the same in every attempt of this job and belongs to no other: for services that take an idempotency key, so that
    /// an effect that was brought about twice counts once.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        // The number alone would be that of a job in somebody else's database as well.
        format!("bugle-{}-{:x}", self.id, self.enqueued_at.timestamp_micros())
    }

    /// Ends the job inside your own transaction: its effects and its end are committed together, or neither is. Exactly once, for
    /// effects in the database that Bugle is in.
    ///
    /// After a commit nothing more is done, whatever the handler returns. After a rollback the job is tried again. When the job is no
    /// longer held (lost, cancelled) this is an error, and PostgreSQL refuses to commit the transaction.
    ///
    /// ```no_run
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Pay { account: i64, amount: i64 }
    /// # impl bugle::Job for Pay { const KIND: &'static str = "pay"; }
    /// # use bugle::{Ctx, Shared};
    /// async fn pay(job: Pay, pool: Shared<sqlx::PgPool>, ctx: Ctx) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    ///     let mut tx = bugle::pg::begin(&pool).await?; // not the pool's own: a handler may be interrupted here
    ///     sqlx::query("UPDATE account SET balance = balance + $2 WHERE id = $1")
    ///         .bind(job.account).bind(job.amount).execute(&mut *tx).await?;
    ///     ctx.complete_in(&mut tx).await?;
    ///     tx.commit().await?;
    ///     Ok(())
    /// }
    /// ```
    pub async fn complete_in(&self, tx: &mut PgTransaction<'_>) -> Result<(), Error> {
        self.end_in(tx, None).await
    }

    /// Like [`Ctx::complete_in`], with a result that is kept with the history.
    pub async fn complete_in_with(
        &self,
        tx: &mut PgTransaction<'_>,
        result: &impl Serialize,
    ) -> Result<(), Error> {
        match Verdict::done_with(result) {
            Verdict::DoneWith { result } => self.end_in(tx, Some(result)).await,
            Verdict::Dead { message, .. } => Err(Error::Invalid {
                what: "result",
                fault: message,
                next: "return less, or a reference to it",
            }),
            _ => Err(Error::Bug("a result became another verdict".to_owned())),
        }
    }

    async fn end_in(
        &self,
        tx: &mut PgTransaction<'_>,
        result: Option<serde_json::Value>,
    ) -> Result<(), Error> {
        // Before the statement: if the caller goes away while it is under way, nobody knows whether it will be committed.
        self.completed.store(true, Ordering::Release);
        self.scope.queue.ack_in(tx, self.receipt, result).await
    }

    /// The token of the lease under which this attempt runs.
    pub(crate) fn token(&self) -> i64 {
        self.receipt.token()
    }

    /// Waits until the job is not ours any more. One that the handler has ended itself is not ours either, and the handler may go on.
    pub(super) async fn stopped(&self) {
        self.stop.cancelled().await;
        if self.is_completed() {
            std::future::pending::<()>().await;
        }
    }

    /// Was the job ended in a transaction of the handler's, committed or not?
    pub(super) fn is_completed(&self) -> bool {
        self.completed.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Ctx");
        shown.field("id", &self.id).field("attempt", &self.attempt).field("worker", &self.worker);
        shown.finish_non_exhaustive()
    }
}

/// Something that the application shares with its handlers: given once with [`Worker::share`](super::Worker::share), taken as an argument.
#[derive(Debug)]
pub struct Shared<T>(pub Arc<T>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// What is shared, by its type.
#[derive(Default, Clone)]
pub struct SharedState(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl SharedState {
    pub(super) fn add<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(value));
    }

    fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }
}

/// What a handler may take after the job: a [`Ctx`], or [`Shared`] things.
pub trait Argument: Sized + Send + 'static {
    /// Made for one attempt; `None`: it was not shared.
    fn of(ctx: &Ctx) -> Option<Self>;
    /// The name of the type that is needed and not shared.
    fn missing(shared: &SharedState) -> Option<&'static str>;
}

impl Argument for Ctx {
    fn of(ctx: &Ctx) -> Option<Self> {
        Some(ctx.clone())
    }

    fn missing(_: &SharedState) -> Option<&'static str> {
        None
    }
}

impl<T: Send + Sync + 'static> Argument for Shared<T> {
    fn of(ctx: &Ctx) -> Option<Self> {
        ctx.scope.shared.get().map(Self)
    }

    fn missing(shared: &SharedState) -> Option<&'static str> {
        shared.get::<T>().is_none().then(type_name::<T>)
    }
}
