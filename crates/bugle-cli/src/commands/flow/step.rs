//! `bugle flow retry`, `resolve`, `skip` and `restart`: what is done to steps of a run.

use super::{by, on_flow};
use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::payloads;
use bugle::flow::{Flow, RunId};
use serde_json::json;

/// Try a step again that failed, or that waits for its next attempt
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle flow retry 42 pay --reason 'the bank is back'
  bugle flow retry 42 notify --element 7        one element of a map

It gets all its attempts anew; what was skipped because of it waits for it again. Refused when steps after it have begun:
restart from it instead.")]
pub(super) struct RetryArgs {
    /// The run's number
    run: RunId,
    /// The step's name
    step: String,
    /// Of a map: one of its elements, from 1
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = clap::value_parser!(i32).range(0..))]
    element: i32,
    #[command(flatten)]
    by: by::ByArgs,
}

/// End a step by hand as if it had succeeded, with this result
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  bugle flow resolve 42 pay --result '{\"receipt\": 7}' --reason 'paid in cash'")]
pub(super) struct ResolveArgs {
    /// The run's number
    run: RunId,
    /// The step's name
    step: String,
    /// Its output, any JSON; @FILE reads it from a file, `-` from standard input
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    result: String,
    #[command(flatten)]
    by: by::ByArgs,
}

/// End a step by hand as skipped
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  bugle flow skip 42 notify --reason 'she knows'

What needs its success is skipped as well; what runs in any case runs.")]
pub(super) struct SkipArgs {
    /// The run's number
    run: RunId,
    /// The step's name
    step: String,
    #[command(flatten)]
    by: by::ByArgs,
}

/// Run a step and all that comes after it once more, whatever became of them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  bugle flow restart 42 --from pay

A run that has ended goes on. What of these steps runs just now is told to stop.")]
pub(super) struct RestartArgs {
    /// The run's number
    run: RunId,
    /// The step's name
    #[arg(long, value_name = "STEP")]
    from: String,
    #[command(flatten)]
    by: by::ByArgs,
}

pub(super) async fn retry(args: &RetryArgs, flow: &Flow, output: Output) -> Result<Exit, Failure> {
    let was = flow.retry(args.run, &args.step, args.element, args.by.by()).await?;
    tell(args.run, &args.step, &was, "is tried again", output)
}

pub(super) async fn resolve(args: &ResolveArgs, global: &Global, output: Output) -> Result<Exit, Failure> {
    let result = payloads::value("result", &args.result)?;
    let result = serde_json::from_str(result.get())
        .map_err(|error| Failure::user(format!("result cannot be read: {error}")))?;
    on_flow(global, async |flow| {
        let was = flow.resolve(args.run, &args.step, result, args.by.by()).await?;
        tell(args.run, &args.step, &was, "has succeeded by hand", output)
    })
    .await
}

pub(super) async fn skip(args: &SkipArgs, flow: &Flow, output: Output) -> Result<Exit, Failure> {
    let was = flow.skip(args.run, &args.step, args.by.by()).await?;
    tell(args.run, &args.step, &was, "is skipped", output)
}

pub(super) async fn restart(args: &RestartArgs, flow: &Flow, output: Output) -> Result<Exit, Failure> {
    let (run, from) = (args.run, &args.from);
    let steps = flow.restart(run, from, args.by.by()).await?;
    if output.is_json() {
        output.json(&json!({ "run": run, "from": from, "steps": steps }))?;
    } else {
        let begin = if steps == 1 { "1 step begins".to_owned() } else { format!("{steps} steps begin") };
        output.line(&format!("run {run} goes on from step {from}: {begin} anew"))?;
    }
    Ok(Exit::Ok)
}

fn tell(run: RunId, step: &str, was: &str, now: &str, output: Output) -> Result<Exit, Failure> {
    if output.is_json() {
        output.json(&json!({ "run": run, "step": step, "was": was }))?;
    } else {
        output.line(&format!("step {step} of run {run} was {was} and {now}"))?;
    }
    Ok(Exit::Ok)
}
