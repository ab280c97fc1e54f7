//! A producer: as fast as it goes, at a rate, or for later.

use super::super::clock::now_ns;
use super::super::wire::{Order, Saturated, Scheduled, Sent, Write};
use super::writer::Writer;
use super::{Orders, answer, misdirected};
use crate::failure::Failure;
use bugle::Bugle;
use chrono::{DateTime, Utc};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Writes of each client before the clock starts.
const WARM_UP: usize = 5;
/// One session writes at most about this many a second; more are more sessions.
const RATE_OF_ONE: u32 = 250;
const SESSIONS_MAX: u32 = 8;

pub(super) async fn run(connect: &PgConnectOptions, mut orders: Orders) -> Result<(), Failure> {
    answer(&())?;
    while let Some(order) = orders.next().await? {
        match order {
            Order::Saturate { write, clients, length, slow_flush } => {
                answer(&saturate(connect, write, clients, length, slow_flush).await?)?;
            }
            Order::Pace { write, queue, rate, length } => {
                let mut writers = Vec::new();
                for _ in 0..sessions(rate) {
                    writers.push(Writer::session(connect, write, &queue).await?);
                }
                answer(&pace(writers, rate, length).await?)?;
            }
            Order::Schedule { queue, jobs, lead, within } => {
                answer(&schedule(connect, &queue, jobs, lead, within).await?)?;
            }
            Order::Report => return Err(misdirected()),
        }
    }
    Ok(())
}

async fn saturate(
    connect: &PgConnectOptions,
    write: Write,
    clients: usize,
    length: Duration,
    slow_flush: bool,
) -> Result<Saturated, Failure> {
    let barrier = Arc::new(Barrier::new(clients));
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let (connect, barrier) = (connect.clone(), barrier.clone());
        tasks.spawn(async move {
            let mut writer = Writer::session(&connect, write, "bench").await?;
            if slow_flush {
                writer.slow_down().await?;
            }
            for _ in 0..WARM_UP {
                writer.write().await?;
            }
            barrier.wait().await;
            let begun = Instant::now();
            let mut commits = 0;
            while begun.elapsed() < length {
                writer.write().await?;
                commits += 1;
            }
            Ok::<_, Failure>((commits, begun.elapsed()))
        });
    }
    let mut all = Saturated { commits: 0, warm_up: WARM_UP * clients, took: Duration::ZERO };
    while let Some(ended) = tasks.join_next().await {
        let (commits, took) = ended.map_err(broken)??;
        all.commits += commits;
        all.took = all.took.max(took);
    }
    Ok(all)
}

/// Sessions that a rate needs.
fn sessions(rate: u32) -> u32 {
    rate.div_ceil(RATE_OF_ONE).clamp(1, SESSIONS_MAX)
}

/// The writers of a node that produces for itself.
pub(super) fn of_node(bugle: &Bugle, queue: &str, rate: u32) -> Vec<Writer> {
    let writer = || Writer::Node { bugle: bugle.clone(), queue: queue.to_owned() };
    (0..sessions(rate)).map(|_| writer()).collect()
}

/// Writes at a rate. The moments are random within their turns: at equal distances they would keep step with whoever polls.
pub(super) async fn pace(writers: Vec<Writer>, rate: u32, length: Duration) -> Result<Vec<Sent>, Failure> {
    let count = u32::try_from(writers.len()).unwrap_or(1);
    let turn = Duration::from_secs(1) * count / rate.max(1);
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for mut writer in writers {
        tasks.spawn(async move {
            let mut sent = Vec::new();
            let mut next = begun;
            while next < begun + length {
                sleep_until(next + turn.mul_f64(rand::random_range(0.0..1.0))).await;
                let id = writer.write().await?;
                sent.push(Sent { id, at_ns: now_ns() });
                next += turn;
            }
            Ok::<_, Failure>(sent)
        });
    }
    let mut all = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        all.extend(ended.map_err(broken)??);
    }
    Ok(all)
}

async fn schedule(
    connect: &PgConnectOptions,
    queue: &str,
    jobs: u32,
    lead: Duration,
    within: Duration,
) -> Result<Scheduled, Failure> {
    let mut connection = PgConnection::connect_with(connect).await?;
    let clock = include_str!("../sql/clock.sql");
    let now: DateTime<Utc> = sqlx::query_scalar(clock).fetch_one(&mut connection).await?;
    let first = now + lead;
    let count: i64 = sqlx::query_scalar(include_str!("../sql/schedule.sql"))
        .bind(queue)
        .bind(i32::try_from(jobs).unwrap_or(i32::MAX))
        .bind(first)
        .bind(within.as_secs_f64())
        .fetch_one(&mut connection)
        .await?;
    let now: DateTime<Utc> = sqlx::query_scalar(clock).fetch_one(&mut connection).await?;
    connection.close().await?;
    Ok(Scheduled { jobs: usize::try_from(count).unwrap_or_default(), in_time: now < first })
}

#[allow(clippy::needless_pass_by_value)] // as map_err hands it over
fn broken(error: tokio::task::JoinError) -> Failure {
    Failure::server(format!("a task of the benchmark failed: {error}"))
}
