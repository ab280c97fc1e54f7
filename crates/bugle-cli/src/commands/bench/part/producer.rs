//! A producer: as fast as it goes, at a rate, or for later.

use super::super::callers::{Enough, broken, saturate};
use super::super::clock::now_ns;
use super::super::fill::fill;
use super::super::wire::{Order, Scheduled, Sent, Write};
use super::super::writer::Writer;
use super::{Orders, answer, misdirected};
use crate::failure::Failure;
use bugle::pg::connect;
use bugle::{Bugle, Options};
use chrono::{DateTime, Utc};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// One session writes at most about this many a second; more are more sessions.
const RATE_OF_ONE: u32 = 250;
const SESSIONS_MAX: u32 = 8;

pub(super) async fn run(connect: &PgConnectOptions, mut orders: Orders) -> Result<(), Failure> {
    answer(&())?;
    let mut handle = None;
    while let Some(order) = orders.next().await? {
        match order {
            Order::Fill { queue, jobs } => {
                let bugle = match handle.take() {
                    Some(bugle) => bugle,
                    None => Bugle::new(connect::pool(&one(connect)).await?, Options::default()).await?,
                };
                fill(&bugle, &queue, jobs, jobs).await?;
                handle = Some(bugle);
                answer(&())?;
            }
            Order::Saturate { write, clients, length, slow_flush } => {
                let writers = writers(connect, write, clients, slow_flush).await?;
                answer(&saturate(writers, Enough::After(length)).await?)?;
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
            Order::Report | Order::Looks => return Err(misdirected()),
        }
    }
    Ok(())
}

/// A pool of a single connection.
fn one(connect: &PgConnectOptions) -> connect::Options {
    connect::Options { connections_max: 1, ..connect::Options::from(connect.clone()) }
}

/// The sessions of one order to write as fast as it goes.
async fn writers(
    connect: &PgConnectOptions,
    write: Write,
    clients: usize,
    slow_flush: bool,
) -> Result<Vec<Writer>, Failure> {
    let mut writers = Vec::new();
    for _ in 0..clients {
        let mut writer = Writer::session(connect, write, "bench").await?;
        if slow_flush {
            writer.slow_down().await?;
        }
        writers.push(writer);
    }
    Ok(writers)
}

/// Sessions that a rate needs.
fn sessions(rate: u32) -> u32 {
    rate.div_ceil(RATE_OF_ONE).clamp(1, SESSIONS_MAX)
}

/// The writers of a node that produces for itself.
pub(super) fn of_node(bugle: &Bugle, queue: &str, rate: u32) -> Vec<Writer> {
    (0..sessions(rate)).map(|_| Writer::node(bugle, queue)).collect()
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
