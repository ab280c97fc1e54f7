//! `bugle flow steps`: pausing and resuming all steps of a namespace. (`bugle flow pause` is for single runs.)

use super::settings::Whom;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use bugle::flow::{Flow, For};
use serde_json::json;

/// Let no step of a namespace begin, and let them begin again; single runs are paused with `bugle flow pause`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
From the moment that a pause has been answered no step begins, on any node. Those that run go on and are settled, and so does
what Bugle does itself: sleeps, signals, deadlines. Runs may be started meanwhile. Pausing what is paused is no error.

Examples:
  bugle flow steps pause --namespace shop
  bugle flow steps resume --namespace shop      whoever waits for them is woken
  bugle flow steps pause --all                  all namespaces that say nothing themselves
  bugle flow steps inherit --namespace shop     paused and resumed with all others")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

/// What to do with the steps of a namespace.
#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Let no step begin; those that run go on
    Pause(Whom),
    /// Let steps begin again
    Resume(Whom),
    /// Pause and resume this namespace with all others
    Inherit,
}

pub(super) async fn run(args: &Args, flow: &Flow, namespace: &str, output: Output) -> Result<Exit, Failure> {
    let (whom, queues) = match &args.command {
        Command::Pause(whom) => (whom.whom(), flow.pause_steps(whom.whom()).await?),
        Command::Resume(whom) => (whom.whom(), flow.resume_steps(whom.whom()).await?),
        Command::Inherit => (For::Namespace, flow.inherit_pause().await?),
    };
    let row = flow.show_settings(whom).await?;
    let paused = row.effective.paused.unwrap_or_default();
    if output.is_json() {
        let answer = json!({ "namespace": row.namespace, "paused": paused, "own": row.own.paused, "queues_changed": queues });
        output.json(&answer)?;
        return Ok(Exit::Ok);
    }
    let of = if whom == For::All { "all namespaces that say nothing themselves" } else { namespace };
    let inherits = if whom == For::Namespace && row.own.paused.is_none() { ", as all others" } else { "" };
    let now = if paused { "no step begins; those that run go on" } else { "steps begin" };
    let changed = match queues {
        0 => "no queue has changed".to_owned(),
        1 => "1 queue has changed".to_owned(),
        _ => format!("{queues} queues have changed"),
    };
    output.line(&format!("{of}: {now}{inherits} ({changed})"))?;
    Ok(Exit::Ok)
}
