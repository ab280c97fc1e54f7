//! Ending what was claimed: every call names its receipts, and a receipt that is too old changes nothing.

use super::enqueue::interval;
use super::{JobId, Queue, Receipt, State, Statements};
use crate::limits::{DURATION_MAX, ERROR_CODE_BYTES_MAX, ERROR_MESSAGE_BYTES_MAX};
use crate::{Error, crash};
use sqlx::postgres::types::PgInterval;
use sqlx::{PgPool, SqlStr};
use std::time::Duration;

/// A failed attempt: what went wrong, and when to try again.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The job's receipt.
    pub receipt: Receipt,
    /// A short name of the error, for grouping.
    pub code: String,
    /// The error in words.
    pub message: String,
    /// When to try again; `None` = never, the job is dead.
    pub retry_in: Option<Duration>,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The job's number.
    pub id: JobId,
    /// The state it is in now.
    pub state: State,
}

/// Receipts, turned into the arrays that the statements take.
struct Columns {
    lane: Vec<i16>,
    x: Vec<i64>,
    id: Vec<i64>,
    token: Vec<i64>,
}

impl Columns {
    fn new<'r>(receipts: impl Iterator<Item = &'r Receipt> + Clone) -> Self {
        Self {
            lane: receipts.clone().map(|r| r.lane).collect(),
            x: receipts.clone().map(|r| r.x).collect(),
            id: receipts.clone().map(|r| r.id).collect(),
            token: receipts.map(|r| r.token).collect(),
        }
    }
}

impl Queue {
    /// Ends jobs that are done. Returns those that were still held; the others were lost or cancelled, a normal answer.
    ///
    /// `closed` names the leases of which nothing is left after this call; one left out simply ends by itself.
    pub async fn ack(&self, receipts: &[Receipt], closed: &[i64]) -> Result<Vec<JobId>, Error> {
        crash::point("ack.before_send");
        let sql = self.bugle.statements().ack();
        let ended = end(self.bugle.pool(), sql, self.number, receipts, closed).await?;
        crash::point("ack.after_commit");
        Ok(ended)
    }

    /// Ends attempts that failed: each job is tried again later, or is dead when its attempts are used up.
    /// A job that is not returned was lost or cancelled.
    pub async fn fail(&self, failures: &[Failure], closed: &[i64]) -> Result<Vec<Ended>, Error> {
        let columns = Columns::new(failures.iter().map(|f| &f.receipt));
        let retry_in: Vec<Option<PgInterval>> = failures
            .iter()
            .map(|f| f.retry_in.map(|d| interval("retry delay", d.min(DURATION_MAX))).transpose())
            .collect::<Result<_, _>>()?;
        let code: Vec<String> = failures.iter().map(|f| storable(&f.code, ERROR_CODE_BYTES_MAX)).collect();
        let message: Vec<String> =
            failures.iter().map(|f| storable(&f.message, ERROR_MESSAGE_BYTES_MAX)).collect();
        let mut connection = self.bugle.pool().acquire().await.map_err(Error::connecting)?;
        crash::point("fail.before_send");
        let ended: Vec<(JobId, String)> = sqlx::query_as(self.bugle.statements().fail())
            .bind(self.number)
            .bind(columns.lane)
            .bind(columns.x)
            .bind(columns.id)
            .bind(columns.token)
            .bind(closed)
            .bind(retry_in)
            .bind(code)
            .bind(message)
            .fetch_all(&mut *connection)
            .await
            .map_err(Error::executing)?;
        crash::point("fail.after_commit");
        self.bugle.wake_local(self.number);
        ended.into_iter().map(|(id, state)| Ok(Ended { id, state: state.parse()? })).collect()
    }

    /// Gives jobs back untouched: ready at once for anybody, the attempt not counted. Returns those that were still held.
    pub async fn release(&self, receipts: &[Receipt], closed: &[i64]) -> Result<Vec<JobId>, Error> {
        let (pool, statements) = (self.bugle.pool(), self.bugle.statements());
        let ended = release(pool, statements, self.number, receipts, closed).await?;
        self.bugle.wake_local(self.number);
        Ok(ended)
    }
}

/// Gives back: [`Queue::release`].
pub(super) async fn release(
    pool: &PgPool,
    statements: &Statements,
    queue: i32,
    receipts: &[Receipt],
    closed: &[i64],
) -> Result<Vec<JobId>, Error> {
    crash::point("release.before_send");
    let ended = end(pool, statements.release(), queue, receipts, closed).await?;
    crash::point("release.after_commit");
    Ok(ended)
}

async fn end(
    pool: &PgPool,
    sql: SqlStr,
    queue: i32,
    receipts: &[Receipt],
    closed: &[i64],
) -> Result<Vec<JobId>, Error> {
    let columns = Columns::new(receipts.iter());
    let mut connection = pool.acquire().await.map_err(Error::connecting)?;
    sqlx::query_scalar(sql)
        .bind(queue)
        .bind(columns.lane)
        .bind(columns.x)
        .bind(columns.id)
        .bind(columns.token)
        .bind(closed)
        .fetch_all(&mut *connection)
        .await
        .map_err(Error::executing)
}

/// What can be kept of a text that anybody may have written: PostgreSQL's text cannot hold NUL.
fn storable(text: &str, max: usize) -> String {
    cut(text, max).replace('\0', "\u{fffd}")
}

/// At most `max` bytes of a text, cut between characters.
fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn long_messages_are_cut_between_characters() {
        assert_eq!(cut("abc", 5), "abc");
        assert_eq!(cut("aéb", 2), "a");
        assert_eq!(cut("aéb", 3), "aé");
    }
}
