//! Telling the database what became of the jobs, in batches: whatever was reported while the last batch was under way is the next.

use super::handler::Verdict;
use super::leases::Leases;
use crate::jobs::{Backoff, Failure, Queue, Receipt};
use crate::{Error, Outcome};
use std::future::Future;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Most jobs in one statement.
const BATCH: usize = 500;
/// How long a statement may take to be answered.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How long a statement is tried before its jobs are left to the end of their leases: a failover takes less.
const TRY_FOR: Duration = Duration::from_mins(1);
/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(5);

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
    let begun = Instant::now();
    let mut doubtful = false;
    for attempt in 1_u32.. {
        // After an unknown outcome rows may be gone that this call would count: leave the lease to its end.
        let closed = if doubtful { Vec::new() } else { leases.closed_by(tokens.iter().copied()) };
        let answer = tokio::time::timeout(ANSWER_WITHIN, statement(closed)).await;
        match answer.unwrap_or_else(|_| Err(Error::timed_out())) {
            Ok(ended) => {
                if ended < tokens.len() {
                    tracing::debug!(
                        lost = tokens.len() - ended,
                        "jobs were lost or cancelled before they were settled"
                    );
                }
                return leases.settle(tokens.iter().copied(), !doubtful);
            }
            Err(error) if begun.elapsed() > TRY_FOR => {
                tracing::error!(%error, attempt, jobs = tokens.len(), "jobs could not be settled: they will run again when their leases end");
                return leases.settle(tokens.iter().copied(), false);
            }
            Err(error) => {
                doubtful |= error.outcome() == Outcome::Unknown;
                tracing::warn!(%error, attempt, jobs = tokens.len(), "jobs could not be settled, trying again");
                tokio::time::sleep((Duration::from_millis(50) * 2_u32.pow(attempt.min(7))).min(PAUSE_MAX))
                    .await;
            }
        }
    }
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
