//! Jobs as the wake engine sees them: how to look for them, and how to give them back.

use super::hints::Hints;
use super::look::{self, look, quick_look};
use super::settle::release;
use super::{Look, Statements};
use crate::Error;
use crate::pg::connect;
use bugle_wake::{Answer, Ask, Breaker, Number, Source};
use sqlx::postgres::types::PgInterval;
use sqlx::{PgConnection, PgPool};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a look may take to be answered: twice what it may wait for a queue's lock. A connection that swallows everything holds up its
/// queues for as long.
const LOOK_WITHIN: Duration = Duration::from_secs(10);

/// Milliseconds to wait after each try to give jobs back that failed: a failover takes less than all of them.
const HAND_BACK_PAUSES: [u64; 6] = [100, 500, 2_000, 5_000, 10_000, 20_000];

/// Who asks, and for how long it wants the jobs.
#[derive(Clone)]
pub(crate) struct Want {
    pub(super) worker: Arc<str>,
    pub(super) lease: PgInterval,
}

pub(crate) struct JobSource {
    pub(crate) pool: PgPool,
    pub(crate) statements: Arc<Statements>,
    breaker: Breaker,
    /// A connection of the pump's own, kept warm: the pool deals its connections out in turn, each with plans to make anew and asked
    /// first whether it lives, which takes longer than the look.
    warm: tokio::sync::Mutex<Option<Warm>>,
    /// Looks that found something.
    pub(crate) finds: Arc<AtomicU64>,
    hints: Hints,
}

struct Warm {
    connection: PgConnection,
    is_pinned: bool,
    /// How often the database had been away when it was made.
    outages: u64,
}

impl JobSource {
    pub(crate) fn new(pool: PgPool, statements: Arc<Statements>, breaker: Breaker) -> Self {
        Self {
            pool,
            statements,
            breaker,
            warm: tokio::sync::Mutex::default(),
            finds: Arc::default(),
            hints: Hints::default(),
        }
    }

    /// Looks on the warm connection, or on one of the pool when that is in use. One that breaks is not used again.
    async fn look_warm(&self, asks: &[look::Ask]) -> Result<Vec<Option<Look>>, Error> {
        let Ok(mut warm) = self.warm.try_lock() else {
            let mut connection = self.breaker.acquire(&self.pool).await.map_err(Error::connecting)?;
            return look(&mut connection, &self.statements, asks).await;
        };
        let outages = self.breaker.outages();
        let (mut connection, is_pinned) = match warm.take().filter(|warm| warm.outages == outages) {
            Some(warm) => (warm.connection, warm.is_pinned),
            None => connect::pinned(&self.pool.connect_options()).await?,
        };
        let mut looks = None;
        if let [ask] = asks
            && is_pinned
            && self.hints.may_be_quick(ask.queue)
        {
            looks = quick_look(&mut connection, &self.statements, ask).await?.map(|look| vec![Some(look)]);
            self.hints.was_quick(ask.queue, looks.is_some());
        }
        let looks = match looks {
            Some(looks) => looks,
            None => look(&mut connection, &self.statements, asks).await?,
        };
        *warm = Some(Warm { connection, is_pinned, outages });
        Ok(looks)
    }
}

impl Source for JobSource {
    type Want = Want;
    type Item = Look;
    type Error = Error;

    async fn look(&self, asks: Vec<Ask<Want>>) -> Result<Vec<Answer<Look>>, Error> {
        let begun = Instant::now();
        let asks: Vec<look::Ask> = asks
            .into_iter()
            .map(|ask| {
                let hint = self.hints.hint(ask.number.0, begun);
                look::Ask {
                    queue: ask.number.0,
                    worker: ask.want.worker,
                    most: i32::try_from(ask.most).unwrap_or(i32::MAX),
                    lease: ask.want.lease,
                    sweep: hint.is_full(),
                    hint,
                }
            })
            .collect();
        let looks = tokio::time::timeout(LOOK_WITHIN, self.look_warm(&asks)).await;
        let looks = looks.unwrap_or_else(|_| Err(Error::timed_out()))?;
        Ok(looks.into_iter().zip(asks).map(|(look, ask)| self.answer(look, &ask, begun)).collect())
    }

    fn is_away(error: &Error) -> bool {
        error.is_away()
    }

    async fn hand_back(&self, number: Number, look: Look) {
        let receipts: Vec<_> = look.jobs.iter().map(|job| job.receipt).collect();
        // Trying again is safe: all jobs of the lease and the lease itself go in one statement.
        for pause in HAND_BACK_PAUSES {
            let released = async {
                let mut connection = self.breaker.acquire(&self.pool).await.map_err(Error::connecting)?;
                release(&mut connection, self.statements.release(), number.0, &receipts, &[look.token]).await
            };
            match released.await {
                Ok(_) => return,
                Err(error) => tracing::warn!(%error, jobs = receipts.len(), "jobs could not be given back"),
            }
            if self.pool.is_closed() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        tracing::error!(
            jobs = receipts.len(),
            "jobs were not given back: they will run again when their leases end"
        );
    }
}

impl JobSource {
    fn answer(&self, look: Option<Look>, ask: &look::Ask, begun: Instant) -> Answer<Look> {
        let Some(look) = look else { return Answer::default() };
        if !look.jobs.is_empty() {
            self.finds.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(seen) = look.seen {
            self.hints.note(ask.queue, ask.hint, seen, look.claimed_at, (begun, Instant::now()));
        }
        let (full, again) = (look.full, look.look_again_in);
        // Not what was claimed: a job may have been cancelled before its body was fetched, and its slot is free.
        let taken = u32::try_from(look.jobs.len()).unwrap_or(u32::MAX);
        Answer { item: (!look.jobs.is_empty()).then_some(look), taken, full, again, dry: false }
    }
}
