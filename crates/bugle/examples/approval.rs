//! A person decides: an expense waits for a signal, for days if it must, without anybody at work on it. It is approved, rejected, or nobody answers
//! and it goes to somebody else. The answer may come before anybody has asked.
//!
//! `cargo run -p bugle --example approval`

#![allow(clippy::print_stdout)] // it is for people to read

use bugle::flow::inspect::Reason;
use bugle::flow::{Definition, Flow, RunHandle, RunState, Step};
use bugle::pg::embedded::{Options, Server};
use bugle::{Bugle, Done};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const EXPENSE: &str = r#"
name: expense
identity: key
deadline: 30d
steps:
  - name: ask                                  # writes to whoever must approve
  - name: answer
    signal: { key: "expense:{run}", timeout: 5s }   # days, outside of an example
    after: [ask]
  - name: judge
    decision: judge                            # chooses one of those that follow
    after: [answer]
  - name: pay
    after: [judge]
  - name: reject
    after: [judge]
  - name: escalate
    after: [ { step: answer, on: failure } ]   # nobody answered
"#;

#[derive(Serialize, Deserialize)]
struct Answer {
    approved: bool,
    why: String,
}

type Failed = serde_json::Error;

async fn judge(step: Step) -> Result<Done<&'static str>, Failed> {
    let answer: Answer = step.output("answer")?;
    Ok(Done(if answer.approved { "pay" } else { "reject" }))
}

/// How a run ended: which of its last steps has succeeded.
async fn outcome(flow: &Flow, run: &RunHandle) -> Result<String, Box<dyn std::error::Error>> {
    let ended = run.wait_within(Duration::from_mins(1)).await?.ok_or("the run did not end")?;
    assert_eq!(ended.state, RunState::Succeeded);
    let steps = flow.steps(run.id()).await?;
    let last = ["pay", "reject", "escalate"];
    let done = steps.iter().find(|step| last.contains(&step.name.as_str()) && step.state == "succeeded");
    Ok(done.ok_or("none of them")?.name.clone())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(Options::ephemeral()).await?; // or your own: Bugle::connect("postgres://...")
    let bugle = Bugle::connect(&server.url()).await?;
    let flow = bugle.flow();
    flow.define(&Definition::parse_yaml(EXPENSE)?).await?;
    let stop = CancellationToken::new();
    let worker = ["ask", "pay", "reject", "escalate"].into_iter().fold(
        flow.worker("steps").handle("judge", judge),
        |worker, name| {
            worker.handle(name, move |step: Step| async move {
                println!("run {}: {name}", step.run);
            })
        },
    );
    let working = tokio::spawn({
        let (flow, stop) = (flow.clone(), stop.clone());
        async move { tokio::try_join!(worker.run(stop.clone()), flow.run_engine(stop)) }
    });
    let start =
        async |key: &str| flow.start("expense", &serde_json::json!({"for": key})).key(key).send().await;
    let answer = |approved, why: &str| Answer { approved, why: why.to_owned() };

    // Ann answers before the question has reached her.
    let taxi = start("taxi").await?;
    flow.signal(&format!("expense:{}", taxi.id()), &answer(true, "of course"), Some("Ann")).await?;
    assert_eq!(outcome(&flow, &taxi).await?, "pay");

    // Bob takes his time; whoever wonders is told what it waits for.
    let boat = start("boat").await?;
    let reason = loop {
        let why = flow.why(boat.id()).await?.ok_or("no run")?;
        let waits = why.waits.into_iter().find(|wait| wait.step == "answer").map(|wait| wait.reason);
        if let Some(Reason::Signal { key, .. }) = waits {
            break key;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    println!("run {} waits for the signal {reason}", boat.id());
    flow.signal(&reason, &answer(false, "we have one"), Some("Bob")).await?;
    assert_eq!(outcome(&flow, &boat).await?, "reject");

    // Nobody answers.
    assert_eq!(outcome(&flow, &start("crown").await?).await?, "escalate");

    stop.cancel();
    working.await??;
    bugle.close().await;
    server.stop().await?;
    Ok(())
}
