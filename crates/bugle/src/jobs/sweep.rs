//! The periodic pass: partitions made ahead and dropped by age, small tables kept small. Every node runs it; whoever holds the
//! sweep's lock does the work. (Ended leases are not its business: every look takes them back.)

use super::Statements;
use crate::broker::{self, maintain};
use crate::{Bugle, Error};
use chrono::{DateTime, Utc};
use sqlx::{PgPool, SqlStr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// An idle node trims only at every so many heartbeats: about every five minutes.
const IDLE_TRIM_BEATS: u64 = 20;
/// The partitions are looked at every so many heartbeats: about once an hour.
const PARTITION_BEATS: u64 = 240;

/// Runs of workflows that a statement removes, and events that it moves.
const RUNS_AT_ONCE: i32 = 1_000;
const EVENTS_AT_ONCE: i32 = 10_000;
/// Such statements in a pass. What is left over goes with the next.
const STATEMENTS_MAX: usize = 50;

/// What one pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Partitions made.
    pub made: i32,
    /// Partitions dropped.
    pub dropped: i32,
    /// Rows trimmed.
    pub trimmed: i64,
}

impl Bugle {
    /// One pass. `now` is for tests that move the clock; `None` = the database's own.
    pub async fn sweep(&self, now: Option<DateTime<Utc>>) -> Result<Swept, Error> {
        sweep(self.pool(), self.statements(), now).await
    }
}

async fn sweep(pool: &PgPool, statements: &Statements, now: Option<DateTime<Utc>>) -> Result<Swept, Error> {
    let made = sqlx::query_scalar(statements.make_partitions())
        .bind(now)
        .fetch_one(pool)
        .await
        .map_err(Error::executing)?;
    let trimmed = trim(pool, statements, now).await?;
    in_parts(pool, statements.keep_events(), now, EVENTS_AT_ONCE).await?;
    let dropped = sqlx::query_scalar(statements.drop_partitions())
        .bind(now)
        .fetch_one(pool)
        .await
        .map_err(Error::executing)?;
    Ok(Swept { made, dropped, trimmed })
}

/// `now` moves the clock for runs of workflows alone.
async fn trim(pool: &PgPool, statements: &Statements, now: Option<DateTime<Utc>>) -> Result<i64, Error> {
    let trimmed: i64 =
        sqlx::query_scalar(statements.trim()).fetch_one(pool).await.map_err(Error::executing)?;
    let removed = in_parts(pool, statements.remove_runs(), now, RUNS_AT_ONCE).await?;
    Ok(trimmed + removed)
}

/// Repeats a statement, each in a transaction of its own, until it finds less than it may do at once. How much that was in all.
async fn in_parts(
    pool: &PgPool,
    sql: SqlStr,
    now: Option<DateTime<Utc>>,
    at_once: i32,
) -> Result<i64, Error> {
    let mut total = 0;
    for _ in 0..STATEMENTS_MAX {
        let statement = sqlx::query_scalar(sql.clone()).bind(now).bind(at_once);
        let done: i64 = statement.fetch_one(pool).await.map_err(Error::executing)?;
        total += done;
        if done < at_once.into() {
            break;
        }
    }
    Ok(total)
}

/// What a node does at its heartbeats. A pass that fails is tried again at the next.
pub(crate) struct Sweeper {
    pool: PgPool,
    statements: Arc<Statements>,
    messages: Arc<broker::Statements>,
    /// Looks of this node that found something: jobs, messages.
    finds: [Arc<AtomicU64>; 2],
    beats: AtomicU64,
    swept_finds: AtomicU64,
    under_way: Arc<AtomicBool>,
}

impl Sweeper {
    pub(crate) fn new(
        pool: PgPool,
        statements: Arc<Statements>,
        messages: Arc<broker::Statements>,
        finds: [Arc<AtomicU64>; 2],
    ) -> Self {
        let (beats, swept_finds) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { pool, statements, messages, finds, beats, swept_finds, under_way: Arc::default() }
    }

    /// One heartbeat; the first one is the node's start.
    pub(crate) fn beat(&self) {
        let beat = self.beats.fetch_add(1, Ordering::Relaxed);
        let finds = self.finds.iter().map(|finds| finds.load(Ordering::Relaxed)).sum();
        let busy = self.swept_finds.swap(finds, Ordering::Relaxed) != finds;
        let partitions = beat.is_multiple_of(PARTITION_BEATS);
        if !partitions && !busy && !beat.is_multiple_of(IDLE_TRIM_BEATS) {
            return;
        }
        if self.under_way.swap(true, Ordering::AcqRel) {
            return;
        }
        let idle_turn = beat.is_multiple_of(IDLE_TRIM_BEATS);
        let (pool, statements, under_way) =
            (self.pool.clone(), self.statements.clone(), self.under_way.clone());
        let messages = self.messages.clone();
        tokio::spawn(async move {
            let swept = if partitions {
                sweep(&pool, &statements, None).await.map(drop)
            } else {
                trim(&pool, &statements, None).await.map(drop)
            };
            let maintained = if idle_turn {
                maintain::maintain(&pool, &messages, None).await.map(drop)
            } else {
                maintain::trim(&pool, &messages, None).await.map(drop)
            };
            for error in [swept.err(), maintained.err()].into_iter().flatten() {
                tracing::warn!(%error, "sweep failed, trying again later");
            }
            under_way.store(false, Ordering::Release);
        });
    }
}
