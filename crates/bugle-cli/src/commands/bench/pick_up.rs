//! Pick-up: from the answer to the producer's commit to the start of the handler in another process.

use super::child::Child;
use super::clock::between;
use super::figure::rate;
use super::wire::{Order, Report, Sent, Started};
use crate::failure::Failure;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// What was sent must be started within this, or there is nothing to measure.
const START_WITHIN: Duration = Duration::from_secs(30);
const ASK_EVERY: Duration = Duration::from_millis(50);

/// Waits until the consumers have started `count` jobs or rows, and tells which and when.
pub(super) async fn starts(consumers: &mut [Child], count: usize) -> Result<Vec<Started>, Failure> {
    let deadline = Instant::now() + START_WITHIN;
    let mut started = Vec::new();
    loop {
        for consumer in &mut *consumers {
            started.extend(consumer.ask::<Report>(&Order::Report).await?.started);
        }
        if started.len() >= count {
            return Ok(started);
        }
        if Instant::now() > deadline {
            return Err(Failure::server(format!("only {} of {count} jobs were started", started.len())));
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// The pick-ups of what was sent, in milliseconds. A handler may start before the producer has heard of its own commit: that is zero.
pub(super) async fn pick_ups(consumers: &mut [Child], sent: &[Sent]) -> Result<Vec<f64>, Failure> {
    let started = starts(consumers, sent.len()).await?;
    let started: HashMap<i64, i64> = started.iter().map(|start| (start.id, start.at_ns)).collect();
    let pick_up = |sent: &Sent| started.get(&sent.id).map(|at| between(sent.at_ns, *at).as_secs_f64() * 1e3);
    sent.iter()
        .map(pick_up)
        .collect::<Option<_>>()
        .ok_or_else(|| Failure::server("a job was started that nobody sent"))
}

/// How many a second were really sent: a busy machine may not keep up with what was asked.
pub(super) fn rate_of(sent: &[Sent]) -> f64 {
    let moments = || sent.iter().map(|sent| sent.at_ns);
    let (first, last) = (moments().min().unwrap_or_default(), moments().max().unwrap_or_default());
    rate(sent.len().saturating_sub(1), between(first, last))
}
