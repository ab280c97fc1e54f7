//! `bugle bench`: figures, each with the method that made it.
//!
//! A benchmark works on a `ground` of its own, with `child` processes that do one `part` each and speak as `wire` says; what rounds gave is
//! a `figure`.

mod all;
mod backlog;
mod broker;
mod callers;
mod check;
mod child;
mod clock;
pub(crate) mod contender;
mod crash;
mod drain;
mod due;
pub(crate) mod durable;
mod engine;
mod figure;
mod fill;
mod floor;
pub(crate) mod flow;
mod ground;
mod hold;
mod idle;
mod jobs;
mod latency;
mod meter;
pub(crate) mod part;
mod payload;
mod pick_up;
mod progress;
mod ratio;
mod scene;
mod succession;
mod wake;
mod wire;
mod writer;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;

/// Measuring.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// What enqueueing and running jobs costs, beside the bare SQL of a queue
    #[command(after_help = jobs::METHOD)]
    Jobs(jobs::Args),
    /// The bare SQL of a queue alone: what this machine can do
    #[command(after_help = floor::METHOD)]
    Floor(floor::Args),
    /// Does a queue drain as fast when much waits, is scheduled or is done?
    #[command(after_help = backlog::METHOD)]
    Backlog(backlog::Args),
    /// What a snapshot that somebody holds open does to the flow of jobs
    #[command(after_help = hold::METHOD)]
    Hold(hold::Args),
    /// When the jobs of a worker that was killed run elsewhere
    #[command(after_help = crash::METHOD)]
    Crash(crash::Args),
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
    /// What durable execution costs and how fast it is, beside other providers for duroxide
    #[command(after_help = durable::METHOD)]
    Durable(durable::Args),
    /// Messages over HTTP: rates, waiting pops, memory, beside bare SQL
    #[command(after_help = broker::METHOD)]
    Broker(broker::Args),
    /// How fast workflows go from step to step and what they cost, pushed and polled
    #[command(after_help = flow::METHOD)]
    Flow(flow::Args),
    /// Everything that has a target: the figure, the target, met or short
    #[command(after_help = all::METHOD)]
    All(all::Args),
    /// One line of JSON for a comparison with other libraries, on an empty database
    #[command(after_help = contender::METHOD)]
    Contender(contender::Args),
    /// A process of a benchmark: it is told by its parent what to do.
    #[command(hide = true)]
    Part,
    /// The same for `bench durable`.
    #[command(hide = true)]
    Scene,
}

pub(crate) async fn run(command: &Command, place: &Place, output: Output) -> Result<Exit, Failure> {
    match command {
        Command::Jobs(args) => jobs::run(args, place, output).await,
        Command::Floor(args) => floor::run(args, place, output).await,
        Command::Backlog(args) => backlog::run(args, place, output).await,
        Command::Hold(args) => hold::run(args, place, output).await,
        Command::Crash(args) => crash::run(args, place, output).await,
        Command::Wake(args) => wake::run(args, place, output).await,
        Command::Latency(args) => latency::run(args, place, output).await,
        Command::Due(args) => due::run(args, place, output).await,
        Command::Idle(args) => idle::run(args, place, output).await,
        Command::Succession(args) => succession::run(args, place, output).await,
        Command::Durable(args) => durable::run(args, place, output).await,
        Command::Broker(args) => broker::run(args, place, output).await,
        Command::Flow(args) => flow::run(args, place, output).await,
        Command::All(args) => all::run(args, place, output).await,
        Command::Contender(args) => contender::run(args, false, output).await,
        Command::Part => part::run().await,
        Command::Scene => durable::play().await,
    }
}
