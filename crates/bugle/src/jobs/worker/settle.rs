//! Telling the database what became of the jobs, in batches: whatever was reported while the last batch was under way is the next.

use super::counters::Counters;
use super::inbox::Inbox;
use super::leases::Leases;
use super::report::{Fate, Report};
use crate::jobs::settle::Desk;
use crate::jobs::{Failure, Queue, Receipt};
use crate::pg::connect;
use crate::{Error, Outcome};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use sqlx::PgConnection;
use sqlx::types::Json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Most jobs in one statement.
const BATCH: usize = 1_000;
/// So many statements at once: the next one is at work while PostgreSQL flushes the first.
const AT_ONCE: usize = 2;
/// But one alone for fewer jobs than this, unless it takes long: it may wait for a row that somebody has locked.
const WORTH_ANOTHER: usize = 100;
const LONG: Duration = Duration::from_millis(50);
/// How long after the last batch the connection is kept.
const KEEP: Duration = Duration::from_secs(1);
/// How long a statement may take to be answered.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How long a statement is tried before its jobs are left to the end of their leases: a failover takes less.
const TRY_FOR: Duration = Duration::from_mins(1);
/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Settles what is reported until every sender is gone.
pub(super) async fn run(settler: Settler, mut inbox: Inbox) {
    let mut under_way = FuturesUnordered::new();
    let mut idle = Idle::default();
    let mut begun = Instant::now();
    loop {
        let worth = if begun.elapsed() > LONG { 1 } else { WORTH_ANOTHER };
        while (under_way.is_empty() && (!inbox.is_empty() || settler.leases.has_over()))
            || (under_way.len() < AT_ONCE && inbox.len() >= worth)
        {
            under_way.push(settler.settle_all(inbox.take(BATCH), idle.take()));
            begun = Instant::now();
        }
        if under_way.is_empty() && inbox.is_closed() {
            return;
        }
        tokio::select! {
            biased;
            Some(lent) = under_way.next() => idle.put(lent),
            () = inbox.fill(), if !inbox.is_closed() => {}
            () = idle.over(), if under_way.is_empty() => idle = Idle::default(),
        }
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
    async fn send(&self, desk: Desk<'_>, closing: &Closing) -> Result<usize, Error> {
        let closed = &closing.tokens()[..];
        Ok(match self {
            Self::Done(receipts, None) if closing.whole => {
                let single = |r: &Receipt| closing.claims.iter().all(|(token, _)| *token != r.token());
                let singles: Vec<_> = receipts.iter().copied().filter(single).collect();
                desk.ack_claims(&closing.claims, &singles, &closing.over).await?
            }
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

/// The leases that a settling statement closes.
#[derive(Default)]
struct Closing {
    /// Of these nothing was left before.
    over: Vec<i64>,
    /// Of these nothing is left after it, and so many jobs of each are among those that it settles.
    claims: Vec<(i64, i32)>,
    /// Jobs of those may be ended claim by claim.
    whole: bool,
}

impl Closing {
    fn tokens(&self) -> Vec<i64> {
        self.over.iter().copied().chain(self.claims.iter().map(|(token, _)| *token)).collect()
    }
}

/// Connections that are kept while work flows: one of the pool is asked first whether it lives, and has plans to make anew.
#[derive(Default)]
struct Idle {
    connections: Vec<PgConnection>,
    /// When the last one was used.
    used: Option<Instant>,
}

impl Idle {
    fn take(&mut self) -> Lent {
        let flows = self.used.is_some_and(|used| used.elapsed() < KEEP);
        Lent { own: self.connections.pop(), flows }
    }

    fn put(&mut self, lent: Lent) {
        self.connections.extend(lent.own);
        self.used = Some(Instant::now());
    }

    /// Waits until none was used for a while.
    async fn over(&self) {
        match self.used {
            Some(used) if !self.connections.is_empty() => tokio::time::sleep_until(used + KEEP).await,
            _ => std::future::pending().await,
        }
    }
}

/// A connection for one batch, made when work flows, from the pool when it trickles. One that breaks is not used again.
struct Lent {
    own: Option<PgConnection>,
    flows: bool,
}

pub(super) struct Settler {
    queue: Queue,
    leases: Arc<Leases>,
    counters: Arc<Counters>,
}

impl Settler {
    pub(super) fn new(queue: Queue, leases: Arc<Leases>, counters: Arc<Counters>) -> Self {
        Self { queue, leases, counters }
    }

    async fn settle_all(&self, batch: Vec<Report>, mut lent: Lent) -> Lent {
        let (parts, gone) = Part::divide(batch);
        self.leases.settle(&gone, &[], true);
        if parts.is_empty() {
            self.close_leases(&mut lent).await;
        }
        for part in parts {
            self.settle(&part, &mut lent).await;
        }
        lent
    }

    /// Closes leases of which nothing is left, when no statement does it in passing. If it fails they end by themselves.
    async fn close_leases(&self, lent: &mut Lent) {
        let over = self.leases.take_over();
        let leases = over.len();
        let closing = Closing { over, ..Closing::default() };
        if leases > 0
            && let Err(error) = self.send(&Part::Done(Vec::new(), None), &closing, lent).await
        {
            tracing::debug!(%error, leases, "leases of which nothing is left were not closed");
        }
    }

    /// Runs one settling statement until it is answered. Trying again is safe: a receipt works once.
    async fn settle(&self, part: &Part, lent: &mut Lent) {
        let receipts = part.receipts();
        let jobs = receipts.len();
        let mut closing = Closing { over: self.leases.take_over(), ..Closing::default() };
        let begun = Instant::now();
        let mut doubtful = false;
        for attempt in 1_u32.. {
            // After an unknown outcome rows may be gone that this call would count: leave the lease to its end.
            closing.claims = if doubtful { Vec::new() } else { self.leases.closed_by(&receipts) };
            closing.whole = attempt == 1;
            let answer = tokio::time::timeout(ANSWER_WITHIN, self.send(part, &closing, lent)).await;
            match answer.unwrap_or_else(|_| Err(Error::timed_out())) {
                Ok(ended) => {
                    self.counters.settlements.one();
                    if ended < jobs {
                        tracing::debug!(
                            lost = jobs - ended,
                            "jobs were lost or cancelled before they were settled"
                        );
                    }
                    return self.leases.settle(&receipts, &closing.tokens(), !doubtful);
                }
                Err(error) if begun.elapsed() > TRY_FOR => {
                    self.counters.unsettled.add(u64::try_from(jobs).unwrap_or(u64::MAX));
                    tracing::error!(%error, attempt, jobs, "jobs could not be settled: they will run again when their leases end");
                    return self.leases.settle(&receipts, &[], false);
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

    async fn send(&self, part: &Part, closing: &Closing, lent: &mut Lent) -> Result<usize, Error> {
        let own = match lent.own.take() {
            None if lent.flows => Some(connect::one(&self.queue.bugle.pool().connect_options()).await?),
            own => own,
        };
        let Some(mut own) = own else {
            return part.send(self.queue.desk(&mut *self.queue.connection().await?), closing).await;
        };
        let ended = part.send(self.queue.desk(&mut own), closing).await?;
        lent.own = Some(own);
        Ok(ended)
    }
}
