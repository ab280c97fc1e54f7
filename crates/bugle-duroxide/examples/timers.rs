//! Timers and external events: an order is shipped when somebody approves it, and given up when nobody does in time.
//!
//! `cargo run -p bugle-duroxide --example timers`
#![allow(clippy::print_stdout)] // it is for people to read

use bugle::pg::embedded::{Options, Server};
use bugle_duroxide::PostgresProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, Either2, OrchestrationContext, OrchestrationRegistry};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Waits for an approval, but not for ever. Neither wait costs anything: no thread, no connection, no statement.
async fn order(ctx: OrchestrationContext, patience_ms: u64) -> Result<String, String> {
    let approval = ctx.schedule_wait("approval");
    let deadline = ctx.schedule_timer(Duration::from_millis(patience_ms));
    match ctx.select2(approval, deadline).await {
        Either2::First(by) => Ok(format!("shipped, approved by {by}")),
        Either2::Second(()) => Ok("given up".to_owned()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(Options::ephemeral()).await?;
    let provider = Arc::new(PostgresProvider::new_with_long_poll(&server.url()).await?);
    let orchestrations = OrchestrationRegistry::builder().register_typed("Order", order).build();
    let nothing_to_do = ActivityRegistry::builder().build();
    let runtime = Runtime::start_with_store(provider.clone(), nothing_to_do, orchestrations).await;
    let client = Client::new(provider);
    let begun = Instant::now();

    client.start_orchestration_typed("order-1", "Order", 3_600_000).await?;
    client.start_orchestration_typed("order-2", "Order", 1_000).await?;
    // An event that is raised before anybody waits for it would be dropped.
    while client.read_execution_history("order-1", 1).await?.len() < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    client.raise_event("order-1", "approval", "Ada").await?;

    for (order, wanted) in [("order-1", "shipped, approved by Ada"), ("order-2", "given up")] {
        let outcome: String = client.wait_for_orchestration_typed(order, Duration::from_secs(30)).await??;
        println!("{order}: {outcome} after {:.1?}", begun.elapsed());
        assert_eq!(outcome, wanted);
    }
    assert!(begun.elapsed() >= Duration::from_secs(1), "no timer fires early");

    runtime.shutdown(None).await;
    drop(client); // and with it the last clone of the provider, which stops listening
    server.stop().await?;
    Ok(())
}
