//! A whole runtime on the provider: what it costs the database, and that it ends as written.

use crate::fixture::{Place, SOON, until};
use bugle_duroxide::PostgresProvider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use std::sync::Arc;
use std::time::Duration;

/// Four dispatchers of turns and four of work.
pub(crate) async fn runtime(provider: &PostgresProvider) -> Arc<Runtime> {
    let activities = ActivityRegistry::builder()
        .register("Greet", |_: ActivityContext, name: String| async move { Ok(format!("Hello, {name}")) })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Hello", |ctx: OrchestrationContext, name: String| async move {
            ctx.schedule_activity("Greet", name).await
        })
        .register("Nap", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_timer(Duration::from_millis(300)).await;
            Ok("awake".to_owned())
        })
        .build();
    let options =
        RuntimeOptions { orchestration_concurrency: 4, worker_concurrency: 4, ..RuntimeOptions::default() };
    Runtime::start_with_options(Arc::new(provider.clone()), activities, orchestrations, options).await
}
pub(crate) async fn done(client: &Client, instance: &str) -> String {
    match client.wait_for_orchestration(instance, SOON).await.unwrap() {
        OrchestrationStatus::Completed { output, .. } => output,
        other => panic!("{instance}: {other:?}"),
    }
}

/// Enqueue, two turns claimed and acked, the work claimed and acked: seven are useful. The worker's read is answered by its claim.
///
/// The cheapest of some counts: where a commit takes long, the engine rightly looks again until it is seen, and the worker may claim before
/// its node has learned that the turn is acked. What an instance costs on average is for `bugle bench durable` to say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_with_one_activity_costs_eight_statements_at_most() {
    const CALLS: [&str; 7] = [
        "bugle.enqueue_messages(",
        "bugle.claim_turns(",
        "bugle.ack_turn(",
        "bugle.claim_work(",
        "bugle.ack_work(",
        "bugle.read_history(",
        "bugle.sit(",
    ];
    let place = Place::new().await;
    let (node, client) = (place.waiting().await, place.at_once().await);
    let runtime = runtime(&node).await;
    let client = Client::new(Arc::new(client));
    client.start_orchestration("warm", "Hello", "you").await.unwrap();
    assert_eq!(done(&client, "warm").await, "Hello, you");
    place.asleep(&node, 8).await;
    let (mut costs, mut reads) = (Vec::new(), Vec::new());
    for n in 0..10 {
        let before = place.db.statements(&CALLS).await.unwrap();
        let reads_before = place.db.statements(&["bugle.read_history("]).await.unwrap();
        client.start_orchestration(&format!("i{n}"), "Hello", "you").await.unwrap();
        // Not by a read of the client, which would be counted.
        let is_over = format!(
            "SELECT EXISTS (SELECT FROM bugle.execution WHERE instance = 'i{n}' AND status = 'Completed')"
        );
        until("it is over", async || place.one::<bool>(&is_over).await).await;
        place.asleep(&node, 8).await;
        costs.push(place.db.statements(&CALLS).await.unwrap() - before);
        reads.push(place.db.statements(&["bugle.read_history("]).await.unwrap() - reads_before);
    }
    let cheapest = costs.iter().min().unwrap();
    assert!((7..=8).contains(cheapest), "statements of each instance: {costs:?}");
    assert!(reads.contains(&0), "reads of each instance: {reads:?}");
    runtime.shutdown(Some(1_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_finish_what_was_begun() {
    let place = Place::new().await;
    let (one, two, client) = (place.waiting().await, place.waiting().await, place.at_once().await);
    let runtimes = (runtime(&one).await, runtime(&two).await);
    let client = Client::new(Arc::new(client));
    for n in 0..20 {
        let (name, orchestration) = (format!("i{n}"), if n % 2 == 0 { "Hello" } else { "Nap" });
        client.start_orchestration(&name, orchestration, "you").await.unwrap();
    }
    for n in 0..20 {
        let output = done(&client, &format!("i{n}")).await;
        assert_eq!(output, if n % 2 == 0 { "Hello, you" } else { "awake" });
    }
    for node in [&one, &two] {
        assert_eq!(node.node().unwrap().counters().fallback_hits.get(), 0, "a wake was missed");
    }
    runtimes.0.shutdown(Some(1_000)).await;
    runtimes.1.shutdown(Some(1_000)).await;
}
