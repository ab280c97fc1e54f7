//! Telling the database what became of the jobs, in batches: whatever was reported while the last batch was under way is the next.

use super::counters::Counters;
use super::leases::Leases;
use super::report::{Fate, Report};
use super::run::Slots;
use crate::jobs::settle::Desk;
use crate::jobs::{Failure, Queue, Receipt};
use crate::pg::connect;
use crate::{Error, Outcome};
use sqlx::PgConnection;
use sqlx::types::Json;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Most jobs in one statement.
const BATCH: usize = 500;
/// More jobs than this that wait to be settled free no more slots.
const PENDING_MAX: usize = 4 * BATCH;
/// A job that ended as fast as this is one of many, as a rule: let the others of its claim end before it is settled.
const SHORT: Duration = Duration::from_millis(1);
/// How long after the last batch the connection is kept.
const KEEP: Duration = Duration::from_secs(1);
/// How long a statement may take to be answered.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How long a statement is tried before its jobs are left to the end of their leases: a failover takes less.
const TRY_FOR: Duration = Duration::from_mins(1);
/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Settles what is reported until every sender is gone.
pub(super) async fn run(mut settler: Settler, mut inbox: Inbox) {
    loop {
        while inbox.pending.is_empty() {
            if inbox.is_closed {
                return;
            }
            match settler.keeps() {
                Some(time) if tokio::time::timeout(time, inbox.fill()).await.is_err() => settler.own = None,
                Some(_) => {}
                None => inbox.fill().await,
            }
        }
        let batch = inbox.take();
        let mut settled = pin!(settler.settle_all(batch));
        loop {
            tokio::select! {
                biased;
                () = &mut settled => break,
                () = inbox.fill(), if !inbox.is_closed => {}
            }
        }
    }
}

/// What was reported and is not settled yet. Receiving a report frees its job's slot: the next claim does not wait for the settlement.
pub(super) struct Inbox {
    reports: mpsc::UnboundedReceiver<Report>,
    is_closed: bool,
    pending: Vec<Report>,
    /// Slots of jobs that have ended.
    free: usize,
    slots: Weak<Slots>,
}

impl Inbox {
    pub(super) fn new(reports: mpsc::UnboundedReceiver<Report>, slots: &Arc<Slots>) -> Self {
        Self { reports, is_closed: false, pending: Vec::new(), free: 0, slots: Arc::downgrade(slots) }
    }

    /// Waits for reports. May be cancelled.
    async fn fill(&mut self) {
        let mut received = self.reports.recv_many(&mut self.pending, BATCH).await;
        self.is_closed = received == 0;
        while received > 0 {
            self.free += received;
            // A slot freed alone would be a claim of one job, and an ack of one. No slot is freed in here, so this comes to an end.
            if self.pending.last().is_none_or(|last| last.ran > SHORT) {
                break;
            }
            tokio::task::yield_now().await;
            received = self.receive_ready();
        }
        self.free_slots();
    }

    fn receive_ready(&mut self) -> usize {
        let before = self.pending.len();
        while let Ok(report) = self.reports.try_recv() {
            self.pending.push(report);
        }
        self.pending.len() - before
    }

    /// The next batch.
    fn take(&mut self) -> Vec<Report> {
        let later = self.pending.split_off(self.pending.len().min(BATCH));
        let batch = std::mem::replace(&mut self.pending, later);
        self.free_slots();
        batch
    }

    fn free_slots(&mut self) {
        if self.free == 0 || self.pending.len() > PENDING_MAX {
            return;
        }
        if let Some(slots) = self.slots.upgrade() {
            slots.add(u32::try_from(self.free).unwrap_or(u32::MAX));
        }
        self.free = 0;
    }
}

/// The jobs of a batch that one statement settles.
enum Part {
    Done(Vec<Receipt>, Option<Vec<Option<Json<serde_json::Value>>>>),
    Failed(Vec<Failure>),
    /// See [`Fate::Completed`].
    Completed(Vec<Failure>),
    Snoozed(Vec<(Receipt, Duration)>),
    Released(Vec<Receipt>),
}

impl Part {
    /// Divides a batch. Those that came to nothing are only to be noted.
    fn divide(batch: Vec<Report>) -> (Vec<Self>, Vec<Receipt>) {
        let (mut done, mut results, mut has_results) = (Vec::with_capacity(batch.len()), Vec::new(), false);
        let (mut failed, mut completed) = (Vec::new(), Vec::new());
        let (mut snoozed, mut released, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for Report { receipt, fate, .. } in batch {
            match fate {
                Fate::Done(result) => {
                    has_results |= result.is_some();
                    done.push(receipt);
                    results.push(result.map(Json));
                }
                Fate::Failed(failure) => failed.push(failure),
                Fate::Completed(failure) => completed.push(failure),
                Fate::Snoozed(delay) => snoozed.push((receipt, delay)),
                Fate::Released => released.push(receipt),
                Fate::Gone => gone.push(receipt),
            }
        }
        let parts = [
            Self::Failed(failed),
            Self::Released(released),
            Self::Snoozed(snoozed),
            Self::Completed(completed),
            Self::Done(done, has_results.then_some(results)),
        ];
        (parts.into_iter().filter(|part| !part.receipts().is_empty()).collect(), gone)
    }

    fn receipts(&self) -> Vec<Receipt> {
        match self {
            Self::Done(receipts, _) | Self::Released(receipts) => receipts.clone(),
            Self::Failed(failures) | Self::Completed(failures) => {
                failures.iter().map(|f| f.receipt).collect()
            }
            Self::Snoozed(jobs) => jobs.iter().map(|(receipt, _)| *receipt).collect(),
        }
    }

    /// Sends the statement; how many jobs it found.
    async fn send(&self, desk: Desk<'_>, closed: &[i64]) -> Result<usize, Error> {
        Ok(match self {
            Self::Done(receipts, results) => desk.ack(receipts, results.clone(), closed).await?.len(),
            Self::Failed(failures) => desk.fail(failures, closed).await?.len(),
            Self::Completed(failures) => {
                let rolled_back = desk.fail(failures, closed).await?.len();
                if rolled_back > 0 {
                    tracing::warn!(jobs = rolled_back, "completed in transactions that were not committed");
                }
                failures.len()
            }
            Self::Snoozed(jobs) => desk.snooze(jobs, closed).await?.len(),
            Self::Released(receipts) => desk.release(receipts, closed).await?.len(),
        })
    }
}

pub(super) struct Settler {
    queue: Queue,
    leases: Arc<Leases>,
    counters: Arc<Counters>,
    /// A connection of its own, while work flows: one of the pool is asked first whether it lives, and has plans to make anew.
    own: Option<PgConnection>,
    last_used: Option<Instant>,
}

impl Settler {
    pub(super) fn new(queue: Queue, leases: Arc<Leases>, counters: Arc<Counters>) -> Self {
        Self { queue, leases, counters, own: None, last_used: None }
    }

    /// How long to keep the connection, if there is one.
    fn keeps(&self) -> Option<Duration> {
        self.own.is_some().then_some(KEEP)
    }

    async fn settle_all(&mut self, batch: Vec<Report>) {
        let (parts, gone) = Part::divide(batch);
        self.leases.settle(&gone, true);
        for part in parts {
            self.settle(&part).await;
        }
    }

    /// Runs one settling statement until it is answered. Trying again is safe: a receipt works once.
    async fn settle(&mut self, part: &Part) {
        let receipts = part.receipts();
        let jobs = receipts.len();
        let begun = Instant::now();
        let mut doubtful = false;
        for attempt in 1_u32.. {
            // After an unknown outcome rows may be gone that this call would count: leave the lease to its end.
            let closed = if doubtful { Vec::new() } else { self.leases.closed_by(&receipts) };
            let answer = tokio::time::timeout(ANSWER_WITHIN, self.send(part, &closed)).await;
            match answer.unwrap_or_else(|_| Err(Error::timed_out())) {
                Ok(ended) => {
                    self.counters.settlements.one();
                    if ended < jobs {
                        tracing::debug!(
                            lost = jobs - ended,
                            "jobs were lost or cancelled before they were settled"
                        );
                    }
                    return self.leases.settle(&receipts, !doubtful);
                }
                Err(error) if begun.elapsed() > TRY_FOR => {
                    self.counters.unsettled.add(u64::try_from(jobs).unwrap_or(u64::MAX));
                    tracing::error!(%error, attempt, jobs, "jobs could not be settled: they will run again when their leases end");
                    return self.leases.settle(&receipts, false);
                }
                Err(error) => {
                    doubtful |= error.outcome() == Outcome::Unknown;
                    self.counters.settlements_retried.one();
                    tracing::warn!(%error, attempt, jobs, "jobs could not be settled, trying again");
                    let pause = Duration::from_millis(50) * 2_u32.pow(attempt.min(7));
                    tokio::time::sleep(pause.min(PAUSE_MAX)).await;
                }
            }
        }
    }

    /// On its own connection when work flows, on one of the pool when it trickles. One that breaks is not used again.
    async fn send(&mut self, part: &Part, closed: &[i64]) -> Result<usize, Error> {
        let now = Instant::now();
        let flows = self.last_used.replace(now).is_some_and(|last| now - last < KEEP);
        let Some(mut own) = (match self.own.take() {
            None if flows => Some(connect::one(&self.queue.bugle.pool().connect_options()).await?),
            own => own,
        }) else {
            return part.send(self.queue.desk(&mut *self.queue.connection().await?), closed).await;
        };
        let ended = part.send(self.queue.desk(&mut own), closed).await?;
        self.own = Some(own);
        Ok(ended)
    }
}
