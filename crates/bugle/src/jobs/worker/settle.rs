//! Telling the database what became of the jobs, in batches: whatever was reported while the last batch was under way is the next.

use super::counters::Counters;
use super::inbox::Inbox;
use super::leases::Leases;
use super::part::{Closing, Part};
use super::report::Report;
use crate::jobs::{JobId, Queue, Receipt};
use crate::limits::WORKER_CONNECTIONS_MAX;
use crate::pg::connect;
use crate::{Error, Outcome};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use sqlx::PgConnection;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Most jobs in one statement.
const BATCH: usize = 1_000;
/// So many statements at once, each on a connection: the next one is at work while PostgreSQL flushes the first.
const AT_ONCE: usize = WORKER_CONNECTIONS_MAX;
/// But one alone for fewer jobs than this, unless it takes long: it may wait a while for a row that somebody has locked.
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

/// How long after the last time to ask again who still holds jobs that are to be settled.
const ASK_AGAIN: Duration = Duration::from_millis(300);

/// Settles what is reported until every sender is gone.
pub(super) async fn run(settler: Settler, mut inbox: Inbox) {
    let mut under_way = FuturesUnordered::new();
    let mut held = Held::default();
    let mut idle = Idle::default();
    let mut begun = Instant::now();
    loop {
        let worth = if begun.elapsed() > LONG { 1 } else { WORTH_ANOTHER };
        while (under_way.is_empty() && (!inbox.is_empty() || settler.leases.has_over()))
            || (under_way.len() < AT_ONCE && (inbox.len() >= worth || held.is_due()))
        {
            let again = if held.is_due() { held.take() } else { Vec::new() };
            under_way.push(settler.settle_all(inbox.take(BATCH), again, idle.take()));
            begun = Instant::now();
        }
        if under_way.is_empty() && inbox.is_closed() && held.jobs.is_empty() {
            return;
        }
        tokio::select! {
            biased;
            Some((lent, more)) = under_way.next() => {
                idle.put(lent);
                held.put(more);
            }
            () = inbox.fill(), if !inbox.is_closed() => {}
            () = held.due(), if under_way.len() < AT_ONCE => {}
            () = idle.over(), if under_way.is_empty() => idle = Idle::default(),
        }
    }
}

/// Jobs that somebody else's open transaction holds: it may end them, or be rolled back. They wait here, so that no others wait with them.
struct HeldUp {
    part: Part,
    /// When they were first to be settled.
    since: Instant,
    doubtful: bool,
}

#[derive(Default)]
struct Held {
    jobs: Vec<HeldUp>,
    ask_at: Option<Instant>,
}

impl Held {
    fn put(&mut self, more: Vec<HeldUp>) {
        if !more.is_empty() {
            self.jobs.extend(more);
            self.ask_at = Some(Instant::now() + ASK_AGAIN);
        }
    }

    fn take(&mut self) -> Vec<HeldUp> {
        self.ask_at = None;
        std::mem::take(&mut self.jobs)
    }

    fn is_due(&self) -> bool {
        self.ask_at.is_some_and(|at| at <= Instant::now())
    }

    async fn due(&self) {
        match self.ask_at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
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

    /// Settles a batch, and what was held up before. Returns what is held up now.
    async fn settle_all(
        &self,
        mut batch: Vec<Report>,
        again: Vec<HeldUp>,
        mut lent: Lent,
    ) -> (Lent, Vec<HeldUp>) {
        let mut held = Vec::new();
        let places: Vec<_> = batch.iter_mut().filter_map(|report| report.place.take()).collect();
        if !again.is_empty() {
            self.settle_free(again, &mut held, &mut lent).await;
        }
        if self.queue.carries_steps() {
            batch.iter_mut().for_each(Report::end_stranger);
        }
        let (parts, gone) = Part::divide(batch);
        self.leases.settle(&gone, &[], true);
        if parts.is_empty() {
            self.close_leases(&mut lent).await;
        }
        for part in parts {
            let jobs = HeldUp { part, since: Instant::now(), doubtful: false };
            self.settle(jobs, &mut held, &mut lent).await;
        }
        drop(places);
        (lent, held)
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

    /// Settles those that nobody holds any more; the others stay `held`.
    async fn settle_free(&self, again: Vec<HeldUp>, held: &mut Vec<HeldUp>, lent: &mut Lent) {
        let all: Vec<Receipt> = again.iter().flat_map(|jobs| jobs.part.receipts()).collect();
        let locked = match self.locked(&all).await {
            Ok(locked) => locked,
            Err(error) => {
                tracing::debug!(%error, "cannot ask who holds jobs that are to be settled");
                all.iter().map(Receipt::id).collect()
            }
        };
        for HeldUp { part, since, doubtful } in again {
            let (part, free) = part.split(&locked);
            self.settle(HeldUp { part: free, since, doubtful }, held, lent).await;
            if since.elapsed() > TRY_FOR {
                self.give_up(&part, "somebody else's transaction holds them");
            } else if !part.is_empty() {
                held.push(HeldUp { part, since, doubtful });
            }
        }
    }

    /// Runs one settling statement until it is answered. Trying again is safe: a receipt works once. What somebody else holds is left out,
    /// and `held`.
    async fn settle(&self, mut jobs: HeldUp, held: &mut Vec<HeldUp>, lent: &mut Lent) {
        let mut closing = Closing { over: self.leases.take_over(), ..Closing::default() };
        for attempt in 1_u32.. {
            let receipts = jobs.part.receipts();
            if receipts.is_empty() && closing.over.is_empty() {
                return;
            }
            // After an unknown outcome rows may be gone that this call would count: leave the lease to its end.
            closing.claims = if jobs.doubtful { Vec::new() } else { self.leases.closed_by(&receipts) };
            closing.whole = attempt == 1;
            self.queue.bugle.is_there().await;
            let answer = tokio::time::timeout(ANSWER_WITHIN, self.send(&jobs.part, &closing, lent)).await;
            let error = match answer.unwrap_or_else(|_| Err(Error::timed_out())) {
                Ok(ended) => {
                    self.counters.settlements.one();
                    if ended < receipts.len() {
                        let lost = receipts.len() - ended;
                        tracing::debug!(lost, "jobs were lost or cancelled before they were settled");
                    }
                    return self.leases.settle(&receipts, &closing.tokens(), !jobs.doubtful);
                }
                Err(error) => error,
            };
            if jobs.since.elapsed() > TRY_FOR {
                return self.give_up(&jobs.part, &error.to_string());
            }
            self.counters.settlements_retried.one();
            if error.is_locked()
                && let Ok(locked) = self.locked(&receipts).await
                && !locked.is_empty()
            {
                tracing::debug!(
                    jobs = locked.len(),
                    "somebody else's transaction holds jobs that are to be settled"
                );
                let (part, free) = jobs.part.split(&locked);
                held.push(HeldUp { part, ..jobs });
                jobs.part = free;
                continue;
            }
            jobs.doubtful |= error.outcome() == Outcome::Unknown;
            self.queue.bugle.suspect(&error);
            tracing::warn!(%error, attempt, jobs = receipts.len(), "jobs could not be settled, trying again");
            let pause = Duration::from_millis(50) * 2_u32.pow(attempt.min(7));
            tokio::time::sleep(pause.min(PAUSE_MAX)).await;
        }
    }

    /// Leaves jobs to the end of their leases.
    fn give_up(&self, part: &Part, why: &str) {
        let receipts = part.receipts();
        let jobs = receipts.len();
        if jobs > 0 {
            self.counters.unsettled.add(u64::try_from(jobs).unwrap_or(u64::MAX));
            tracing::error!(
                why,
                jobs,
                "jobs could not be settled: they will run again when their leases end"
            );
        }
        self.leases.settle(&receipts, &[], false);
    }

    /// Those that somebody else's open transaction holds.
    async fn locked(&self, receipts: &[Receipt]) -> Result<HashSet<JobId>, Error> {
        let asked = async {
            let mut connection = self.queue.connection().await?;
            self.queue.desk(&mut connection).locked(receipts).await
        };
        let locked = tokio::time::timeout(ANSWER_WITHIN, asked).await;
        Ok(locked.unwrap_or_else(|_| Err(Error::timed_out()))?.into_iter().collect())
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
