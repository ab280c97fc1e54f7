//! Jobs that are enqueued and run at the same time, with or without somebody who holds a snapshot.

use super::super::callers::broken;
use super::super::child::Child;
use super::super::drain::SLOTS;
use super::super::figure::{rate, rounded};
use super::super::fill::BATCH;
use super::super::ground::Ground;
use super::super::wire::{Order, Part};
use crate::failure::Failure;
use bugle::jobs::Claimed;
use bugle::{Bugle, Ctx, Verdict};
use serde::Serialize;
use sqlx::{Connection as _, PgConnection};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

const QUEUE: &str = "bench";
/// Most jobs that wait or run.
const OPEN_MAX: usize = 5_000;
const CONNECTIONS: u32 = 8;
/// How long a producer waits that finds too many open.
const PAUSE: Duration = Duration::from_millis(1);
const STOP_WITHIN: Duration = Duration::from_secs(1);
/// Until the statistics of the sessions that have ended can be read.
const STATISTICS_ARRIVE: Duration = Duration::from_millis(700);

/// How long jobs flow, in windows.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Flow {
    pub(in super::super) window: Duration,
    pub(in super::super) windows: u32,
}

/// What a flow was.
#[derive(Debug, Serialize)]
pub(super) struct Run {
    /// Handled a second, in each window.
    pub(super) windows_per_s: Vec<f64>,
    /// In all of them.
    pub(super) jobs_per_s: f64,
    /// Of each table that has any.
    pub(super) dead_rows: BTreeMap<String, i64>,
}

impl Flow {
    pub(super) async fn run(self, ground: &Ground, held: bool) -> Result<Run, Failure> {
        ground.make_tables().await?;
        ground.checkpoint().await?;
        let worker = ground.bugle(CONNECTIONS).await?;
        worker.queue(QUEUE).await?;
        let producer = ground.start(Part::Producer).await?;
        let mut holder = PgConnection::connect_with(&ground.connect()).await?;
        if held {
            sqlx::raw_sql(include_str!("../sql/hold.sql")).execute(&mut holder).await?;
        }
        let counted = self.count(&worker, producer).await;
        worker.close().await;
        let (windows_per_s, jobs_per_s) = counted?;
        sleep(STATISTICS_ARRIVE).await;
        let dead: Vec<(String, i64)> =
            sqlx::query_as(include_str!("../sql/dead_rows.sql")).fetch_all(ground.pool()).await?;
        holder.close().await?;
        Ok(Run { windows_per_s, jobs_per_s, dead_rows: dead.into_iter().collect() })
    }

    /// Lets the jobs flow, and counts them.
    async fn count(self, worker: &Bugle, producer: Child) -> Result<(Vec<f64>, f64), Failure> {
        let (handled, stop) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
        let mut tasks = JoinSet::new();
        let counting = handled.clone();
        let worker = worker.worker(QUEUE).concurrency(SLOTS).drain(STOP_WITHIN).handle_any(
            move |_: Claimed, _: Ctx| {
                counting.fetch_add(1, Ordering::Relaxed);
                async { Verdict::Done }
            },
        );
        let work = worker.run(stop.clone());
        tasks.spawn(async move { work.await.map_err(Failure::from) });
        tasks.spawn(produce(producer, handled.clone(), stop.clone()));
        let windows = tokio::select! {
            windows = self.watch(&handled) => windows,
            Some(ended) = tasks.join_next() => {
                ended.map_err(broken)??;
                return Err(Failure::server("a side of the flow ended before it was told to"));
            }
        };
        stop.cancel();
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(broken)??;
        }
        Ok(windows)
    }

    /// What is handled a second in each window, and in all.
    pub(in super::super) async fn watch(self, handled: &AtomicUsize) -> (Vec<f64>, f64) {
        // What it takes until the first is handled belongs to the start.
        while handled.load(Ordering::Relaxed) == 0 {
            sleep(PAUSE).await;
        }
        let begun = Instant::now();
        let first = handled.load(Ordering::Relaxed);
        let (mut before, mut since) = (first, begun);
        let mut windows = Vec::new();
        for number in 1..=self.windows {
            sleep_until(begun + self.window * number).await;
            let (now, until) = (handled.load(Ordering::Relaxed), Instant::now());
            windows.push(rounded(rate(now - before, until - since), 0));
            (before, since) = (now, until);
        }
        (windows, rounded(rate(before - first, since - begun), 0))
    }
}

/// Lets the producer enqueue whenever few are open.
async fn produce(
    mut producer: Child,
    handled: Arc<AtomicUsize>,
    stop: CancellationToken,
) -> Result<(), Failure> {
    let mut sent = 0_usize;
    while !stop.is_cancelled() {
        if sent.saturating_sub(handled.load(Ordering::Relaxed)) >= OPEN_MAX {
            sleep(PAUSE).await;
            continue;
        }
        producer.ask::<()>(&Order::Fill { queue: QUEUE.to_owned(), jobs: BATCH }).await?;
        sent += BATCH;
    }
    producer.end().await;
    Ok(())
}
