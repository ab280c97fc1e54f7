//! The smallest durable program: an orchestration with one activity.
//!
//! `cargo run -p bugle-duroxide --example hello`
#![allow(clippy::print_stdout)] // it is for people to read

use bugle::pg::embedded::{Options, Server};
use bugle_duroxide::PostgresProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use std::sync::Arc;
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(Options::ephemeral()).await?; // in your program: the PostgreSQL that you have
    let provider = Arc::new(PostgresProvider::new_with_long_poll(&server.url()).await?);

    let activities = ActivityRegistry::builder()
        .register("Greet", |_: ActivityContext, name: String| async move { Ok(format!("Hello, {name}!")) })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Hello", |ctx: OrchestrationContext, name: String| async move {
            ctx.schedule_activity("Greet", name).await
        })
        .build();
    let runtime = Runtime::start_with_store(provider.clone(), activities, orchestrations).await;

    let client = Client::new(provider);
    client.start_orchestration("hello-1", "Hello", "Rust").await?;
    let greeting =
        client.wait_for_orchestration_typed::<String>("hello-1", Duration::from_secs(30)).await??;
    println!("{greeting}");
    assert_eq!(greeting, "Hello, Rust!");

    runtime.shutdown(None).await;
    drop(client); // and with it the last clone of the provider, which stops listening
    server.stop().await?;
    Ok(())
}
