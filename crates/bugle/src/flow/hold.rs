//! What the holder of a receipt does with its step: renews, keeps how far it has come, ends. Each says so when the step is not its any more.

use super::begin::Place;
use super::claim::StepQueue;
use super::receipt::StepReceipt;
use super::run::RunId;
use crate::jobs::enqueue::{check_payload, interval};
use crate::jobs::{Receipt, Verdict, storable};
use crate::limits::{DURATION_MAX, ERROR_CODE_BYTES_MAX, ERROR_MESSAGE_BYTES_MAX};
use crate::{Error, crash};
use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use sqlx::postgres::types::PgInterval;
use sqlx::types::Json;
use std::time::Duration;

/// What a step is after its holder has ended its attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepEnd {
    /// Its state: `succeeded`, `failed`, `waiting` (for its next attempt) or `ready` (given back).
    pub state: String,
    /// When its next attempt is due, if it waits for one.
    pub due_at: Option<DateTime<Utc>>,
    /// Why it failed or waits, in words.
    pub message: Option<String>,
    /// This very receipt had ended it before: nothing more has happened.
    pub was_ended: bool,
}

/// What the database says of a step.
#[derive(sqlx::FromRow)]
struct Fate {
    /// What it is to the holder of the receipt: held, ended, taken, changed or gone.
    #[sqlx(rename = "fate")]
    relation: String,
    step: Option<String>,
    state: Option<String>,
    why: Option<String>,
    message: Option<String>,
    worker: Option<String>,
    due_at: Option<DateTime<Utc>>,
}

#[derive(sqlx::FromRow)]
struct Settled {
    was_held: bool,
    #[sqlx(flatten)]
    fate: Fate,
}

#[derive(sqlx::FromRow)]
struct Renewed {
    until: Option<DateTime<Utc>>,
    is_late: bool,
    #[sqlx(flatten)]
    fate: Fate,
}

/// A verdict, as the statement takes it.
#[derive(Default)]
struct Told {
    verdict: &'static str,
    result: Option<Json<serde_json::Value>>,
    after: Option<PgInterval>,
    code: Option<String>,
    message: Option<String>,
}

impl Told {
    fn new(verdict: Verdict, rule: Option<Duration>) -> Result<Self, Error> {
        Ok(match verdict {
            Verdict::Done => Self { verdict: "ack", ..Self::default() },
            Verdict::DoneWith { result } => {
                Self { verdict: "ack", result: Some(Json(result)), ..Self::default() }
            }
            Verdict::Fail { code, message } => Self::failed(&code, &message, rule)?,
            Verdict::RetryIn { delay, code, message } => Self::failed(&code, &message, Some(delay))?,
            Verdict::Dead { code, message } => Self::failed(&code, &message, None)?,
            Verdict::Snooze { delay } => {
                Self { verdict: "snooze", after: Some(interval("snooze", delay)?), ..Self::default() }
            }
            Verdict::Release => Self { verdict: "release", ..Self::default() },
        })
    }

    fn failed(code: &str, message: &str, retry_in: Option<Duration>) -> Result<Self, Error> {
        Ok(Self {
            verdict: "fail",
            after: retry_in.map(|wait| interval("retry delay", wait.min(DURATION_MAX))).transpose()?,
            code: Some(storable(code, ERROR_CODE_BYTES_MAX)),
            message: Some(storable(message, ERROR_MESSAGE_BYTES_MAX)),
            ..Self::default()
        })
    }
}

impl StepQueue {
    /// Ends an attempt: what came of it, in the words of a handler. With the end of the step its children begin and its run goes on, all in one
    /// transaction; a failure is tried again by the step's own rule.
    ///
    /// [`Error::StepLost`] when the step is not the receipt's any more: nothing has happened then. The same receipt again, because an answer was
    /// lost, is answered as the first time.
    pub async fn settle(&self, receipt: &StepReceipt, verdict: Verdict) -> Result<StepEnd, Error> {
        let told = Told::new(verdict, receipt.retry_in)?;
        let (verdict, closed) = (told.verdict, [receipt.job.token]);
        let (Receipt { lane, x, id, token }, Place(run, no, index, epoch)) = (receipt.job, receipt.place);
        crash::point("ack.before_send");
        let settled: Settled = sqlx::query_as(self.flow.statements().settle_step())
            .bind(self.queue.number())
            .bind(lane)
            .bind(x)
            .bind(id)
            .bind(token)
            .bind(if receipt.alone { &closed[..] } else { &[] })
            .bind(run)
            .bind(no)
            .bind(index)
            .bind(epoch)
            .bind(verdict)
            .bind(told.result)
            .bind(told.after)
            .bind(told.code)
            .bind(told.message)
            .fetch_one(self.flow.bugle.pool())
            .await
            .map_err(Error::executing)?;
        crash::point("ack.after_commit");
        self.flow.bugle.wake_local(self.queue.number()); // for those that follow
        settled.end(receipt, verdict)
    }

    /// Keeps the step for as long again as it was claimed for, with all that was claimed with it; returns until when.
    ///
    /// [`Error::StepLost`] when it is not the receipt's any more, or has run for longer than its timeout: stop working on it.
    pub async fn renew(&self, receipt: &StepReceipt) -> Result<DateTime<Utc>, Error> {
        let (Receipt { lane, x, id, token }, Place(run, no, index, epoch)) = (receipt.job, receipt.place);
        let renewed: Renewed = sqlx::query_as(self.flow.statements().renew_step())
            .bind(self.queue.number())
            .bind(lane)
            .bind(x)
            .bind(id)
            .bind(token)
            .bind(run)
            .bind(no)
            .bind(index)
            .bind(epoch)
            .fetch_one(self.flow.bugle.pool())
            .await
            .map_err(Error::executing)?;
        crash::point("renew.after_commit");
        match renewed.until {
            Some(until) if renewed.fate.relation == "held" => Ok(until),
            _ if renewed.is_late => Err(renewed.fate.lost_for(
                receipt,
                "has run for longer than its timeout".to_owned(),
                "stop, and tell that it failed; without that its lease ends, and the attempt with it",
            )),
            _ => Err(renewed.fate.lost(receipt)),
        }
    }

    /// Keeps how far this attempt has come: a checkpoint for the next attempt, progress for people. What is `None` stays as it is.
    ///
    /// [`Error::StepLost`] when the step is not the receipt's any more.
    pub async fn save(
        &self,
        receipt: &StepReceipt,
        checkpoint: Option<Box<RawValue>>,
        progress: Option<Box<RawValue>>,
    ) -> Result<(), Error> {
        let checked = |value: Option<Box<RawValue>>| value.map(check_payload).transpose();
        let (checkpoint, progress) = (checked(checkpoint)?, checked(progress)?);
        let Place(run, no, index, epoch) = receipt.place;
        let is_saved: bool = sqlx::query_scalar(self.flow.statements().save_checkpoint())
            .bind(run)
            .bind(no)
            .bind(index)
            .bind(epoch)
            .bind(receipt.job.token)
            .bind(checkpoint.map(Json))
            .bind(progress.map(Json))
            .fetch_one(self.flow.bugle.pool())
            .await
            .map_err(Error::executing)?;
        if is_saved {
            return Ok(());
        }
        let fate: Fate = sqlx::query_as(self.flow.statements().step_fate())
            .bind(run)
            .bind(no)
            .bind(index)
            .bind(epoch)
            .bind(receipt.job.token)
            .fetch_one(self.flow.bugle.pool())
            .await
            .map_err(Error::executing)?;
        Err(fate.lost(receipt))
    }
}

impl Settled {
    fn end(self, receipt: &StepReceipt, verdict: &str) -> Result<StepEnd, Error> {
        let fate = self.fate;
        let is_done = if self.was_held {
            fate.relation != "changed" && fate.relation != "gone" // the job was ours, but it carried nothing any more
        } else {
            fate.relation == "ended" && fate.is_as_told(verdict)
        };
        if !is_done {
            return Err(fate.lost(receipt));
        }
        let state = fate.state.unwrap_or_default();
        Ok(StepEnd { state, due_at: fate.due_at, message: fate.message, was_ended: !self.was_held })
    }
}

impl Fate {
    /// Did the attempt that is over end as it is told to now?
    fn is_as_told(&self, verdict: &str) -> bool {
        let (state, why) = (self.state.as_deref(), self.why.as_deref());
        match verdict {
            "ack" => state == Some("succeeded") || (state == Some("failed") && why == Some("decision")),
            "fail" => state == Some("failed") || (state == Some("waiting") && why == Some("retry")),
            "snooze" => state == Some("waiting") && why == Some("snoozed"),
            _ => false,
        }
    }

    /// What whoever lost it is told.
    fn lost(self, receipt: &StepReceipt) -> Error {
        let state = self.state.clone().unwrap_or_default();
        let by = self.worker.as_deref().map_or_else(String::new, |worker| format!(" by worker {worker:?}"));
        let stop = "stop working on it, and claim again; what you tell about it counts for nothing";
        let (fault, next) = match (self.relation.as_str(), state.as_str()) {
            ("taken", "ready") => ("was given back, and waits for the next worker".to_owned(), stop),
            ("taken", _) => (
                format!("was taken over{by}, because its lease had ended"),
                "stop working on it, and claim again; renew the lease before a third of it is left, or claim for longer",
            ),
            ("changed", "cancelled") => ("was cancelled".to_owned(), stop),
            ("changed", _) => {
                let why = self.why.as_deref().map_or_else(String::new, |why| format!(" ({why})"));
                (format!("was changed by hand or by its deadline, and is {state}{why}"), stop)
            }
            ("gone", _) => ("is not there any more".to_owned(), stop),
            ("ended", _) => (format!("has ended its attempt already, and is {state}"), stop),
            _ => (
                "is not held any more: its lease has ended, and it waits for the next worker".to_owned(),
                "stop working on it, and claim again; renew the lease before a third of it is left, or claim for longer",
            ),
        };
        self.lost_for(receipt, fault, next)
    }

    fn lost_for(self, receipt: &StepReceipt, fault: String, next: &'static str) -> Error {
        let run = RunId(receipt.place.0);
        Error::StepLost { run, step: self.step.unwrap_or_else(|| "?".to_owned()), fault, next }
    }
}
