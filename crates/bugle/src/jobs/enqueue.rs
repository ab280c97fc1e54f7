//! Writing jobs: on the handle's own pool, or inside a transaction of the caller.

use super::{Backoff, Enqueues, Handle, Job, JobId, Priority};
use crate::limits::{ATTEMPTS_MAX, DURATION_MAX, PAYLOAD_BYTES_MAX};
use crate::name::{Key, Kind, QueueName};
use crate::{Bugle, Error, crash};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::PgExecutor;
use sqlx::postgres::types::PgInterval;
use sqlx::types::Json;
use std::time::Duration;

/// How long a key stands for its job unless told otherwise.
const KEY_WINDOW: Duration = Duration::from_hours(24);

impl Bugle {
    /// Prepares to enqueue a job; [`Enqueue::send`] or [`Enqueue::on`] writes it.
    pub fn enqueue<J: Job>(&self, job: &J) -> Enqueue<'_> {
        let parts = payload(J::KIND, job).map(|payload| vec![payload]);
        Enqueue::new(self, J::QUEUE, J::KIND, parts).max_attempts(J::MAX_ATTEMPTS)
    }

    /// Prepares to enqueue many jobs of one type with one statement.
    pub fn enqueue_many<'j, J: Job>(&self, jobs: impl IntoIterator<Item = &'j J>) -> EnqueueMany<'_> {
        let parts = jobs.into_iter().map(|job| payload(J::KIND, job)).collect();
        EnqueueMany(Enqueue::new(self, J::QUEUE, J::KIND, parts).max_attempts(J::MAX_ATTEMPTS))
    }

    /// Prepares to enqueue a job whose type is not known here.
    pub fn enqueue_raw(&self, queue: &str, kind: &str, payload: Box<RawValue>) -> Enqueue<'_> {
        Enqueue::new(self, queue, kind, check_payload(payload).map(|payload| vec![payload]))
    }

    /// Prepares to enqueue many jobs of one kind whose type is not known here.
    pub fn enqueue_many_raw(&self, queue: &str, kind: &str, payloads: Vec<Box<RawValue>>) -> EnqueueMany<'_> {
        let parts = payloads.into_iter().map(check_payload).collect();
        EnqueueMany(Enqueue::new(self, queue, kind, parts))
    }
}

/// A job about to be written.
#[must_use = "nothing is written before `send` or `on`"]
pub struct Enqueue<'b> {
    bugle: &'b Bugle,
    queue: Result<QueueName, Error>,
    kind: Result<Kind, Error>,
    payloads: Result<Vec<Box<RawValue>>, Error>,
    key: Result<Option<Key>, Error>,
    key_window: Duration,
    due_at: Option<DateTime<Utc>>,
    delay: Option<Duration>,
    priority: Priority,
    max_attempts: u16,
    extra: Result<Option<Box<RawValue>>, Error>,
}

/// What [`Enqueue`] collected, every part of it checked.
pub(crate) struct Checked {
    pub(super) queue: QueueName,
    pub(super) kind: Kind,
    pub(super) payloads: Vec<Json<Box<RawValue>>>,
    pub(super) key: Option<Key>,
    pub(super) key_window: PgInterval,
    pub(super) due_at: Option<DateTime<Utc>>,
    pub(super) delay: Option<PgInterval>,
    pub(super) lane: i32,
    pub(super) max_attempts: i32,
    pub(super) extra: Option<Json<Box<RawValue>>>,
}

impl<'b> Enqueue<'b> {
    fn new(bugle: &'b Bugle, queue: &str, kind: &str, payloads: Result<Vec<Box<RawValue>>, Error>) -> Self {
        Self {
            bugle,
            queue: QueueName::parse(queue),
            kind: Kind::parse(kind),
            payloads,
            key: Ok(None),
            key_window: KEY_WINDOW,
            due_at: None,
            delay: None,
            priority: Priority::default(),
            max_attempts: 5,
            extra: Ok(None),
        }
    }

    /// Another queue than the type's own.
    pub fn queue(mut self, queue: &str) -> Self {
        self.queue = QueueName::parse(queue);
        self
    }

    /// Not before this time has passed, counted by the database's clock.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Not before this moment, by the database's clock.
    pub fn due_at(mut self, due_at: DateTime<Utc>) -> Self {
        self.due_at = Some(due_at);
        self
    }

    /// Another lane than the normal one.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Same key, same job: within the window (24 hours by default) a second enqueue with this key writes nothing and returns the first job's id.
    pub fn key(mut self, key: &str) -> Self {
        self.key = Key::parse(key).map(Some);
        self
    }

    /// How long the key stands for its job.
    pub fn key_window(mut self, window: Duration) -> Self {
        self.key_window = window;
        self
    }

    /// How often the job is tried before it is dead.
    pub fn max_attempts(mut self, attempts: u16) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// A retry rule of the job's own instead of the worker's. A table also says how many attempts there are, and how long the first one
    /// waits unless a delay or due time is given.
    pub fn retry(mut self, rule: &Backoff) -> Self {
        self.max_attempts = rule.attempts().unwrap_or(self.max_attempts);
        if self.delay.is_none() && self.due_at.is_none() && !rule.first().is_zero() {
            self.delay = Some(rule.first());
        }
        self.extra = rule.to_extra().map(Some);
        self
    }

    /// Writes the job in a transaction of its own and returns when that has committed. What several callers send at the same time is written
    /// together (plain jobs, that is: without a key, which may have to wait for somebody else's transaction, without a retry rule of their own, and due at once).
    ///
    /// Dropping the future does not take the job back.
    pub async fn send(self) -> Result<JobId, Error> {
        let bugle = self.bugle;
        let checked = self.check()?;
        if checked.is_plain() {
            let queue = checked.queue.clone();
            let written = bugle.enqueues().call(&Enqueues(bugle.clone()), queue, checked).await;
            return written.unwrap_or_else(|| Err(Error::timed_out()));
        }
        let mut connection = bugle.pool().acquire().await.map_err(Error::connecting)?;
        crash::point("enqueue.before_send");
        let queue = checked.queue.clone();
        let id = checked.write_own(bugle, &mut connection).await?;
        crash::point("enqueue.after_commit");
        bugle.wake_local_by_name(&queue);
        Ok(id)
    }

    /// Like [`Enqueue::send`], for those who wait for the job's end: [`Handle::wait`].
    pub async fn send_handle(self) -> Result<Handle, Error> {
        let bugle = self.bugle;
        // With a key it may be another's job, of long ago.
        let queue = if matches!(self.key, Ok(None)) { self.queue.as_ref().ok().cloned() } else { None };
        Ok(Handle::new(bugle, self.send().await?, queue))
    }

    /// Writes the job on any executor, such as a transaction of the caller: then it exists when that commits, and only then.
    pub async fn on<'e>(self, executor: impl PgExecutor<'e>) -> Result<JobId, Error> {
        let bugle = self.bugle;
        self.check()?.write_one(bugle, executor).await
    }

    fn check(self) -> Result<Checked, Error> {
        Ok(Checked {
            queue: self.queue?,
            kind: self.kind?,
            payloads: self.payloads?.into_iter().map(Json).collect(),
            key: self.key?,
            key_window: interval("key_window", self.key_window)?,
            due_at: self.due_at,
            delay: self.delay.map(|d| interval("delay", d)).transpose()?,
            lane: self.priority.lane(),
            max_attempts: i32::from(check_attempts(self.max_attempts)?),
            extra: self.extra?.map(Json),
        })
    }
}

/// Many jobs of one kind about to be written with one statement.
#[must_use = "nothing is written before `send` or `on`"]
pub struct EnqueueMany<'b>(Enqueue<'b>);

impl EnqueueMany<'_> {
    /// Another queue than the type's own.
    pub fn queue(self, queue: &str) -> Self {
        Self(self.0.queue(queue))
    }

    /// Not before this time has passed, counted by the database's clock.
    pub fn delay(self, delay: Duration) -> Self {
        Self(self.0.delay(delay))
    }

    /// Not before this moment, by the database's clock.
    pub fn due_at(self, due_at: DateTime<Utc>) -> Self {
        Self(self.0.due_at(due_at))
    }

    /// Another lane than the normal one.
    pub fn priority(self, priority: Priority) -> Self {
        Self(self.0.priority(priority))
    }

    /// How often each job is tried before it is dead.
    pub fn max_attempts(self, attempts: u16) -> Self {
        Self(self.0.max_attempts(attempts))
    }

    /// Writes the jobs in a transaction of their own and returns their ids, in order, when that has committed.
    pub async fn send(self) -> Result<Vec<JobId>, Error> {
        let bugle = self.0.bugle;
        let checked = self.0.check()?;
        let mut connection = bugle.pool().acquire().await.map_err(Error::connecting)?;
        crash::point("enqueue.before_send");
        let queue = checked.queue.clone();
        let mut written = checked.write_many(bugle, &mut *connection).await;
        if written.as_ref().is_err_and(Error::is_passing) {
            written = checked.write_many(bugle, &mut *connection).await;
        }
        let ids = written?;
        crash::point("enqueue.after_commit");
        bugle.wake_local_by_name(&queue);
        Ok(ids)
    }

    /// Writes the jobs on any executor, such as a transaction of the caller.
    pub async fn on<'e>(self, executor: impl PgExecutor<'e>) -> Result<Vec<JobId>, Error> {
        let bugle = self.0.bugle;
        self.0.check()?.write_many(bugle, executor).await
    }
}

pub(super) fn payload<J: Serialize>(kind: &str, job: &J) -> Result<Box<RawValue>, Error> {
    let raw = serde_json::value::to_raw_value(job)
        .map_err(|source| Error::Payload { kind: kind.to_owned(), source })?;
    check_payload(raw)
}

/// Refuses a number of attempts that may not be written.
pub(super) fn check_attempts(attempts: u16) -> Result<i16, Error> {
    i16::try_from(attempts).ok().filter(|_| (1..=ATTEMPTS_MAX).contains(&attempts)).ok_or_else(|| {
        Error::Invalid { what: "max_attempts", fault: format!("is {attempts}"), next: "use 1 to 1000" }
    })
}

/// Refuses a payload that may not be written: too long, or with a character that PostgreSQL cannot store.
pub fn check_payload(raw: Box<RawValue>) -> Result<Box<RawValue>, Error> {
    let bytes = raw.get().len();
    if bytes > PAYLOAD_BYTES_MAX {
        return Err(Error::Invalid {
            what: "payload",
            fault: format!("is {bytes} bytes long, over the limit of {PAYLOAD_BYTES_MAX}"),
            next: "store the data elsewhere and enqueue a reference to it",
        });
    }
    if has_nul(raw.get()) {
        return Err(Error::Invalid {
            what: "payload",
            fault: "contains the character \\u0000".to_owned(),
            next: "remove it: PostgreSQL cannot store it in JSON",
        });
    }
    Ok(raw)
}

/// Does this JSON text spell the character NUL? `\\u0000` (an escaped backslash, then letters) does not.
fn has_nul(json: &str) -> bool {
    json.match_indices("\\u0000").any(|(at, _)| {
        let backslashes_before = json.as_bytes().iter().take(at).rev().take_while(|b| **b == b'\\').count();
        backslashes_before % 2 == 0
    })
}

pub(crate) fn interval(what: &'static str, duration: Duration) -> Result<PgInterval, Error> {
    if duration > DURATION_MAX {
        return Err(Error::Invalid { what, fault: format!("is {duration:?}"), next: "use 0 to 100 years" });
    }
    let microseconds = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    Ok(PgInterval { months: 0, days: 0, microseconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nul_is_found_only_where_it_is_spelled() {
        assert!(has_nul(r#""a\u0000b""#));
        assert!(has_nul(r#""a\\\u0000b""#));
        assert!(!has_nul(r#""a\\u0000b""#));
        assert!(!has_nul(r#""u0000""#));
    }
}
