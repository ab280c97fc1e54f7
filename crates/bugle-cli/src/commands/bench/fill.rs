//! Many jobs at once.

use super::payload::payloads;
use crate::failure::Failure;
use bugle::Bugle;
use std::time::{Duration, Instant};

/// Jobs of one statement, unless the benchmark is told otherwise.
pub(super) const BATCH: usize = 500;
/// Far enough away not to become due while anything is measured.
const MUCH_LATER: Duration = Duration::from_hours(24);

/// Enqueues so many jobs, one statement after the other, and tells how long that took.
pub(super) async fn fill(bugle: &Bugle, queue: &str, jobs: usize, batch: usize) -> Result<Duration, Failure> {
    write(bugle, queue, jobs, batch, None).await
}

/// The same for jobs that are due tomorrow.
pub(super) async fn fill_later(bugle: &Bugle, queue: &str, jobs: usize) -> Result<Duration, Failure> {
    write(bugle, queue, jobs, BATCH, Some(MUCH_LATER)).await
}

/// Enqueues so many jobs with one COPY, and tells how long that took.
pub(super) async fn copy(bugle: &Bugle, queue: &str, jobs: usize) -> Result<Duration, Failure> {
    let payloads = payloads(jobs);
    let begun = Instant::now();
    bugle.enqueue_bulk_raw(queue, "bench", payloads).send().await?;
    Ok(begun.elapsed())
}

async fn write(
    bugle: &Bugle,
    queue: &str,
    jobs: usize,
    batch: usize,
    delay: Option<Duration>,
) -> Result<Duration, Failure> {
    let begun = Instant::now();
    let mut left = jobs;
    while left > 0 {
        let count = left.min(batch.max(1));
        let many = bugle.enqueue_many_raw(queue, "bench", payloads(count));
        let many = match delay {
            Some(delay) => many.delay(delay),
            None => many,
        };
        many.send().await?;
        left -= count;
    }
    Ok(begun.elapsed())
}
