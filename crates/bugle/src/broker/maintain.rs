//! The broker's part of the periodic pass: generations made ahead, begun and dropped, small tables kept small. Every node runs it; whoever
//! holds the lock does the work.

use super::{Broker, Statements};
use crate::Error;
use crate::pg::connect;
use chrono::{DateTime, Utc};
use sqlx::{AssertSqlSafe, PgConnection, PgPool};

/// What one pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Maintained {
    /// Generations made ahead.
    pub made: i32,
    /// The generation that began.
    pub begun: Option<i32>,
    /// Queues whose floor has moved: older messages are invisible.
    pub floors: i32,
    /// Tables dropped.
    pub dropped: u32,
    /// Rows trimmed.
    pub trimmed: i64,
}

impl Broker {
    /// One pass. `now` is for tests that move the clock; `None` = the database's own.
    pub async fn maintain(&self, now: Option<DateTime<Utc>>) -> Result<Maintained, Error> {
        maintain(self.bugle.pool(), self.statements(), now).await
    }
}

/// The whole pass.
pub(crate) async fn maintain(
    pool: &PgPool,
    statements: &Statements,
    now: Option<DateTime<Utc>>,
) -> Result<Maintained, Error> {
    let mut done = Maintained { trimmed: trim(pool, statements, now).await?, ..Maintained::default() };
    // In this order, each in a transaction of its own: what begins must have been made before.
    done.made =
        sqlx::query_scalar(statements.make_generations()).fetch_one(pool).await.map_err(Error::executing)?;
    done.begun = sqlx::query_scalar(statements.begin_generation())
        .bind(now)
        .fetch_one(pool)
        .await
        .map_err(Error::executing)?;
    done.floors = sqlx::query_scalar(statements.advance_floors())
        .bind(now)
        .fetch_one(pool)
        .await
        .map_err(Error::executing)?;
    done.dropped = drop_tables(pool, statements).await?;
    Ok(done)
}

/// What is done more often: the tail is numbered, and the small tables are kept small.
pub(crate) async fn trim(
    pool: &PgPool,
    statements: &Statements,
    now: Option<DateTime<Utc>>,
) -> Result<i64, Error> {
    sqlx::query(statements.number_tail()).execute(pool).await.map_err(Error::executing)?;
    sqlx::query_scalar(statements.trim_messages()).bind(now).fetch_one(pool).await.map_err(Error::executing)
}

/// Drops the tables that nobody can see anything of, on a connection of its own: none of it may be in a transaction, and none of it may wait for
/// long, or others would wait behind it. What cannot be dropped now is dropped by a later pass.
async fn drop_tables(pool: &PgPool, statements: &Statements) -> Result<u32, Error> {
    let mut connection: Option<PgConnection> = None;
    let mut dropped = 0;
    loop {
        let steps: Vec<String> = sqlx::query_scalar(statements.droppable_tables())
            .fetch_all(pool)
            .await
            .map_err(Error::executing)?;
        if steps.is_empty() {
            return Ok(dropped);
        }
        let own = match &mut connection {
            Some(own) => own,
            None => connection.insert(connect::one(&pool.connect_options()).await?),
        };
        sqlx::raw_sql(include_str!("sql/drop_patience.sql"))
            .execute(&mut *own)
            .await
            .map_err(Error::executing)?;
        for step in steps {
            // Made by the database itself, of names that Bugle gave.
            match sqlx::raw_sql(AssertSqlSafe(step)).execute(&mut *own).await.map_err(Error::executing) {
                Ok(_) => {}
                Err(error) if error.is_passing() => {
                    tracing::debug!(%error, "a generation could not be dropped now");
                    return Ok(dropped);
                }
                Err(error) => return Err(error),
            }
        }
        dropped += 1;
    }
}
