//! Fan-out and fan-in: many activities at once, on all workers of the fleet, and one result made of theirs.
//!
//! `cargo run -p bugle-duroxide --example fan_out`
#![allow(clippy::print_stdout)] // it is for people to read

use bugle::pg::embedded::{Options, Server};
use bugle_duroxide::PostgresProvider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Barrier;

const PAGES: [&str; 4] = ["to be", "or not to be", "that is", "the question"];

/// Counts the words of all pages at the same time. What comes back is in the order of the pages, whoever was first.
async fn count_all(ctx: OrchestrationContext, pages: Vec<String>) -> Result<Vec<usize>, String> {
    let counts =
        pages.iter().map(|page| ctx.schedule_activity_typed::<_, usize>("Count", page)).collect::<Vec<_>>();
    ctx.join(counts).await.into_iter().collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(Options::ephemeral()).await?;
    let provider = Arc::new(PostgresProvider::new_with_long_poll(&server.url()).await?);

    // Nobody counts before all have begun: were they run one after the other, this would never end.
    let all_here = Arc::new(Barrier::new(PAGES.len()));
    let activities = ActivityRegistry::builder()
        .register_typed("Count", move |_: ActivityContext, page: String| {
            let all_here = all_here.clone();
            async move {
                all_here.wait().await;
                Ok(page.split_whitespace().count())
            }
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder().register_typed("CountAll", count_all).build();
    let options = RuntimeOptions { worker_concurrency: PAGES.len(), ..RuntimeOptions::default() };
    let runtime = Runtime::start_with_options(provider.clone(), activities, orchestrations, options).await;

    let client = Client::new(provider);
    client.start_orchestration_typed("hamlet", "CountAll", PAGES).await?;
    let counts: Vec<usize> = client.wait_for_orchestration_typed("hamlet", Duration::from_secs(30)).await??;
    println!("{counts:?}, {} words", counts.iter().sum::<usize>());
    assert_eq!(counts, [2, 4, 2, 2]);

    runtime.shutdown(None).await;
    drop(client); // and with it the last clone of the provider, which stops listening
    server.stop().await?;
    Ok(())
}
