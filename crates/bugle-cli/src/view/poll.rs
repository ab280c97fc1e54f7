//! Asking the database, once a second.

use super::{Counts, Snapshot, WorkerLine};
use bugle::Bugle;
use chrono::{DateTime, Utc};
use sqlx::AssertSqlSafe;

/// Remembers the last totals, for rates are differences.
pub(crate) struct Poller {
    bugle: Bugle,
    queue: Option<String>,
    counts_sql: String,
    holders_sql: String,
    statements_are_counted: bool,
    last: Option<Totals>,
}

#[derive(Clone, Copy)]
struct Totals {
    at: DateTime<Utc>,
    enqueued: i64,
    done: i64,
    transactions: i64,
    statements: Option<i64>,
}

#[derive(sqlx::FromRow)]
struct CountsRow {
    at: DateTime<Utc>,
    #[sqlx(flatten)]
    counts: Counts,
}

impl Poller {
    /// Watches one queue, or all of the namespace.
    pub(crate) async fn new(bugle: &Bugle, queue: Option<&str>) -> Result<Self, sqlx::Error> {
        let statements_are_counted =
            sqlx::query_scalar(include_str!("sql/has_statements.sql")).fetch_one(bugle.pool()).await?;
        Ok(Self {
            bugle: bugle.clone(),
            queue: queue.map(ToOwned::to_owned),
            counts_sql: bugle.schema().place_in(include_str!("sql/counts.sql")),
            holders_sql: bugle.schema().place_in(include_str!("sql/holders.sql")),
            statements_are_counted,
            last: None,
        })
    }

    /// How things are now. The first one has no rates.
    pub(crate) async fn poll(&mut self) -> Result<Snapshot, sqlx::Error> {
        let (pool, namespace) = (self.bugle.pool(), self.bugle.namespace().as_str());
        let row: CountsRow = sqlx::query_as(AssertSqlSafe(self.counts_sql.as_str()))
            .bind(namespace)
            .bind(&self.queue)
            .fetch_one(pool)
            .await?;
        let holders: Vec<(String, i64, f64)> = sqlx::query_as(AssertSqlSafe(self.holders_sql.as_str()))
            .bind(namespace)
            .bind(&self.queue)
            .fetch_all(pool)
            .await?;
        let transactions = sqlx::query_scalar(include_str!("sql/transactions.sql")).fetch_one(pool).await?;
        let statements = if self.statements_are_counted {
            Some(sqlx::query_scalar(include_str!("sql/statements.sql")).fetch_one(pool).await?)
        } else {
            None
        };
        let now = Totals {
            at: row.at,
            enqueued: row.counts.enqueued,
            done: row.counts.done,
            transactions,
            statements,
        };
        let rate = |of: fn(&Totals) -> Option<i64>| rate(self.last.as_ref(), &now, of);
        let snapshot = Snapshot {
            at: row.at,
            enqueued_per_second: rate(|t| Some(t.enqueued)).unwrap_or_default(),
            done_per_second: rate(|t| Some(t.done)).unwrap_or_default(),
            counts: row.counts,
            pick_up: None,
            statements_per_second: rate(|t| t.statements),
            transactions_per_second: rate(|t| Some(t.transactions)).unwrap_or_default(),
            workers: holders.into_iter().map(worker_line).collect(),
        };
        self.last = Some(now);
        Ok(snapshot)
    }
}

fn worker_line((name, holds, seconds_left): (String, i64, f64)) -> WorkerLine {
    let note = if seconds_left > 0.0 {
        format!("lease ends in {seconds_left:.0} s unless renewed")
    } else {
        "lease has ended".to_owned()
    };
    WorkerLine { name, pid: None, holds, note }
}

/// How much a total grew in a second. A total that shrank was reset: then nothing is known.
fn rate(last: Option<&Totals>, now: &Totals, of: fn(&Totals) -> Option<i64>) -> Option<f64> {
    let last = last?;
    let seconds = (now.at - last.at).as_seconds_f64();
    let grown = of(now)?.checked_sub(of(last)?).filter(|n| *n >= 0)?;
    #[allow(clippy::cast_precision_loss)] // a number to look at
    let rate = (seconds > 0.0).then(|| grown as f64 / seconds);
    rate
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;

    #[test]
    fn rates_are_by_the_databases_clock_and_survive_a_reset() {
        let at = DateTime::UNIX_EPOCH;
        let totals = |seconds, done| Totals {
            at: at + TimeDelta::seconds(seconds),
            enqueued: 0,
            done,
            transactions: 0,
            statements: None,
        };
        assert_eq!(rate(None, &totals(1, 5), |t| Some(t.done)), None);
        assert_eq!(rate(Some(&totals(0, 10)), &totals(2, 30), |t| Some(t.done)), Some(10.0));
        assert_eq!(rate(Some(&totals(0, 10)), &totals(2, 3), |t| Some(t.done)), None);
        assert_eq!(rate(Some(&totals(0, 10)), &totals(0, 30), |t| Some(t.done)), None);
        assert_eq!(rate(Some(&totals(0, 10)), &totals(2, 3), |t| t.statements), None);
    }
}
