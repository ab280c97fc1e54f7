//! The retry rule of one job: a table of waits, three attempts, then dead. Every failed attempt is kept with its error.
//!
//! `cargo run --example retry_table`
#![allow(clippy::print_stdout)] // it is for people to read

use bugle::jobs::Backoff;
use bugle::pg::embedded::{Options, Server};
use bugle::{Bugle, Ctx, Job, Shared};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[derive(serde::Serialize, serde::Deserialize)]
struct Enrich {
    item: i64,
}

impl Job for Enrich {
    const KIND: &'static str = "enrich";
}

async fn enrich(job: Enrich, stop: Shared<CancellationToken>, ctx: Ctx) -> Result<(), std::io::Error> {
    if ctx.attempt == ctx.max_attempts {
        stop.cancel(); // this example ends with the last attempt
    }
    Err(std::io::Error::other(format!("item {} cannot be enriched", job.item)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(Options::ephemeral()).await?;
    let bugle = Bugle::connect(&server.url()).await?;

    // At once, after 30, after 300: in production of seconds, here of milliseconds.
    let table = Backoff::table([0, 30, 300].map(Duration::from_millis));
    let id = bugle.enqueue(&Enrich { item: 7 }).retry(&table).send().await?;

    let stop = CancellationToken::new();
    bugle.worker("default").share(stop.clone()).handle(enrich).run(stop).await?;

    let shown = bugle.show_job(id).await?.ok_or("the job is gone")?;
    for failed in &shown.failures {
        println!("{} attempt {}: {}: {}", failed.failed_at, failed.attempt, failed.code, failed.message);
    }
    println!("the job is {}", shown.row.state);
    assert_eq!((shown.row.state.as_str(), shown.failures.len()), ("dead", 3));
    bugle.close().await;
    server.stop().await?;
    Ok(())
}
