//! Everything that a handler can say: done with a value, later, again after a time, never, or any error.
//!
//! `cargo run --example verdicts`
#![allow(clippy::print_stdout)] // it is for people to read

use bugle::jobs::Backoff;
use bugle::pg::embedded::{Options, Server};
use bugle::{Bugle, Ctx, Done, Job, Verdict};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[derive(serde::Serialize, serde::Deserialize)]
struct Add {
    numbers: Vec<i64>,
}

impl Job for Add {
    const KIND: &'static str = "add";
}

#[derive(serde::Serialize)]
struct Sum {
    sum: i64,
}

/// A value: kept with the history.
async fn add(job: Add) -> Result<Done<Sum>, std::io::Error> {
    Ok(Done(Sum { sum: job.numbers.iter().sum() }))
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Fetch {
    url: String,
}

impl Job for Fetch {
    const KIND: &'static str = "fetch";
    const TIMEOUT: Option<Duration> = Some(Duration::from_secs(10));
}

/// Explicit verdicts, among errors that are simply tried again.
async fn fetch(job: Fetch, ctx: Ctx) -> Result<Verdict, std::io::Error> {
    const SHORT: Duration = Duration::from_millis(5);
    if !job.url.starts_with("https://") {
        return Ok(Verdict::dead("bad_url", format!("{} is no address", job.url)));
    }
    println!("{} in attempt {} of {}", job.url, ctx.attempt, ctx.max_attempts);
    match ctx.attempt {
        1 => Err(std::io::Error::other("connection refused")), // tried again by rule
        2 => Ok(Verdict::retry_in(SHORT, "busy", "the server said when to come back")),
        _ => Ok(Verdict::done_with(&"fetched")),
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Wait;

impl Job for Wait {
    const KIND: &'static str = "wait";
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(Options::ephemeral()).await?;
    let bugle = Bugle::connect(&server.url()).await?;
    bugle.enqueue(&Add { numbers: vec![1, 2, 39] }).send().await?;
    bugle.enqueue(&Fetch { url: "https://example.com".to_owned() }).send().await?;
    bugle.enqueue(&Fetch { url: "example".to_owned() }).send().await?;
    bugle.enqueue(&Wait).send().await?;

    let asked = Arc::new(AtomicU32::new(0));
    let stop = CancellationToken::new();
    let worker = bugle
        .worker("default")
        .backoff(Backoff::exponential(Duration::from_millis(5), Duration::from_secs(1)))
        .handle(add)
        .handle(fetch)
        .handle(move |_: Wait, ctx: Ctx| {
            let asked = asked.fetch_add(1, Ordering::Relaxed);
            async move {
                // Not ready: later, and no attempt is used up, however often.
                if asked < 3 {
                    Verdict::snooze(Duration::from_millis(5))
                } else {
                    Verdict::done_with(&ctx.attempt)
                }
            }
        });
    let counters = worker.counters();
    let running = tokio::spawn(worker.run(stop.clone()));
    while bugle.list_queues().await?.iter().any(|q| q.scheduled + q.ready + q.leased > 0) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.cancel();
    running.await??;

    for (kind, counted) in counters.kinds() {
        let told: Vec<_> = counted.table().into_iter().filter(|(_, n, _)| *n > 0).collect();
        println!(
            "{kind}: {}",
            told.iter().map(|(name, n, _)| format!("{name} {n}")).collect::<Vec<_>>().join(", ")
        );
    }
    let results: Vec<(String, serde_json::Value)> =
        sqlx::query_as("SELECT kind, result FROM bugle.history ORDER BY kind")
            .fetch_all(bugle.pool())
            .await?;
    println!("{results:?}");
    assert_eq!(results[0], ("add".to_owned(), serde_json::json!({ "sum": 42 })));
    assert_eq!(results[2], ("wait".to_owned(), serde_json::json!(1)), "still the first attempt");
    let fetch = counters.kind("fetch");
    assert_eq!((fetch.failed.get(), fetch.dead.get(), fetch.done.get()), (2, 1, 1));
    bugle.close().await;
    server.stop().await?;
    Ok(())
}
