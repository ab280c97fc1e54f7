//! The jobs of a batch that one statement settles.

use super::report::{Fate, Report};
use crate::Error;
use crate::jobs::settle::Desk;
use crate::jobs::{Failure, JobId, Receipt};
use sqlx::types::Json;
use std::collections::HashSet;
use std::time::Duration;

/// The leases that a settling statement closes.
#[derive(Default)]
pub(super) struct Closing {
    /// Of these nothing was left before.
    pub(super) over: Vec<i64>,
    /// Of these nothing is left after it, and so many jobs of each are among those that it settles.
    pub(super) claims: Vec<(i64, i32)>,
    /// Jobs of those may be ended claim by claim.
    pub(super) whole: bool,
}

impl Closing {
    pub(super) fn tokens(&self) -> Vec<i64> {
        self.over.iter().copied().chain(self.claims.iter().map(|(token, _)| *token)).collect()
    }
}

/// The jobs of a batch that one statement settles.
pub(super) enum Part {
    Done(Vec<Receipt>, Option<Vec<Option<Json<serde_json::Value>>>>),
    Failed(Vec<Failure>),
    /// See [`Fate::Completed`].
    Completed(Vec<Failure>),
    Snoozed(Vec<(Receipt, Duration)>),
    Released(Vec<Receipt>),
}

impl Part {
    /// Divides a batch. Those that came to nothing are only to be noted.
    pub(super) fn divide(batch: Vec<Report>) -> (Vec<Self>, Vec<Receipt>) {
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
        (parts.into_iter().filter(|part| !part.is_empty()).collect(), gone)
    }

    pub(super) fn receipts(&self) -> Vec<Receipt> {
        match self {
            Self::Done(receipts, _) | Self::Released(receipts) => receipts.clone(),
            Self::Failed(failures) | Self::Completed(failures) => {
                failures.iter().map(|f| f.receipt).collect()
            }
            Self::Snoozed(jobs) => jobs.iter().map(|(receipt, _)| *receipt).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.receipts().is_empty()
    }

    /// Sends the statement; how many jobs it found.
    pub(super) async fn send(&self, desk: Desk<'_>, closing: &Closing) -> Result<usize, Error> {
        let closed = &closing.tokens()[..];
        Ok(match self {
            Self::Done(receipts, None) if closing.whole && desk.ends_claims() => {
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

    /// Those that are `chosen`, and the others.
    pub(super) fn split(self, chosen: &HashSet<JobId>) -> (Self, Self) {
        let is_chosen = |receipt: &Receipt| chosen.contains(&receipt.id());
        match self {
            Self::Done(receipts, None) => {
                let (yes, no) = receipts.into_iter().partition(is_chosen);
                (Self::Done(yes, None), Self::Done(no, None))
            }
            Self::Done(receipts, Some(results)) => {
                let (yes, no): (Vec<_>, Vec<_>) =
                    receipts.into_iter().zip(results).partition(|(receipt, _)| is_chosen(receipt));
                let part = |half: Vec<_>| {
                    let (receipts, results) = half.into_iter().unzip();
                    Self::Done(receipts, Some(results))
                };
                (part(yes), part(no))
            }
            Self::Failed(failures) => {
                let (yes, no) = failures.into_iter().partition(|f| is_chosen(&f.receipt));
                (Self::Failed(yes), Self::Failed(no))
            }
            Self::Completed(failures) => {
                let (yes, no) = failures.into_iter().partition(|f| is_chosen(&f.receipt));
                (Self::Completed(yes), Self::Completed(no))
            }
            Self::Snoozed(jobs) => {
                let (yes, no) = jobs.into_iter().partition(|(receipt, _)| is_chosen(receipt));
                (Self::Snoozed(yes), Self::Snoozed(no))
            }
            Self::Released(receipts) => {
                let (yes, no) = receipts.into_iter().partition(is_chosen);
                (Self::Released(yes), Self::Released(no))
            }
        }
    }
}
