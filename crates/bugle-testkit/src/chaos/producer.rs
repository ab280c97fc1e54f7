//! A producer: enqueues in every way there is, cancels now and then, never stops by itself.

use super::calls::{Due, Recorded, Within};
use bugle::JobId;
use chrono::{DateTime, Utc};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Most jobs that wait; beyond it the producer waits too, so that a run can be drained in time.
const OPEN_JOBS_MAX: i64 = 500;

/// Produces until told to stop. `number` makes its marks unlike those of other producers and incarnations.
pub(super) async fn run(
    client: Recorded,
    number: u32,
    seed: u64,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let Some(clock) = DbClock::read(&client, stop).await else { return Ok(()) };
    let mut rng = StdRng::seed_from_u64(seed);
    let mut mark = u64::from(number) << 32;
    let mut mine: Vec<JobId> = Vec::new();
    while !stop.is_cancelled() {
        let max_attempts = [1, 3, 5, 20][rng.random_range(0..4)];
        let mut next = |n: usize| -> Vec<u64> {
            (0..n)
                .map(|_| {
                    mark += 1;
                    mark
                })
                .collect()
        };
        match rng.random_range(0..10) {
            0..=3 => {
                // The same key until the answer is yes: whatever happened before, there is one job.
                let key = format!("{number}-{}", next(1)[0]);
                while !stop.is_cancelled()
                    && client.enqueue_with_key(next(1)[0], &key, max_attempts).await?.is_none()
                {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            way @ 4..=8 => {
                let n = rng.random_range(1..=10);
                let within = if way < 6 { Within::Transaction } else { Within::Call };
                let due = rng.random_bool(0.3).then(|| clock.later(&mut rng));
                mine.extend(client.enqueue(&next(n), due, max_attempts, within).await?);
            }
            _ => {
                if let Some(id) = mine.pop() {
                    client.cancel(id).await?;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..20))).await;
        while let Ok(queues) = client.bugle.list_queues().await
            && queues.iter().map(|q| q.ready).sum::<i64>() > OPEN_JOBS_MAX
            && !stop.is_cancelled()
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

/// So many callers at once.
const CHORUS: u64 = 32;

/// Many callers enqueue plain jobs through one handle, which writes them together, until told to stop.
pub(super) async fn run_chorus(
    client: Recorded,
    number: u32,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..CHORUS {
        let (client, stop) = (client.clone(), stop.clone());
        callers.spawn(async move {
            let marks = (u64::from(number) << 32) + (caller << 24) + 1..;
            for mark in marks {
                if stop.is_cancelled() {
                    break;
                }
                client.enqueue_plain(mark, 5).await?;
                tokio::time::sleep(Duration::from_millis(rand::random_range(0..10))).await;
            }
            anyhow::Ok(())
        });
    }
    callers.join_all().await.into_iter().collect()
}

/// Callers of one process that use the same key.
pub const NAMESAKES: u32 = 25;

/// Each of them enqueues once with the same key, all at the same time.
pub(super) async fn run_namesakes(client: Recorded, number: u32) -> anyhow::Result<()> {
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..u64::from(NAMESAKES) {
        let client = client.clone();
        let mark = (u64::from(number) << 32) + caller;
        callers.spawn(async move { client.enqueue_with_key(mark, "the key", 5).await });
    }
    callers.join_all().await.into_iter().try_for_each(|answer| answer.map(drop))
}

/// The database's clock, looked at once: this node's own may be wrong, and a look for each job would keep it from
/// writing at the very moment when the server goes away.
struct DbClock {
    read: DateTime<Utc>,
    at: Instant,
}

impl DbClock {
    /// `None`: told to stop before there was an answer.
    async fn read(client: &Recorded, stop: &CancellationToken) -> Option<Self> {
        while !stop.is_cancelled() {
            if let Some(read) = client.db_now().await {
                return Some(Self { read, at: Instant::now() });
            }
            tokio::time::sleep(Duration::from_millis(20)).await; // the server may be down just now
        }
        None
    }

    /// A while from now.
    fn later(&self, rng: &mut StdRng) -> Due {
        let now = self.read + self.at.elapsed();
        let wait = Duration::from_millis(rng.random_range(0..300));
        if rng.random_bool(0.5) { Due::At(now + wait) } else { Due::After(wait, now) }
    }
}
