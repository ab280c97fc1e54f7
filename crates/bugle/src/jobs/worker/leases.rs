//! The claims that are open, and their renewal: one statement for all of them.

use crate::Error;
use crate::jobs::{JobId, Look, Queue, Receipt};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// The open claims of one worker, by token.
#[derive(Default)]
pub(super) struct Leases {
    open: Mutex<HashMap<i64, Lease>>,
    /// There may be something to renew.
    opened: Notify,
    /// See [`Leases::take_over`].
    over: Mutex<Vec<i64>>,
    /// Changes with every claim.
    claims: watch::Sender<()>,
}

struct Lease {
    /// Jobs of the claim that are not settled yet, each with what stops its handler.
    open: HashMap<Receipt, CancellationToken>,
    /// A settlement of this claim may not have happened, so rows of it may be left: it must end by itself, and the sweep takes them back.
    /// It is not renewed either, or what is left would stay ours for as long as any other job of the claim runs.
    doubtful: bool,
    lost: CancellationToken,
}

/// How a handler is told to stop.
pub(super) struct Stops {
    /// The whole claim was lost.
    pub(super) lost: CancellationToken,
    /// For each job, in order: it was lost, or cancelled.
    pub(super) each: Vec<CancellationToken>,
}

impl Leases {
    /// Adds a claim.
    pub(super) fn open(&self, look: &Look) -> Stops {
        let lost = CancellationToken::new();
        let each: Vec<_> = look.jobs.iter().map(|_| lost.child_token()).collect();
        let open = look.jobs.iter().map(|job| job.receipt).zip(each.iter().cloned()).collect();
        self.with(|map| map.insert(look.token, Lease { open, doubtful: false, lost: lost.clone() }));
        self.opened.notify_one();
        self.claims.send_replace(());
        Stops { lost, each }
    }

    /// Of which claims would nothing be left once these jobs are settled, and how many of the jobs are theirs? Only those may be closed: a
    /// closed lease whose rows are still there would lose them.
    pub(super) fn closed_by(&self, receipts: &[Receipt]) -> Vec<(i64, i32)> {
        let mut settled = HashMap::<i64, i32>::new();
        for receipt in receipts {
            *settled.entry(receipt.token()).or_default() += 1;
        }
        self.with(|map| {
            let done = |(token, n): &(i64, i32)| {
                map.get(token).is_some_and(|l| !l.doubtful && i32::try_from(l.open.len()) == Ok(*n))
            };
            settled.into_iter().filter(done).collect()
        })
    }

    /// Notes that jobs were settled by a statement that `closed` these leases too; or, with `sure` false, that nobody knows.
    pub(super) fn settle(&self, receipts: &[Receipt], closed: &[i64], sure: bool) {
        let mut over = Vec::new();
        self.with(|map| {
            for receipt in receipts {
                if let Some(lease) = map.get_mut(&receipt.token()) {
                    lease.open.remove(receipt);
                    lease.doubtful |= !sure;
                    if lease.open.is_empty() {
                        if !lease.doubtful && !closed.contains(&receipt.token()) {
                            over.push(receipt.token());
                        }
                        map.remove(&receipt.token());
                    }
                }
            }
        });
        if !over.is_empty() {
            self.over.lock().unwrap_or_else(PoisonError::into_inner).extend(over);
        }
    }

    /// The claims of which nothing is left and that nobody has closed: their last jobs were settled by several statements at once.
    pub(super) fn take_over(&self) -> Vec<i64> {
        std::mem::take(&mut *self.over.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Are there such claims?
    pub(super) fn has_over(&self) -> bool {
        !self.over.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Changes with every claim.
    pub(super) fn claims(&self) -> watch::Receiver<()> {
        self.claims.subscribe()
    }

    /// The jobs that are not settled yet.
    pub(super) fn unsettled(&self) -> Vec<Receipt> {
        self.with(|map| map.values().flat_map(|lease| lease.open.keys().copied()).collect())
    }

    /// Stops the handlers of those among `asked` that are not `held` any more.
    pub(super) fn stop_gone(&self, asked: &[Receipt], held: &[JobId]) {
        let held: HashSet<JobId> = held.iter().copied().collect();
        self.with(|map| {
            for receipt in asked.iter().filter(|receipt| !held.contains(&receipt.id())) {
                if let Some(stop) = map.get(&receipt.token()).and_then(|lease| lease.open.get(receipt)) {
                    stop.cancel();
                }
            }
        });
    }

    /// The claims that are to be renewed.
    fn tokens(&self) -> Vec<i64> {
        self.with(|map| map.iter().filter(|(_, lease)| !lease.doubtful).map(|(token, _)| *token).collect())
    }

    /// Forgets the claim and tells its handlers.
    fn lose(&self, token: i64) {
        if let Some(lease) = self.with(|map| map.remove(&token)) {
            lease.lost.cancel();
        }
    }

    fn with<T>(&self, f: impl FnOnce(&mut HashMap<i64, Lease>) -> T) -> T {
        // Nothing in here panics half-way, so a poisoned map is as good as any.
        f(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Renews all open claims every third of the lease until told to stop.
pub(super) async fn renew(
    queue: Queue,
    worker: &str,
    lease: Duration,
    leases: &Leases,
    stop: &CancellationToken,
) {
    let turn = async || {
        leases.opened.notified().await; // an idle worker has no timer
        tokio::time::sleep(lease / 3).await;
    };
    while stop.run_until_cancelled(turn()).await.is_some() {
        let tokens = leases.tokens();
        if tokens.is_empty() {
            continue;
        }
        leases.opened.notify_one();
        // A connection that swallows everything must not cost the next turn as well.
        let renewed = tokio::time::timeout(lease / 3, queue.renew(worker, &tokens)).await;
        match renewed.unwrap_or_else(|_| Err(Error::timed_out())) {
            Ok(held) => {
                for token in tokens.into_iter().filter(|t| !held.iter().any(|(kept, _)| kept == t)) {
                    // Settled meanwhile: then it is no longer in the map, and nothing was lost.
                    tracing::debug!(worker, token, "lease not renewed");
                    leases.lose(token);
                }
            }
            Err(error) => tracing::warn!(worker, %error, "leases could not be renewed, trying again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A claim of so many jobs under the token 7.
    fn claim(leases: &Leases, jobs: i64) -> Vec<Receipt> {
        let receipts: Vec<_> = (1..=jobs).map(|id| Receipt { lane: 2, x: 1, id, token: 7 }).collect();
        let lost = CancellationToken::new();
        let open = receipts.iter().map(|r| (*r, lost.child_token())).collect();
        leases.with(|map| map.insert(7, Lease { open, doubtful: false, lost }));
        receipts
    }

    #[test]
    fn a_claim_is_closed_only_by_its_last_job() {
        let leases = Leases::default();
        let jobs = claim(&leases, 3);
        assert!(leases.closed_by(&jobs[..2]).is_empty());
        leases.settle(&jobs[..2], &[], true);
        assert_eq!(leases.closed_by(&jobs[2..]), [(7, 1)]);
    }

    #[test]
    fn a_claim_whose_last_jobs_two_statements_settle_at_once_is_closed_by_the_next() {
        let leases = Leases::default();
        let jobs = claim(&leases, 2);
        let closed = [leases.closed_by(&jobs[..1]), leases.closed_by(&jobs[1..])];
        assert!(closed.concat().is_empty(), "either of them may fail");
        leases.settle(&jobs[..1], &[], true);
        assert!(leases.take_over().is_empty());
        leases.settle(&jobs[1..], &[], true);
        assert_eq!(leases.take_over(), [7]);
    }

    #[test]
    fn a_claim_in_doubt_is_left_to_end_by_itself() {
        let leases = Leases::default();
        let jobs = claim(&leases, 2);
        leases.settle(&jobs[..1], &[], false);
        assert!(leases.closed_by(&jobs[1..]).is_empty());
        assert!(leases.tokens().is_empty(), "nor renewed");
    }

    #[test]
    fn only_what_is_gone_is_stopped() {
        let leases = Leases::default();
        let jobs = claim(&leases, 3);
        let stops: Vec<_> = leases.with(|map| jobs.iter().map(|job| map[&7].open[job].clone()).collect());
        leases.settle(&jobs[..1], &[], true);
        leases.stop_gone(&jobs, &[jobs[2].id()]);
        assert_eq!(
            stops.iter().map(CancellationToken::is_cancelled).collect::<Vec<_>>(),
            [false, true, false]
        );
    }
}
