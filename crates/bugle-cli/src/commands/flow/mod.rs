//! `bugle flow`: workflows, their runs, and what a person does to them.

mod by;
mod change;
mod dead;
mod define;
mod defs;
mod drawing;
mod events;
mod export;
mod import;
mod ls;
mod moment;
mod route;
mod settings;
mod show;
mod signal;
mod start;
mod step;
mod step_words;
mod steps;
mod wait;
mod why;
mod why_words;

use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use bugle::Bugle;
use bugle::flow::{Flow, RunId};

/// Workflows, their runs, and what a person does to them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle flow define order.yaml                          define a workflow, and see it drawn
  bugle flow start order --input '{\"items\": [\"tea\"]}'    start a run, print its number
  bugle flow ls --state running                         what is under way?
  bugle flow show 42                                    how far is it?
  bugle flow why 42                                     what does it wait for?
  bugle flow signal approval:42 true                    tell it
  bugle flow dead                                       what went wrong?
  bugle flow export 42 > run.jsonl                      a run in a file, for `bugle flow import` elsewhere
  bugle flow retry 42 pay --reason 'the bank is back'   try a step again
  bugle flow steps pause --namespace shop               let no step of a namespace begin
  bugle flow settings                                   how is each namespace run?")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

/// What to do with workflows.
#[derive(Debug, clap::Subcommand)]
enum Command {
    Define(define::Args),
    Defs(defs::Args),
    Start(start::Args),
    Wait(wait::Args),
    Ls(ls::Args),
    Show(show::Args),
    Why(why::Args),
    Dead(dead::Args),
    Signal(signal::Args),
    Export(export::Args),
    Import(import::Args),
    /// End runs: nothing of them begins any more, and whoever runs a step is told to stop
    Cancel(change::Args),
    /// Let nothing of runs begin until they are resumed; what runs goes on and is settled
    Pause(change::Args),
    /// Let paused runs go on
    Resume(change::Args),
    Retry(step::RetryArgs),
    Resolve(step::ResolveArgs),
    Skip(step::SkipArgs),
    Restart(step::RestartArgs),
    Route(route::Args),
    Steps(steps::Args),
    Mode(settings::ModeArgs),
    Set(settings::SetArgs),
    /// List how workflows are run, namespace by namespace: wake mode, slots, pause
    #[command(
        after_help = "Example:\n  bugle flow settings -o json | jq '.[] | select(.effective.mode != \"hybrid\") | .namespace'"
    )]
    Settings,
}

/// Runs what was typed. Files and standard input are read before anybody connects.
pub(crate) async fn run(args: Args, global: &Global, output: Output) -> Result<Exit, Failure> {
    match args.command {
        Command::Define(args) => define::run(&args, global, output).await,
        Command::Start(args) => start::run(&args, global, output).await,
        Command::Wait(args) => wait::run(&args, global, output).await,
        Command::Signal(args) => signal::run(&args, global, output).await,
        Command::Import(args) => import::run(&args, global, output).await,
        Command::Export(args) => on_flow(global, async |flow| export::run(&args, flow).await).await,
        Command::Resolve(args) => step::resolve(&args, global, output).await,
        Command::Defs(args) => on_flow(global, async |flow| defs::run(&args, flow, output).await).await,
        Command::Ls(args) => on_flow(global, async |flow| ls::run(&args, flow, output).await).await,
        Command::Show(args) => on_bugle(global, async |bugle| show::run(&args, bugle, output).await).await,
        Command::Why(args) => on_bugle(global, async |bugle| why::run(&args, bugle, output).await).await,
        Command::Dead(args) => on_bugle(global, async |bugle| dead::run(&args, bugle, output).await).await,
        Command::Cancel(args) => {
            on_flow(global, async |flow| change::run(&args, change::Verb::Cancel, flow, output).await).await
        }
        Command::Pause(args) => {
            on_flow(global, async |flow| change::run(&args, change::Verb::Pause, flow, output).await).await
        }
        Command::Resume(args) => {
            on_flow(global, async |flow| change::run(&args, change::Verb::Resume, flow, output).await).await
        }
        Command::Retry(args) => on_flow(global, async |flow| step::retry(&args, flow, output).await).await,
        Command::Skip(args) => on_flow(global, async |flow| step::skip(&args, flow, output).await).await,
        Command::Restart(args) => {
            on_flow(global, async |flow| step::restart(&args, flow, output).await).await
        }
        Command::Route(args) => on_flow(global, async |flow| route::run(&args, flow, output).await).await,
        Command::Steps(args) => {
            let namespace = global.namespace.as_str();
            on_flow(global, async |flow| steps::run(&args, flow, namespace, output).await).await
        }
        Command::Mode(args) => {
            on_flow(global, async |flow| settings::set_mode(&args, flow, output).await).await
        }
        Command::Set(args) => on_flow(global, async |flow| settings::set(&args, flow, output).await).await,
        Command::Settings => on_flow(global, async |flow| settings::list(flow, output).await).await,
    }
}

async fn on_bugle(
    global: &Global,
    work: impl AsyncFnOnce(&Bugle) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    super::on_place(global, async |place| work(&place.bugle(2).await?).await).await
}

async fn on_flow(
    global: &Global,
    work: impl AsyncFnOnce(&Flow) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    on_bugle(global, async |bugle| work(&bugle.flow()).await).await
}

/// There is no such run, or no longer.
fn missing(id: RunId, bugle: &Bugle) -> Failure {
    Failure::nothing(format!(
        "there is no run {id} in namespace {}; look with `bugle flow ls` (ended runs are kept for some days)",
        bugle.namespace()
    ))
}
