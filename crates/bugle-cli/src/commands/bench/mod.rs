//! `bugle bench`: figures, each with the method that made it.
//!
//! A benchmark works on a `ground` of its own, with `child` processes that do one `part` each and speak as `wire` says; what rounds gave is
//! a `figure`.

mod child;
mod clock;
mod due;
mod engine;
mod figure;
mod ground;
mod idle;
mod latency;
mod meter;
pub(crate) mod part;
mod pick_up;
mod progress;
mod storage;
mod succession;
mod wake;
mod wire;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;

/// Measuring.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Compare enqueue, claim and ack with the bare SQL of a queue, in one run
    #[command(after_help = storage::METHOD)]
    Storage(storage::Args),
    /// What being able to wake costs producers, and how often it is done
    #[command(after_help = wake::METHOD)]
    Wake(wake::Args),
    /// How long a job waits for its handler, beside a bare LISTEN and polling
    #[command(after_help = latency::METHOD)]
    Latency(latency::Args),
    /// How late jobs start that were enqueued for later
    #[command(after_help = due::METHOD)]
    Due(due::Args),
    /// What idle workers ask of the database, and how fast they get up after a silence
    #[command(after_help = idle::METHOD)]
    Idle(idle::Args),
    /// How long work waits when a node goes, in order or not
    #[command(after_help = succession::METHOD)]
    Succession(succession::Args),
    /// A process of a benchmark: it is told by its parent what to do.
    #[command(hide = true)]
    Part,
}

pub(crate) async fn run(command: &Command, place: &Place, output: Output) -> Result<Exit, Failure> {
    match command {
        Command::Storage(args) => storage::run(args, place, output).await,
        Command::Wake(args) => wake::run(args, place, output).await,
        Command::Latency(args) => latency::run(args, place, output).await,
        Command::Due(args) => due::run(args, place, output).await,
        Command::Idle(args) => idle::run(args, place, output).await,
        Command::Succession(args) => succession::run(args, place, output).await,
        Command::Part => part::run().await,
    }
}
