//! Phase c: from before the enqueue call to the start of the handler, with an idle worker.

use super::super::callers::broken;
use super::super::clock::{between, now_ns};
use super::super::figure::{Percentiles, rounded};
use super::super::payload::payload;
use super::settings::Settings;
use crate::failure::Failure;
use bugle::jobs::Claimed;
use bugle::{Bugle, Ctx, Verdict};
use serde::Serialize;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

const QUEUE: &str = "contender_c";
const SLOTS: u32 = 16;
/// A worker that has just started sleeps after this.
const SETTLE: Duration = Duration::from_secs(1);
const START_WITHIN: Duration = Duration::from_secs(30);

#[derive(Serialize)]
pub(super) struct Answer {
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    n: usize,
    settings: String,
}

pub(super) async fn measure(bugle: &Bugle, settings: &Settings) -> Result<Answer, Failure> {
    let (starts, mut started) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let worker = bugle.worker(QUEUE).concurrency(SLOTS).handle_any(move |claimed: Claimed, _: Ctx| {
        // The receiver is there as long as anything is measured.
        let _ = starts.send((claimed.id.0, now_ns()));
        async { Verdict::Done }
    });
    let running = tokio::spawn(worker.run(stop.clone()));
    tokio::time::sleep(SETTLE).await;
    let mut called = HashMap::new();
    let mut turns = interval(settings.latency_every);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for _ in 0..settings.latency_jobs {
        turns.tick().await;
        let at = now_ns();
        let id = bugle.enqueue_raw(QUEUE, "bench", payload()).send().await?;
        called.insert(id.0, at);
    }
    let mut waits = Vec::new();
    while waits.len() < called.len() {
        let Ok(Some((id, at))) = timeout(START_WITHIN, started.recv()).await else {
            return Err(Failure::server(format!(
                "only {} of {} jobs were started",
                waits.len(),
                called.len()
            )));
        };
        waits.extend(called.get(&id).map(|from| between(*from, at).as_secs_f64() * 1e3));
    }
    stop.cancel();
    running.await.map_err(broken)??;
    let waited = Percentiles::of(&waits).ok_or_else(|| Failure::server("no job was sent"))?;
    let [p50_ms, p95_ms, p99_ms, max_ms] =
        [waited.p50, waited.p95, waited.p99, waited.max].map(|ms| rounded(ms, 3));
    let settings = format!("one worker, {SLOTS} slots; producer in the same process, on the same handle");
    Ok(Answer { p50_ms, p95_ms, p99_ms, max_ms, n: waits.len(), settings })
}
