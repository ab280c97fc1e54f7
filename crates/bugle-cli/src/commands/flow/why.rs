//! `bugle flow why`: a sentence for each step that has not ended.

use super::why_words::sentence;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, clean};
use crate::span;
use bugle::Bugle;
use bugle::flow::RunId;
use bugle::flow::inspect::{RunWhy, StepWhy};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Say of each step of a run that has not ended what it waits for, and what to do about it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle flow why 42
  bugle flow why 42 --output json | jq -r '.waits[].reason'

Reasons: parents, at_once, elements, backoff, signal, sleep, run_paused, queue_paused, no_worker, unclaimed, running,
put_off, lease_ended. A worker is seen when it holds a lease, or when its node sleeps for the queue; one that only polls and is idle
is not.")]
pub(super) struct Args {
    /// The run's number, as start or `bugle flow ls` prints it
    run: RunId,
}

pub(super) async fn run(args: &Args, bugle: &Bugle, output: Output) -> Result<Exit, Failure> {
    let why = bugle.flow().why(args.run).await?.ok_or_else(|| super::missing(args.run, bugle))?;
    if output.is_json() {
        output.json(&as_json(&why))?;
    } else {
        output.text(&text(&why))?;
    }
    Ok(Exit::Ok)
}

fn as_json(why: &RunWhy) -> Value {
    let waits: Vec<Value> = why
        .waits
        .iter()
        .map(|wait| {
            let mut value = serde_json::to_value(wait).unwrap_or_default();
            value["why"] = sentence(wait, why).into();
            value
        })
        .collect();
    json!({
        "id": why.run.id,
        "definition": why.run.definition,
        "version": why.run.version,
        "state": why.run.state,
        "paused": why.run.paused,
        "now": why.now,
        "engine_seen": why.engine_seen,
        "why": head(why),
        "waits": waits,
    })
}

fn text(why: &RunWhy) -> String {
    let names: Vec<String> = why.waits.iter().map(name).collect();
    let wide = names.iter().map(|name| name.chars().count()).max().unwrap_or_default();
    let mut text = format!("{}\n", clean(&head(why)));
    for (wait, name) in why.waits.iter().zip(&names) {
        let _ = writeln!(text, "  {name:<wide$}  {}", clean(&sentence(wait, why)));
    }
    text
}

/// `pay`, `notify[3]`, `notify[7…]`.
fn name(wait: &StepWhy) -> String {
    match wait.elements {
        None => wait.step.clone(),
        Some(1) => format!("{}[{}]", wait.step, wait.element),
        Some(_) => format!("{}[{}…]", wait.step, wait.element),
    }
}

/// The run itself.
fn head(why: &RunWhy) -> String {
    let run = &why.run;
    let id = run.id;
    let of = format!("run {id} of {} version {}", run.definition, run.version);
    if run.state.has_ended() {
        let ago = run.ended_at.map_or_else(String::new, |at| {
            format!(" {} ago", span::short((why.now - at).abs().to_std().unwrap_or_default()))
        });
        return match run.state.as_str() {
            "succeeded" => format!("{of} succeeded{ago}: nothing waits"),
            "failed" => format!("{of} failed{ago}: nothing waits; see why with `bugle flow dead {id}`"),
            _ => format!("{of} was cancelled{ago}: nothing waits"),
        };
    }
    let paused = if run.paused {
        format!(" and paused (`bugle flow resume {id}` lets it go on)")
    } else {
        String::new()
    };
    let steps =
        if run.steps_left == 1 { "1 step has".to_owned() } else { format!("{} steps have", run.steps_left) };
    let engine = if why.engine_seen == Some(false) {
        "; nobody is seen who ends sleeps and passes on signals here: a program must run `flow.run_engine`"
    } else {
        ""
    };
    format!("{of} is {}{paused}: {steps} not ended{engine}", run.state.as_str())
}
