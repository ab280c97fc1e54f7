//! Callers that write at the same time, each one after the other, as fast as it goes.

use super::wire::Saturated;
use super::writer::Writer;
use crate::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Barrier;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

/// Writes of each caller before the clock starts.
const WARM_UP: usize = 5;

/// When they have written enough.
#[derive(Debug, Clone, Copy)]
pub(super) enum Enough {
    /// After this time.
    After(Duration),
    /// When they have written so many together.
    Written(usize),
}

/// Lets all of them write until it is enough.
pub(super) async fn saturate(writers: Vec<Writer>, enough: Enough) -> Result<Saturated, Failure> {
    let (callers, begun_calls) = (writers.len(), Arc::new(AtomicUsize::new(0)));
    let barrier = Arc::new(Barrier::new(callers));
    let mut tasks = JoinSet::new();
    for mut writer in writers {
        let (barrier, begun_calls) = (barrier.clone(), begun_calls.clone());
        tasks.spawn(async move {
            for _ in 0..WARM_UP {
                writer.write().await?;
            }
            barrier.wait().await;
            let begun = Instant::now();
            let mut commits = 0;
            while match enough {
                Enough::After(length) => begun.elapsed() < length,
                Enough::Written(count) => begun_calls.fetch_add(1, Ordering::Relaxed) < count,
            } {
                writer.write().await?;
                commits += 1;
            }
            Ok::<_, Failure>((commits, begun.elapsed()))
        });
    }
    let mut all = Saturated { commits: 0, warm_up: WARM_UP * callers, took: Duration::ZERO };
    while let Some(ended) = tasks.join_next().await {
        let (commits, took) = ended.map_err(broken)??;
        all.commits += commits;
        all.took = all.took.max(took);
    }
    Ok(all)
}

#[allow(clippy::needless_pass_by_value)] // as map_err hands it over
pub(super) fn broken(error: JoinError) -> Failure {
    Failure::server(format!("a task of the benchmark failed: {error}"))
}
