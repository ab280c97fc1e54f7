//! Telling the database what became of the jobs, in batches: whatever was reported while the last batch was under way is the next.

use super::handler::Verdict;
use super::leases::Leases;
use crate::jobs::{Backoff, Failure, Queue, Receipt};
use crate::{Error, Outcome};
use std::future::Future;
use std::time::Duration;
use tokio::sync::mpsc;

/// Most jobs in one statement.
const BATCH: usize = 500;
/// How often a statement is tried before its jobs are left to the end of their leases.
const TRIES: u32 = 5;

/// A job's task has ended.
pub(super) struct Report {
    pub(super) receipt: Receipt,
    pub(super) attempt: u16,
    pub(super) verdict: Verdict,
}

/// Settles what is reported until every sender is gone.
pub(super) async fn run(
    queue: Queue,
    backoff: Backoff,
    leases: &Leases,
    mut reports: mpsc::UnboundedReceiver<Report>,
) {
    let mut batch = Vec::with_capacity(BATCH);
    while reports.recv_many(&mut batch, BATCH).await > 0 {
        let mut done = Vec::new();
        let mut released = Vec::new();
        let mut failed = Vec::new();
        for report in batch.drain(..) {
            match failure(&report, backoff) {
                Some(failure) => failed.push(failure),
                None if report.verdict == Verdict::Release => released.push(report.receipt),
                None => done.push(report.receipt),
            }
        }
        if !failed.is_empty() {
            let tokens: Vec<i64> = failed.iter().map(|f| f.receipt.token()).collect();
            settle(leases, &tokens, async |closed| {
                queue.fail(&failed, &closed).await.map(|ended| ended.len())
            })
            .await;
        }
        if !released.is_empty() {
            let tokens: Vec<i64> = released.iter().map(Receipt::token).collect();
            settle(leases, &tokens, async |closed| {
                queue.release(&released, &closed).await.map(|ids| ids.len())
            })
            .await;
        }
        if !done.is_empty() {
            let tokens: Vec<i64> = done.iter().map(Receipt::token).collect();
            settle(leases, &tokens, async |closed| queue.ack(&done, &closed).await.map(|ids| ids.len()))
                .await;
        }
    }
}

/// Runs one settling statement until it is answered. Trying again is safe: a receipt works once.
async fn settle<Fut>(leases: &Leases, tokens: &[i64], statement: impl Fn(Vec<i64>) -> Fut)
where
    Fut: Future<Output = Result<usize, Error>>,
{
    let mut doubtful = false;
    for attempt in 1..=TRIES {
        // After an unknown outcome rows may be gone that this call would count: leave the lease to its end.
        let closed = if doubtful { Vec::new() } else { leases.closed_by(tokens.iter().copied()) };
        match statement(closed).await {
            Ok(ended) => {
                if ended < tokens.len() {
                    tracing::debug!(
                        lost = tokens.len() - ended,
                        "jobs were lost or cancelled before they were settled"
                    );
                }
                leases.settle(tokens.iter().copied(), !doubtful);
                return;
            }
            Err(error) => {
                doubtful |= error.outcome() == Outcome::Unknown;
                tracing::warn!(%error, attempt, jobs = tokens.len(), "jobs could not be settled");
                tokio::time::sleep(Duration::from_millis(50) * 2_u32.pow(attempt)).await;
            }
        }
    }
    leases.settle(tokens.iter().copied(), false);
}

/// The failure that a verdict stands for; `None` for the two that are none.
fn failure(report: &Report, backoff: Backoff) -> Option<Failure> {
    let (code, message, retry_in) = match &report.verdict {
        Verdict::Done | Verdict::Release => return None,
        Verdict::Fail { code, message } => (code, message, Some(backoff.after(report.attempt))),
        Verdict::RetryIn { delay, code, message } => (code, message, Some(*delay)),
        Verdict::Dead { code, message } => (code, message, None),
    };
    Some(Failure { receipt: report.receipt, code: code.clone(), message: message.clone(), retry_in })
}
