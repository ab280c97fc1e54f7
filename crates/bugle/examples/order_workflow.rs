//! A workflow from its YAML to its end: an order is reserved, each of its items is packed, a person approves it, and the card is charged. The first
//! charge fails and is tried again.
//!
//! `cargo run -p bugle --example order_workflow`

#![allow(clippy::print_stdout)] // it is for people to read

use bugle::flow::{Definition, RunState, Step};
use bugle::pg::embedded::{Options, Server};
use bugle::{Bugle, Done, Verdict};
use serde_json::json;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const ORDER: &str = r#"
name: order
identity: key                       # the same key again finds the same run
deadline: 2h
steps:
  - name: reserve
  - name: pack_each
    map: { step: reserve, at: /items }
  - name: approve
    signal: { key: "approval:{run}", timeout: 7d }
    after: [reserve]
  - name: charge
    after: [pack_each, approve]
    retry: { attempts: 3, backoff: [100ms, 1s] }
  - name: apologise
    after: [ { step: charge, on: failure } ]
"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(Options::ephemeral()).await?; // or your own: Bugle::connect("postgres://...")
    let bugle = Bugle::connect(&server.url()).await?;
    let flow = bugle.flow();
    let definition = Definition::parse_yaml(ORDER)?;
    println!("{}", definition.draw());
    flow.define(&definition).await?;

    let stop = CancellationToken::new();
    let worker = flow
        .worker("steps")
        .handle("reserve", |step: Step| async move {
            let order: serde_json::Value = step.input()?;
            Ok::<_, serde_json::Error>(Done(json!({"items": order["items"]})))
        })
        .handle("pack_each", |step: Step| async move {
            let item: String = step.element()?;
            Ok::<_, serde_json::Error>(Done(format!("{item}, packed")))
        })
        .handle("charge", |step: Step| async move {
            if step.attempt == 1 {
                return Verdict::fail("timeout", "the bank did not answer");
            }
            let packed: Vec<String> = step.output("pack_each").unwrap_or_default();
            Verdict::done_with(&json!({"charged_for": packed, "key": step.idempotency_key()}))
        })
        .handle("apologise", |_| async {});
    let working = tokio::spawn({
        let (flow, stop) = (flow.clone(), stop.clone());
        async move { tokio::try_join!(worker.run(stop.clone()), flow.run_engine(stop)) }
    });

    // In one transaction with whatever belongs to it.
    let mut tx = bugle.begin().await?;
    let run = flow.start("order", &json!({"items": ["tea", "cup"]})).key("order 7").on(&mut *tx).await?;
    tx.commit().await?;
    flow.signal(&format!("approval:{}", run.id()), &true, Some("Ann")).await?;

    let ended = run.wait_within(Duration::from_mins(1)).await?.ok_or("the run did not end")?;
    for step in flow.steps(run.id()).await? {
        println!("{:<10} {:>2} {:<10} {}", step.name, step.idx, step.state, step.attempt);
    }
    assert_eq!(ended.state, RunState::Succeeded);
    let steps = flow.steps(run.id()).await?;
    let charge = steps.iter().find(|step| step.name == "charge").ok_or("no charge")?;
    assert_eq!((charge.state.as_str(), charge.attempt), ("succeeded", 2));
    assert!(charge.output.as_ref().is_some_and(|output| output.0.get().contains("tea, packed")));
    stop.cancel();
    working.await??;
    bugle.close().await;
    server.stop().await?;
    Ok(())
}
