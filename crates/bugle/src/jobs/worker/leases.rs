//! The claims that are open, and their renewal: one statement for all of them.

use crate::Error;
use crate::jobs::Queue;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The open claims of one worker, by token.
#[derive(Default)]
pub(super) struct Leases {
    open: Mutex<HashMap<i64, Lease>>,
    /// There may be something to renew.
    opened: Notify,
}

struct Lease {
    /// Jobs of the claim that are not settled yet.
    open: usize,
    /// A settlement of this claim may not have happened, so rows of it may be left: it must end by itself, and the sweep takes them back.
    /// It is not renewed either, or what is left would stay ours for as long as any other job of the claim runs.
    doubtful: bool,
    lost: CancellationToken,
}

impl Leases {
    /// Adds a claim; the token returned is cancelled when the lease is lost.
    pub(super) fn open(&self, token: i64, jobs: usize) -> CancellationToken {
        let lost = CancellationToken::new();
        self.with(|map| map.insert(token, Lease { open: jobs, doubtful: false, lost: lost.clone() }));
        self.opened.notify_one();
        lost
    }

    /// Of which claims would nothing be left once these jobs (token by token) are settled? Only those may be closed: a closed lease
    /// whose rows are still there would lose them.
    pub(super) fn closed_by(&self, tokens: impl Iterator<Item = i64>) -> Vec<i64> {
        let settled = count(tokens);
        self.with(|map| {
            let done =
                |(token, n): &(i64, usize)| map.get(token).is_some_and(|l| !l.doubtful && l.open == *n);
            settled.into_iter().filter(done).map(|(token, _)| token).collect()
        })
    }

    /// Notes that jobs were settled, or, with `sure` false, that nobody knows.
    pub(super) fn settle(&self, tokens: impl Iterator<Item = i64>, sure: bool) {
        self.with(|map| {
            for (token, n) in count(tokens) {
                if let Some(lease) = map.get_mut(&token) {
                    lease.open = lease.open.saturating_sub(n);
                    lease.doubtful |= !sure;
                    if lease.open == 0 {
                        map.remove(&token);
                    }
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

fn count(tokens: impl Iterator<Item = i64>) -> HashMap<i64, usize> {
    tokens.fold(HashMap::new(), |mut map, token| {
        *map.entry(token).or_default() += 1;
        map
    })
}

/// Renews all open claims every third of the lease until told to stop.
pub(super) async fn renew(
    queue: Queue,
    worker: String,
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
        let renewed = tokio::time::timeout(lease / 3, queue.renew(&worker, &tokens)).await;
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

    #[test]
    fn a_claim_is_closed_only_by_its_last_job() {
        let leases = Leases::default();
        leases.open(7, 3);
        assert!(leases.closed_by([7, 7].into_iter()).is_empty());
        leases.settle([7, 7].into_iter(), true);
        assert_eq!(leases.closed_by([7].into_iter()), [7]);
    }

    #[test]
    fn a_claim_in_doubt_is_left_to_end_by_itself() {
        let leases = Leases::default();
        leases.open(7, 2);
        leases.settle([7].into_iter(), false);
        assert!(leases.closed_by([7].into_iter()).is_empty());
        assert!(leases.tokens().is_empty(), "nor renewed");
    }
}
