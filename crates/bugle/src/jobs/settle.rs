//! Ending what was claimed: every call names its receipts, and a receipt that is too old changes nothing.

use super::enqueue::interval;
use super::queue::Carries;
use super::{JobId, Queue, Receipt, State};
use crate::limits::{DURATION_MAX, ERROR_CODE_BYTES_MAX, ERROR_MESSAGE_BYTES_MAX};
use crate::{Error, crash};
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgArguments;
use sqlx::postgres::types::PgInterval;
use sqlx::query::QueryScalar;
use sqlx::types::Json;
use sqlx::{PgConnection, PgTransaction, Postgres, SqlStr};
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

    /// As parameters 2 to 5 of a statement whose first is the queue.
    fn bind_to(self, query: Ids) -> Ids {
        query.bind(self.lane).bind(self.x).bind(self.id).bind(self.token)
    }
}

type Ids = QueryScalar<'static, Postgres, JobId, PgArguments>;

impl Queue {
    /// Ends jobs that are done. Returns those that were still held; the others were lost or cancelled, a normal answer.
    ///
    /// `closed` names the leases of which nothing is left after this call; one left out simply ends by itself.
    pub async fn ack(&self, receipts: &[Receipt], closed: &[i64]) -> Result<Vec<JobId>, Error> {
        self.desk(&mut *self.connection().await?).ack(receipts, None, closed).await
    }

    /// Ends every job of some claims, each given by its token and how many of its jobs are left: as [`Queue::ack`] does, for less. Returns how
    /// many jobs were still held. Refused, and nothing ended, when a claim has more jobs left than that.
    pub async fn ack_claims(&self, claims: &[(i64, i32)]) -> Result<usize, Error> {
        self.desk(&mut *self.connection().await?).ack_claims(claims, &[], &[]).await
    }

    /// Like [`Queue::ack`], with what each job brought about: kept with the history.
    pub async fn ack_with(
        &self,
        done: &[(Receipt, Option<serde_json::Value>)],
        closed: &[i64],
    ) -> Result<Vec<JobId>, Error> {
        let receipts: Vec<Receipt> = done.iter().map(|(receipt, _)| *receipt).collect();
        let results = done.iter().map(|(_, result)| result.clone().map(Json)).collect();
        self.desk(&mut *self.connection().await?).ack(&receipts, Some(results), closed).await
    }

    /// Ends attempts that failed: each job is tried again later, or is dead when its attempts are used up.
    /// A job that is not returned was lost or cancelled.
    pub async fn fail(&self, failures: &[Failure], closed: &[i64]) -> Result<Vec<Ended>, Error> {
        self.desk(&mut *self.connection().await?).fail(failures, closed).await
    }

    /// Gives jobs back untouched: ready at once for anybody, the attempt not counted. Returns those that were still held.
    pub async fn release(&self, receipts: &[Receipt], closed: &[i64]) -> Result<Vec<JobId>, Error> {
        self.desk(&mut *self.connection().await?).release(receipts, closed).await
    }

    /// Puts jobs off, each by its time, the attempt not counted. Returns those that were still held.
    pub async fn snooze(&self, jobs: &[(Receipt, Duration)], closed: &[i64]) -> Result<Vec<JobId>, Error> {
        self.desk(&mut *self.connection().await?).snooze(jobs, closed).await
    }

    /// Which of these jobs are still held; the others were lost, cancelled or have ended.
    pub async fn held(&self, receipts: &[Receipt]) -> Result<Vec<JobId>, Error> {
        let columns = Columns::new(receipts.iter());
        let statements = self.bugle.statements();
        let sql = match self.carries {
            Carries::Nothing => statements.held(),
            Carries::Steps => statements.held_steps(),
        };
        sqlx::query_scalar(sql)
            .bind(self.number)
            .bind(columns.lane)
            .bind(columns.x)
            .bind(columns.id)
            .bind(columns.token)
            .fetch_all(&mut *self.connection().await?)
            .await
            .map_err(Error::executing)
    }

    /// Ends a job inside a transaction of the caller's, or ends that transaction: [`Ctx::complete_in`](super::Ctx::complete_in).
    pub(super) async fn ack_in(
        &self,
        tx: &mut PgTransaction<'_>,
        receipt: Receipt,
        result: Option<serde_json::Value>,
    ) -> Result<(), Error> {
        let statements = self.bugle.statements();
        let sql = match self.carries {
            Carries::Nothing => statements.ack_in(),
            Carries::Steps => statements.ack_step_in(),
        };
        sqlx::query(sql)
            .bind(self.number)
            .bind(receipt.lane)
            .bind(receipt.x)
            .bind(receipt.id)
            .bind(receipt.token)
            .bind(result.map(Json))
            .execute(&mut **tx)
            .await
            .map_err(Error::executing)
            .map(drop)
    }

    pub(super) async fn connection(&self) -> Result<PoolConnection<Postgres>, Error> {
        self.bugle.connection().await
    }

    pub(super) fn carries_steps(&self) -> bool {
        self.carries == Carries::Steps
    }

    /// The statements that end jobs of this queue, on that connection.
    pub(super) fn desk<'a>(&'a self, connection: &'a mut PgConnection) -> Desk<'a> {
        Desk { queue: self, connection }
    }
}

/// Ends jobs of one queue on one connection: a worker keeps one while work flows.
pub(super) struct Desk<'a> {
    queue: &'a Queue,
    connection: &'a mut PgConnection,
}

impl Desk<'_> {
    /// [`Queue::ack_with`]; no results at all are usual, and cost nothing.
    pub(super) async fn ack(
        self,
        receipts: &[Receipt],
        results: Option<Vec<Option<Json<serde_json::Value>>>>,
        closed: &[i64],
    ) -> Result<Vec<JobId>, Error> {
        if self.queue.carries == Carries::Steps {
            return self.ack_steps(receipts, results, closed).await;
        }
        let columns = Columns::new(receipts.iter());
        crash::point("ack.before_send");
        let ended = columns
            .bind_to(sqlx::query_scalar(self.queue.bugle.statements().ack()).bind(self.queue.number))
            .bind(closed)
            .bind(results)
            .fetch_all(self.connection)
            .await
            .map_err(Error::executing)?;
        crash::point("ack.after_commit");
        Ok(ended)
    }

    /// The same for steps. Those that follow are looked for at once, unless a ring tells of them.
    async fn ack_steps(
        self,
        receipts: &[Receipt],
        results: Option<Vec<Option<Json<serde_json::Value>>>>,
        closed: &[i64],
    ) -> Result<Vec<JobId>, Error> {
        let columns = Columns::new(receipts.iter());
        crash::point("ack.before_send");
        let rows: Vec<(Option<JobId>, Option<i32>)> =
            sqlx::query_as(self.queue.bugle.statements().ack_steps())
                .bind(self.queue.number)
                .bind(columns.lane)
                .bind(columns.x)
                .bind(columns.id)
                .bind(columns.token)
                .bind(closed)
                .bind(results)
                .fetch_all(self.connection)
                .await
                .map_err(Error::executing)?;
        crash::point("ack.after_commit");
        for queue in rows.iter().filter_map(|(_, look)| *look) {
            self.queue.bugle.wake_local(queue);
        }
        Ok(rows.into_iter().filter_map(|(id, _)| id).collect())
    }

    /// May jobs be ended claim by claim? Those that carry something have each its own end.
    pub(super) fn ends_claims(&self) -> bool {
        self.queue.carries == Carries::Nothing
    }

    /// Which of these jobs somebody else's open transaction holds: nobody knows yet whether they have ended.
    pub(super) async fn locked(self, receipts: &[Receipt]) -> Result<Vec<JobId>, Error> {
        let columns = Columns::new(receipts.iter());
        let statements = self.queue.bugle.statements();
        let sql = match self.queue.carries {
            Carries::Nothing => statements.locked(),
            Carries::Steps => statements.locked_steps(),
        };
        sqlx::query_scalar(sql)
            .bind(self.queue.number)
            .bind(columns.lane)
            .bind(columns.x)
            .bind(columns.id)
            .fetch_all(self.connection)
            .await
            .map_err(Error::executing)
    }

    /// [`Queue::ack`] for whole claims, each with how many of its jobs are left, and for single receipts; how many were still held.
    pub(super) async fn ack_claims(
        self,
        claims: &[(i64, i32)],
        receipts: &[Receipt],
        closed: &[i64],
    ) -> Result<usize, Error> {
        let (tokens, left): (Vec<i64>, Vec<i32>) = claims.iter().copied().unzip();
        let columns = Columns::new(receipts.iter());
        crash::point("ack.before_send");
        let ended: i32 = sqlx::query_scalar(self.queue.bugle.statements().ack_claims())
            .bind(self.queue.number)
            .bind(tokens)
            .bind(left)
            .bind(columns.lane)
            .bind(columns.x)
            .bind(columns.id)
            .bind(columns.token)
            .bind(closed)
            .fetch_one(self.connection)
            .await
            .map_err(Error::executing)?;
        crash::point("ack.after_commit");
        Ok(usize::try_from(ended).unwrap_or(0))
    }

    /// [`Queue::fail`].
    pub(super) async fn fail(self, failures: &[Failure], closed: &[i64]) -> Result<Vec<Ended>, Error> {
        let columns = Columns::new(failures.iter().map(|f| &f.receipt));
        let retry_in: Vec<Option<PgInterval>> = failures
            .iter()
            .map(|f| f.retry_in.map(|d| interval("retry delay", d.min(DURATION_MAX))).transpose())
            .collect::<Result<_, _>>()?;
        let code: Vec<String> = failures.iter().map(|f| storable(&f.code, ERROR_CODE_BYTES_MAX)).collect();
        let message: Vec<String> =
            failures.iter().map(|f| storable(&f.message, ERROR_MESSAGE_BYTES_MAX)).collect();
        crash::point("fail.before_send");
        let statements = self.queue.bugle.statements();
        let sql = match self.queue.carries {
            Carries::Nothing => statements.fail(),
            Carries::Steps => statements.fail_steps(),
        };
        let ended: Vec<(JobId, String)> = sqlx::query_as(sql)
            .bind(self.queue.number)
            .bind(columns.lane)
            .bind(columns.x)
            .bind(columns.id)
            .bind(columns.token)
            .bind(closed)
            .bind(retry_in)
            .bind(code)
            .bind(message)
            .fetch_all(self.connection)
            .await
            .map_err(Error::executing)?;
        crash::point("fail.after_commit");
        self.queue.bugle.wake_local(self.queue.number);
        ended.into_iter().map(|(id, state)| Ok(Ended { id, state: state.parse()? })).collect()
    }

    /// [`Queue::release`].
    pub(super) async fn release(self, receipts: &[Receipt], closed: &[i64]) -> Result<Vec<JobId>, Error> {
        let statements = self.queue.bugle.statements();
        let sql = match self.queue.carries {
            Carries::Nothing => statements.release(),
            Carries::Steps => statements.release_steps(),
        };
        let ended = release(self.connection, sql, self.queue.number, receipts, closed).await?;
        self.queue.bugle.wake_local(self.queue.number);
        Ok(ended)
    }

    /// [`Queue::snooze`].
    pub(super) async fn snooze(
        self,
        jobs: &[(Receipt, Duration)],
        closed: &[i64],
    ) -> Result<Vec<JobId>, Error> {
        let columns = Columns::new(jobs.iter().map(|(receipt, _)| receipt));
        let delay: Vec<PgInterval> = jobs
            .iter()
            .map(|(_, delay)| interval("snooze", (*delay).min(DURATION_MAX)))
            .collect::<Result<_, _>>()?;
        let statements = self.queue.bugle.statements();
        let sql = match self.queue.carries {
            Carries::Nothing => statements.snooze(),
            Carries::Steps => statements.snooze_steps(),
        };
        let ended = columns
            .bind_to(sqlx::query_scalar(sql).bind(self.queue.number))
            .bind(closed)
            .bind(delay)
            .fetch_all(self.connection)
            .await
            .map_err(Error::executing)?;
        self.queue.bugle.wake_local(self.queue.number);
        Ok(ended)
    }
}

/// Gives back: [`Queue::release`], for those who have no queue in their hands.
pub(super) async fn release(
    connection: &mut PgConnection,
    sql: SqlStr,
    queue: i32,
    receipts: &[Receipt],
    closed: &[i64],
) -> Result<Vec<JobId>, Error> {
    let columns = Columns::new(receipts.iter());
    crash::point("release.before_send");
    let ended = columns
        .bind_to(sqlx::query_scalar(sql).bind(queue))
        .bind(closed)
        .fetch_all(connection)
        .await
        .map_err(Error::executing)?;
    crash::point("release.after_commit");
    Ok(ended)
}

/// What can be kept of a text that anybody may have written: PostgreSQL's text cannot hold NUL.
pub(crate) fn storable(text: &str, max: usize) -> String {
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
