//! Emptying a queue through real handlers: one worker, every job leased, run and acked by its token, until nothing is open.

use super::figure::rate;
use crate::failure::Failure;
use bugle::jobs::Claimed;
use bugle::{Bugle, Ctx, Verdict};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// Most jobs that run at once: the most that a worker may have.
pub(super) const SLOTS: u32 = 1_000;
/// How often the books are asked whether anything is open when all handlers have run.
const ASK_EVERY: Duration = Duration::from_millis(2);
/// A worker that is told to stop has nothing left to do, or was cut off.
const STOP_WITHIN: Duration = Duration::from_secs(1);

/// What a drain was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drained {
    /// As the handlers counted them.
    pub(super) handled: usize,
    /// Until the first `early` had been handled.
    pub(super) early: Duration,
    /// Until all handlers had run.
    pub(super) handlers_done: Duration,
    /// Until nothing was open.
    pub(super) took: Duration,
    /// It took too long and was given up.
    pub(super) cut_off: bool,
}

/// What to drain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan<'a> {
    pub(super) queue: &'a str,
    pub(super) jobs: usize,
    pub(super) slots: u32,
    /// How many are the first ones, whose time is told as well.
    pub(super) early: usize,
    /// When to give up.
    pub(super) most: Duration,
}

impl Drained {
    pub(super) fn per_s(&self) -> f64 {
        rate(self.handled, self.took)
    }

    /// The same; a failure when it was cut off.
    pub(super) fn in_full(self) -> Result<Self, Failure> {
        if self.cut_off {
            return Err(Failure::server(format!("only {} jobs were handled in time", self.handled)));
        }
        Ok(self)
    }
}

/// Counts what handlers have done, and tells when there are enough.
#[derive(Clone)]
struct Tally {
    handled: Arc<AtomicUsize>,
    early: usize,
    jobs: usize,
    /// 1: the early ones; 2: all.
    reached: watch::Sender<u8>,
}

impl Tally {
    fn add_one(&self) {
        let handled = self.handled.fetch_add(1, Ordering::Relaxed) + 1;
        // Without a send for each of the others: that would be part of what is measured.
        if handled == self.jobs {
            self.reached.send_replace(2);
        } else if handled == self.early {
            self.reached.send_if_modified(|reached| {
                *reached == 0 && {
                    *reached = 1;
                    true
                }
            });
        }
    }

    async fn reaches(&self, what: u8) {
        // The sender is here: it cannot be gone.
        let _ = self.reached.subscribe().wait_for(|reached| *reached >= what).await;
    }
}

/// Runs one worker until nothing of the queue is ready or leased. The clock starts with the worker, on a handle that is connected.
pub(super) async fn drain(bugle: &Bugle, plan: Plan<'_>) -> Result<Drained, Failure> {
    let tally = Tally {
        handled: Arc::default(),
        early: plan.early,
        jobs: plan.jobs,
        reached: watch::Sender::new(u8::from(plan.early == 0)),
    };
    let counting = tally.clone();
    let worker = bugle.worker(plan.queue).concurrency(plan.slots).drain(STOP_WITHIN).handle_any(
        move |_: Claimed, _: Ctx| {
            counting.add_one();
            async { Verdict::Done }
        },
    );
    let stop = CancellationToken::new();
    let begun = Instant::now();
    let deadline = begun + plan.most;
    let mut running = tokio::spawn(worker.run(stop.clone()));
    let watched = async {
        tally.reaches(1).await;
        let early = begun.elapsed();
        tally.reaches(2).await;
        let handlers_done = begun.elapsed();
        while is_open(bugle, plan.queue).await? {
            tokio::time::sleep(ASK_EVERY).await;
        }
        Ok::<_, Failure>((early, handlers_done))
    };
    let watched = tokio::select! {
        watched = timeout_at(deadline, watched) => watched.ok().transpose()?,
        ended = &mut running => {
            ended.map_err(super::callers::broken)??;
            return Err(Failure::server("a worker of the benchmark ended before it was told to"));
        }
    };
    let (took, handled) = (begun.elapsed(), tally.handled.load(Ordering::Relaxed));
    stop.cancel();
    running.await.map_err(super::callers::broken)??;
    let (early, handlers_done) = watched.unwrap_or((took, took));
    Ok(Drained { handled, early, handlers_done, took, cut_off: watched.is_none() })
}

/// Is anything of the queue ready or in a worker's hands?
async fn is_open(bugle: &Bugle, queue: &str) -> Result<bool, Failure> {
    let queues = bugle.list_queues().await?;
    Ok(queues.iter().any(|row| row.name == queue && row.ready + row.leased > 0))
}
