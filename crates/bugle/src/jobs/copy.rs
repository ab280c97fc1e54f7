//! Writing jobs in bulk, with COPY: the fastest way into PostgreSQL.

use super::enqueue::{check_attempts, check_payload, payload};
use super::{Job, Priority};
use crate::name::{Kind, QueueName};
use crate::{Bugle, Error, crash};
use serde_json::value::RawValue;
use sqlx::PgConnection;

/// How many bytes are sent at once.
const CHUNK: usize = 64 * 1024;
/// What a binary COPY begins with: a signature, flags and the length of an extension, of which there are none.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// What it ends with, in place of a number of columns.
const TRAILER: [u8; 2] = (-1_i16).to_be_bytes();
/// Columns of a row: queue, lane, attempts, kind, payload.
const COLUMNS: i16 = 5;
/// PostgreSQL's version of JSON in binary form, which is the text.
const JSONB: u8 = 1;

impl Bugle {
    /// Prepares to write any number of jobs of one type with COPY, all due at once and without keys: the fastest way for many thousands, but
    /// their numbers are not returned. For hundreds take [`Bugle::enqueue_many`]: the end of a COPY is a message of its own, and over TCP it
    /// may wait some 40 ms for the acknowledgement of the one before it.
    pub fn enqueue_bulk<'j, J, I>(
        &self,
        jobs: I,
    ) -> EnqueueBulk<'_, impl Iterator<Item = Payload> + use<'j, J, I>>
    where
        J: Job + 'j,
        I: IntoIterator<Item = &'j J>,
    {
        let payloads = jobs.into_iter().map(|job| payload(J::KIND, job));
        EnqueueBulk::new(self, J::QUEUE, J::KIND, payloads).max_attempts(J::MAX_ATTEMPTS)
    }

    /// The same for jobs whose type is not known here.
    pub fn enqueue_bulk_raw<I>(
        &self,
        queue: &str,
        kind: &str,
        payloads: I,
    ) -> EnqueueBulk<'_, impl Iterator<Item = Payload> + use<I>>
    where
        I: IntoIterator<Item = Box<RawValue>>,
    {
        EnqueueBulk::new(self, queue, kind, payloads.into_iter().map(check_payload))
    }
}

/// A payload, or why it cannot be written.
pub type Payload = Result<Box<RawValue>, Error>;

/// Many jobs of one kind about to be copied.
#[must_use = "nothing is written before `send` or `on`"]
pub struct EnqueueBulk<'b, I> {
    bugle: &'b Bugle,
    queue: Result<QueueName, Error>,
    kind: Result<Kind, Error>,
    priority: Priority,
    max_attempts: u16,
    payloads: I,
}

impl<'b, I: Iterator<Item = Payload>> EnqueueBulk<'b, I> {
    fn new(bugle: &'b Bugle, queue: &str, kind: &str, payloads: I) -> Self {
        let (queue, kind) = (QueueName::parse(queue), Kind::parse(kind));
        Self { bugle, queue, kind, priority: Priority::default(), max_attempts: 5, payloads }
    }

    /// Another queue than the type's own.
    pub fn queue(mut self, queue: &str) -> Self {
        self.queue = QueueName::parse(queue);
        self
    }

    /// Another lane than the normal one.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// How often each job is tried before it is dead.
    pub fn max_attempts(mut self, attempts: u16) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// Writes the jobs in a transaction of their own and returns how many they were when that has committed. All or none are written.
    pub async fn send(self) -> Result<u64, Error> {
        let bugle = self.bugle;
        let mut tx = bugle.begin().await.map_err(Error::connecting)?;
        let name = self.queue.as_ref().ok().cloned();
        crash::point("enqueue.before_send");
        let count = self.on(&mut tx).await?;
        tx.commit().await.map_err(Error::executing)?;
        crash::point("enqueue.after_commit");
        if let Some(name) = name {
            bugle.wake_local_by_name(&name);
        }
        Ok(count)
    }

    /// Writes the jobs in a transaction of the caller's: they exist when that commits, and only then. After an error it must be rolled back.
    pub async fn on(self, connection: &mut PgConnection) -> Result<u64, Error> {
        let (queue, kind) = (self.queue?, self.kind?);
        let attempts = check_attempts(self.max_attempts)?;
        let statements = self.bugle.statements();
        let number: i32 = sqlx::query_scalar(statements.declare_queue())
            .bind(queue.as_str())
            .bind(self.bugle.namespace().as_str())
            .fetch_one(&mut *connection)
            .await
            .map_err(Error::executing)?;
        let lane = i16::try_from(self.priority.lane()).unwrap_or_default();
        let row = Row { queue: number, lane, attempts, kind: kind.as_str() };
        let count = copy(connection, statements.copy_jobs().as_str(), row, self.payloads).await?;
        sqlx::query(statements.copied())
            .bind(number)
            .bind(i64::try_from(count).unwrap_or(i64::MAX))
            .execute(connection)
            .await
            .map_err(Error::executing)?;
        Ok(count)
    }
}

/// What all rows have in common.
#[derive(Clone, Copy)]
struct Row<'a> {
    queue: i32,
    lane: i16,
    attempts: i16,
    kind: &'a str,
}

impl Row<'_> {
    fn write(self, payload: &str, to: &mut Vec<u8>) {
        to.extend(COLUMNS.to_be_bytes());
        field(&self.queue.to_be_bytes(), to);
        field(&self.lane.to_be_bytes(), to);
        field(&self.attempts.to_be_bytes(), to);
        field(self.kind.as_bytes(), to);
        to.extend(length(payload.len() + 1).to_be_bytes());
        to.push(JSONB);
        to.extend(payload.as_bytes());
    }
}

fn field(bytes: &[u8], to: &mut Vec<u8>) {
    to.extend(length(bytes.len()).to_be_bytes());
    to.extend(bytes);
}

/// Nothing that is written here is longer than its limit, far below this.
fn length(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

async fn copy(
    connection: &mut PgConnection,
    statement: &str,
    row: Row<'_>,
    payloads: impl Iterator<Item = Payload>,
) -> Result<u64, Error> {
    let mut copy = connection.copy_in_raw(statement).await.map_err(Error::executing)?;
    let mut chunk = Vec::with_capacity(2 * CHUNK);
    chunk.extend(HEADER);
    for payload in payloads {
        match payload {
            Ok(payload) => row.write(payload.get(), &mut chunk),
            Err(error) => {
                copy.abort("a payload may not be written").await.map_err(Error::executing)?;
                return Err(error);
            }
        }
        if chunk.len() >= CHUNK {
            copy.send(&chunk[..]).await.map_err(Error::executing)?;
            chunk.clear();
        }
    }
    chunk.extend(TRAILER);
    copy.send(&chunk[..]).await.map_err(Error::executing)?;
    copy.finish().await.map_err(Error::executing)
}
