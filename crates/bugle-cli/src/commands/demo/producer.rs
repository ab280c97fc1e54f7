//! Producers: an order and its job in one transaction, or neither.

use super::QUEUE;
use super::worker::PackOrder;
use bugle::Bugle;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// One order in this many is rolled back, with its job.
const ROLL_BACK_ONE_IN: u32 = 20;
/// A producer writes about this many orders a second; more are more producers.
const ORDERS_OF_ONE: u32 = 50;
const PRODUCERS_MIN: u32 = 2;
const PRODUCERS_MAX: u32 = 8;

/// The producers at work, and what they have done.
#[derive(Clone)]
pub(super) struct Producers {
    paused: Arc<AtomicBool>,
    committed: Arc<AtomicU64>,
    rolled_back: Arc<AtomicU64>,
    tasks: TaskTracker,
}

impl Producers {
    pub(super) fn start(bugle: &Bugle, rate: u32, stop: &CancellationToken) -> Self {
        let producers = Self {
            paused: Arc::default(),
            committed: Arc::default(),
            rolled_back: Arc::default(),
            tasks: TaskTracker::new(),
        };
        let count = (rate / ORDERS_OF_ONE).clamp(PRODUCERS_MIN, PRODUCERS_MAX).min(rate);
        let every = Duration::from_secs(1).mul_f64(f64::from(count) / f64::from(rate));
        for _ in 0..count {
            let (producer, bugle, stop) = (producers.clone(), bugle.clone(), stop.clone());
            producers.tasks.spawn(async move {
                // Only the waits are cut short: an order is written whole.
                let mut tick = tokio::time::interval(every);
                tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
                while stop.run_until_cancelled(tick.tick()).await.is_some() {
                    if producer.is_paused() {
                        tick.reset();
                    } else if let Err(error) = producer.order(&bugle).await {
                        tracing::warn!(%error, "an order could not be written");
                        tokio::time::sleep(Duration::from_millis(500)).await;
                        tick.reset();
                    }
                }
            });
        }
        producers.tasks.close();
        producers
    }

    /// The point of it all: the order and its job are one transaction of the user's own.
    async fn order(&self, bugle: &Bugle) -> Result<(), bugle::Error> {
        let changes_its_mind = rand::random_ratio(1, ROLL_BACK_ONE_IN);
        let mut tx = bugle.pool().begin().await.map_err(bugle::Error::NoConnection)?;
        let order: i64 = sqlx::query_scalar(include_str!("sql/order.sql"))
            .bind("a bugle")
            .fetch_one(&mut *tx)
            .await
            .map_err(bugle::Error::Unknown)?;
        bugle.enqueue(&PackOrder::random(order)).queue(QUEUE).on(&mut *tx).await?;
        if changes_its_mind {
            tx.rollback().await.map_err(bugle::Error::Unknown)?;
            self.rolled_back.fetch_add(1, Ordering::Relaxed);
        } else {
            tx.commit().await.map_err(bugle::Error::Unknown)?;
            self.committed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    pub(super) fn toggle_pause(&self) {
        self.paused.fetch_xor(true, Ordering::Relaxed);
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Waits for the orders that are being written.
    pub(super) async fn end(&self) {
        self.tasks.wait().await;
    }

    pub(super) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    pub(super) fn rolled_back(&self) -> u64 {
        self.rolled_back.load(Ordering::Relaxed)
    }
}
