//! A thousand ways out and in again: a text is split into a thousand pages, the words of each page are counted on its own, by two nodes, and the
//! counts are added up. One page in a hundred fails at first; a page that never can be read fails alone, and the sum is made without it.
//!
//! `cargo run -p bugle --example fan_out`

#![allow(clippy::print_stdout)] // it is for people to read

use bugle::flow::definition::{OnFailure, Step as Define};
use bugle::flow::{Definition, RunState, Step, StepWorker};
use bugle::jobs::Backoff;
use bugle::pg::embedded::{Options, Server};
use bugle::{Bugle, Done, Verdict};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const PAGES: u64 = 1000;
const UNREADABLE: u64 = 666;

fn definition() -> Result<Definition, Box<dyn std::error::Error>> {
    let built = Definition::builder("count_words")
        .description("How many words a book has")
        .step(Define::task("split"))
        .step(
            Define::map_output("count", "split", "/pages")
                .attempts(2)
                .backoff(Backoff::table([Duration::ZERO, Duration::from_millis(10)]))
                .concurrency(200) // that are ready at once: the others wait their turn
                .on_failure(OnFailure::Continue),
        )
        .step(Define::task("add").after("count"))
        .build()?;
    Ok(built)
}

fn worker(bugle: &Bugle) -> StepWorker {
    bugle
        .flow()
        .worker("steps")
        .concurrency(32)
        .handle("split", |step: Step| async move {
            let pages: u64 = step.input()?;
            let pages: Vec<u64> = (1..=pages).collect(); // what travels is a reference to each page, not the page
            Ok::<_, serde_json::Error>(Done(json!({"pages": pages})))
        })
        .handle("count", |step: Step| async move {
            let page: u64 = match step.element() {
                Ok(page) => page,
                Err(error) => return Verdict::dead("element", error.to_string()),
            };
            match page {
                UNREADABLE => Verdict::dead("ink", "nobody can read this page"),
                page if page % 100 == 0 && step.attempt == 1 => Verdict::fail("glasses", "not at hand"),
                page => Verdict::done_with(&(300 + page % 7)),
            }
        })
        .handle("add", |step: Step| async move {
            let counts: Vec<Option<u64>> = step.output("count")?; // in the order of the pages; null where one failed
            let read = counts.iter().flatten();
            Ok::<_, serde_json::Error>(Done(
                json!({"words": read.clone().sum::<u64>(), "pages": read.count(), "of": counts.len()}),
            ))
        })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(Options::ephemeral()).await?; // or your own: Bugle::connect("postgres://...")
    let nodes = [Bugle::connect(&server.url()).await?, Bugle::connect(&server.url()).await?];
    let flow = nodes[0].flow();
    flow.define(&definition()?).await?;
    let stop = CancellationToken::new();
    let working: Vec<_> = nodes.iter().map(|node| tokio::spawn(worker(node).run(stop.clone()))).collect();

    let begun = Instant::now();
    let run = flow.start("count_words", &PAGES).send().await?;
    let ended = run.wait_within(Duration::from_secs(100)).await?.ok_or("the run did not end")?;
    assert_eq!(ended.state, RunState::Succeeded);
    let steps = flow.steps(run.id()).await?;
    let sum = steps.iter().find(|step| step.name == "add").and_then(|step| step.output.as_ref());
    let sum: serde_json::Value = serde_json::from_str(sum.ok_or("no sum")?.0.get())?;
    println!("{} words on {} of {} pages, in {:.1?}", sum["words"], sum["pages"], sum["of"], begun.elapsed());
    let readable = (1..=PAGES).filter(|page| *page != UNREADABLE);
    assert_eq!(sum["words"], readable.map(|page| 300 + page % 7).sum::<u64>());
    let tried_twice = steps.iter().filter(|step| step.name == "count" && step.attempt == 2).count();
    assert_eq!(tried_twice, 10, "pages that were read at the second attempt");

    stop.cancel();
    for worker in working {
        worker.await??;
    }
    for node in nodes {
        node.close().await;
    }
    server.stop().await?;
    Ok(())
}
