//! What a job's task reports when it has ended.

use super::company::Place;
use super::counters::KindCounters;
use super::ctx::Ctx;
use super::verdict::Verdict;
use crate::jobs::{Failure, Receipt};
use std::time::Duration;

/// A job's task has ended.
pub(super) struct Report {
    pub(super) receipt: Receipt,
    /// How long the handler ran.
    pub(super) ran: Duration,
    pub(super) fate: Fate,
    /// Given up when it is settled.
    pub(super) place: Option<Place>,
}

/// What the database shall be told.
pub(super) enum Fate {
    /// Nothing: the job is not ours any more.
    Gone,
    /// Done, with a result or without.
    Done(Option<serde_json::Value>),
    /// The attempt failed.
    Failed(Failure),
    /// The handler ended it in a transaction of its own. This has an effect only if that was not committed.
    Completed(Failure),
    /// Put off.
    Snoozed(Duration),
    /// Given back.
    Released,
}

impl Report {
    /// What a verdict means for the job. `rule`: how long to wait after a failed attempt.
    pub(super) fn new(
        receipt: Receipt,
        ran: Duration,
        verdict: Option<Verdict>,
        ctx: &Ctx,
        rule: impl FnOnce() -> Option<Duration>,
    ) -> Self {
        let failed = |code, message, retry_in| Failure { receipt, code, message, retry_in };
        let fate = match verdict {
            None => Fate::Gone,
            Some(Verdict::Done | Verdict::DoneWith { .. }) if ctx.is_completed() => {
                let message = "the transaction in which the job was completed was not committed";
                Fate::Completed(failed("rolled_back".to_owned(), message.to_owned(), rule()))
            }
            Some(Verdict::Done) => Fate::Done(None),
            Some(Verdict::DoneWith { result }) => Fate::Done(Some(result)),
            Some(Verdict::Fail { code, message }) => Fate::Failed(failed(code, message, rule())),
            Some(Verdict::RetryIn { delay, code, message }) => {
                Fate::Failed(failed(code, message, Some(delay)))
            }
            Some(Verdict::Dead { code, message }) => Fate::Failed(failed(code, message, None)),
            Some(Verdict::Snooze { delay }) => Fate::Snoozed(delay),
            Some(Verdict::Release) => Fate::Released,
        };
        Self { receipt, ran, fate, place: None }
    }

    /// Of a job that was not run.
    pub(super) fn not_run(receipt: Receipt, fate: Fate) -> Self {
        Self { receipt, ran: Duration::ZERO, fate, place: None }
    }

    /// A step may be none of its job's any more while the job is still ours: cancelled, restarted, or its run removed. Nobody else ends the job then, and its
    /// lease must not be closed over it. A failure ends a job that carries nothing, changes nothing where the lease was lost, and would harm no step.
    pub(super) fn end_stranger(&mut self) {
        if matches!(self.fate, Fate::Gone) {
            self.fate = Fate::Failed(Failure {
                receipt: self.receipt,
                code: "stopped".to_owned(),
                message: "its worker was told that it is not to be run any more".to_owned(),
                retry_in: Some(Duration::ZERO),
            });
        }
    }

    /// With the place that the job had.
    pub(super) fn in_place(self, place: Option<Place>) -> Self {
        Self { place, ..self }
    }

    /// Counts it and says it, once.
    pub(super) fn note(&self, kind: &str, ctx: &Ctx, counters: &KindCounters) {
        let (job, attempt, worker, ran) = (self.receipt.id(), ctx.attempt, &*ctx.worker, self.ran);
        let duration_ms = u64::try_from(ran.as_millis()).unwrap_or(u64::MAX);
        match &self.fate {
            Fate::Gone => {}
            Fate::Done(_) | Fate::Completed(_) => {
                counters.done.one();
                tracing::debug!(%job, kind, attempt, worker, duration_ms, "job done");
            }
            Fate::Failed(failure) => {
                let will_retry = failure.retry_in.is_some() && attempt < ctx.max_attempts;
                let ended = if will_retry { &counters.failed } else { &counters.dead };
                ended.one();
                if failure.code == "panic" {
                    counters.panics.one();
                }
                let (code, message) = (&failure.code, &failure.message);
                tracing::info!(%job, kind, attempt, worker, duration_ms, code, message, will_retry, "job failed");
            }
            Fate::Snoozed(delay) => {
                counters.snoozed.one();
                tracing::debug!(%job, kind, attempt, worker, ?delay, "job snoozed");
            }
            Fate::Released => {
                counters.released.one();
                tracing::debug!(%job, kind, attempt, worker, "job released");
            }
        }
    }
}
