//! The bare SQL of a queue, done as fast as it goes: what nothing in PostgreSQL that hands out work row by row can do without.

use super::super::callers::{Enough, broken, saturate};
use super::super::figure::rate;
use super::super::fill::BATCH;
use super::super::ground::Ground;
use super::super::payload::{payload, payloads};
use super::super::wire::Write;
use super::super::writer::Writer;
use crate::failure::Failure;
use serde_json::value::RawValue;
use sqlx::types::Json;
use sqlx::{Connection as _, PgConnection};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// Sessions that insert single rows.
pub(in super::super) const CALLERS: usize = 8;
/// Sessions that claim and delete.
pub(in super::super) const CLAIMERS: usize = 4;
/// What is sent to a COPY at once.
const COPY_ROWS: usize = 500;

/// The bare tables of a ground. Every figure is rows a second.
#[derive(Clone, Copy)]
pub(in super::super) struct Floor<'a> {
    pub(in super::super) ground: &'a Ground,
}

impl Floor<'_> {
    /// Empties the tables.
    pub(in super::super) async fn clear(self) -> Result<(), Failure> {
        sqlx::raw_sql(include_str!("../sql/bare_truncate.sql")).execute(self.ground.pool()).await?;
        self.ground.checkpoint().await
    }

    /// So many sessions, one INSERT a transaction.
    pub(in super::super) async fn insert_single(
        self,
        sessions: usize,
        length: Duration,
    ) -> Result<f64, Failure> {
        let mut writers = Vec::new();
        for _ in 0..sessions {
            writers.push(Writer::session(&self.ground.connect(), Write::Bare, "").await?);
        }
        let saturated = saturate(writers, Enough::After(length)).await?;
        Ok(rate(saturated.commits, saturated.took))
    }

    /// So many sessions, each so many rows a statement.
    pub(in super::super) async fn insert_many(
        self,
        sessions: usize,
        rows: usize,
        length: Duration,
    ) -> Result<f64, Failure> {
        let barrier = Arc::new(Barrier::new(sessions));
        let mut tasks = JoinSet::new();
        for _ in 0..sessions {
            let mut session = PgConnection::connect_with(&self.ground.connect()).await?;
            let barrier = barrier.clone();
            tasks.spawn(async move {
                insert_batch(&mut session, rows).await?; // it is prepared then
                barrier.wait().await;
                let (begun, mut written) = (Instant::now(), 0);
                while begun.elapsed() < length {
                    insert_batch(&mut session, rows).await?;
                    written += rows;
                }
                Ok((written, begun.elapsed()))
            });
        }
        together(tasks).await
    }

    /// One session, [`BATCH`] rows a statement.
    pub(in super::super) async fn insert(self, rows: usize) -> Result<f64, Failure> {
        let mut session = PgConnection::connect_with(&self.ground.connect()).await?;
        let begun = Instant::now();
        let mut left = rows;
        while left > 0 {
            let count = left.min(BATCH);
            insert_batch(&mut session, count).await?;
            left -= count;
        }
        let per_s = rate(rows, begun.elapsed());
        session.close().await?;
        Ok(per_s)
    }

    /// One session, all rows in one COPY.
    pub(in super::super) async fn copy(self, rows: usize) -> Result<f64, Failure> {
        let mut session = PgConnection::connect_with(&self.ground.connect()).await?;
        let line = format!("{}\n", payload().get());
        let begun = Instant::now();
        let mut copy = session.copy_in_raw(include_str!("../sql/floor_copy.sql")).await?;
        let mut left = rows;
        while left > 0 {
            let count = left.min(COPY_ROWS);
            copy.send(line.repeat(count).into_bytes()).await?;
            left -= count;
        }
        copy.finish().await?;
        let per_s = rate(rows, begun.elapsed());
        session.close().await?;
        Ok(per_s)
    }

    /// Several sessions, each claims so many rows and deletes them, until none is left.
    pub(in super::super) async fn drain(self, batch: i64) -> Result<f64, Failure> {
        let barrier = Arc::new(Barrier::new(CLAIMERS));
        let mut tasks = JoinSet::new();
        for _ in 0..CLAIMERS {
            let mut session = PgConnection::connect_with(&self.ground.connect()).await?;
            let barrier = barrier.clone();
            tasks.spawn(async move {
                barrier.wait().await;
                let begun = Instant::now();
                let rows = take_all(&mut session, batch).await?;
                Ok::<_, Failure>((rows, begun.elapsed()))
            });
        }
        together(tasks).await
    }
}

/// Rows a second of all sessions.
async fn together(mut tasks: JoinSet<Result<(usize, Duration), Failure>>) -> Result<f64, Failure> {
    let (mut rows, mut took) = (0, Duration::ZERO);
    while let Some(ended) = tasks.join_next().await {
        let (more, time) = ended.map_err(broken)??;
        rows += more;
        took = took.max(time);
    }
    Ok(rate(rows, took))
}

async fn insert_batch(session: &mut PgConnection, rows: usize) -> Result<(), Failure> {
    let payloads: Vec<_> = payloads(rows).into_iter().map(Json).collect();
    sqlx::query(include_str!("../sql/floor_insert.sql")).bind(payloads).execute(session).await?;
    Ok(())
}

async fn take_all(session: &mut PgConnection, batch: i64) -> Result<usize, Failure> {
    let mut taken = 0;
    loop {
        let rows: Vec<(i64, Json<Box<RawValue>>)> = sqlx::query_as(include_str!("../sql/floor_claim.sql"))
            .bind(batch)
            .fetch_all(&mut *session)
            .await?;
        if rows.is_empty() {
            return Ok(taken);
        }
        let ids: Vec<i64> = rows.iter().map(|(id, _)| *id).collect();
        sqlx::query(include_str!("../sql/floor_delete.sql")).bind(ids).execute(&mut *session).await?;
        taken += rows.len();
    }
}
