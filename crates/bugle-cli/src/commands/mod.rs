//! One file for each command.

pub(crate) mod ack;
pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod dead;
pub(crate) mod demo;
pub(crate) mod dlq;
pub(crate) mod doctor;
pub(crate) mod durable;
pub(crate) mod enqueue;
pub(crate) mod flow;
pub(crate) mod group;
pub(crate) mod job;
pub(crate) mod key;
pub(crate) mod migrate;
pub(crate) mod namespace;
pub(crate) mod pop;
pub(crate) mod push;
pub(crate) mod queue;
pub(crate) mod serve;
pub(crate) mod tail;
mod until_stopped;
mod wait;
pub(crate) mod wake;
pub(crate) mod work;

use crate::args::{Cli, Command, Global};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::output::Output;
use crate::place::Place;
use bugle::pg::embedded::Stay;

/// Runs what was typed.
pub(crate) async fn run(cli: Cli, output: Output) -> Result<Exit, Failure> {
    let Cli { global, command } = cli;
    match command {
        // No database.
        Command::Completions(args) => completions::run(&args, output),
        Command::Config(config::Command::Show) => config::show(&global, output),
        Command::Migrate(migrate::Command::Sql) => migrate::sql(&global, output),
        // Long ones, which stop in their own way.
        Command::Demo(args) => demo::run(&args, &global, output).await,
        Command::DemoWorker(args) => demo::worker::run(args, &global).await,
        Command::Work(args) => work::run(args, &global).await,
        Command::Serve(args) => serve::run(args, &global, output).await,
        Command::Bench(bench::Command::Part) => bench::part::run().await, // its parent tells it where
        Command::Bench(bench::Command::Scene) => bench::durable::play().await,
        Command::Bench(bench::Command::Contender(args)) => {
            bench::contender::run(&args, global.allow_unsafe_database, output).await
        }
        // Short ones.
        Command::Enqueue(args) => {
            let input = args.input()?; // what is wrong with it needs no database to be told
            if args.waits() {
                return enqueue::run_and_wait(&args, input, &global, output).await;
            }
            on_place(&global, async |place| enqueue::run(&args, input, place, output).await).await
        }
        Command::Push(args) => {
            let input = args.input()?;
            on_place(&global, async |place| push::run(&args, input, place, output).await).await
        }
        Command::Pop(args) => {
            let stay = if args.wait.is_some() { Stay::Long } else { Stay::Brief };
            stay_on_place(&global, stay, async |place| pop::run(&args, place, output).await).await
        }
        Command::Ack(args) => on_place(&global, async |place| ack::run(&args, place, output).await).await,
        Command::Tail(args) => tail::run(&args, &global, output).await,
        Command::Group(command) => {
            on_place(&global, async |place| group::run(&command, place, output).await).await
        }
        Command::Dlq(command) => {
            on_place(&global, async |place| dlq::run(&command, place, output).await).await
        }
        Command::Job(command) => job::run(&command, &global, output).await,
        Command::Namespace(command) => {
            on_place(&global, async |place| namespace::run(&command, place, output).await).await
        }
        Command::Key(command) => {
            on_place(&global, async |place| key::run(&command, place, output).await).await
        }
        Command::Queue(command) => {
            on_place(&global, async |place| queue::run(&command, place, output).await).await
        }
        Command::Dead(command) => {
            on_place(&global, async |place| dead::run(&command, place, output).await).await
        }
        Command::Durable(args) => {
            let payload = match &args.command {
                durable::Command::Raise(args) => Some(durable::read_payload(args)?),
                _ => None,
            };
            on_place(&global, async |place| durable::run(&args, payload, &global, place, output).await).await
        }
        Command::Flow(args) => flow::run(args, &global, output).await,
        Command::Wake(wake::Command::Status) => {
            on_place(&global, async |place| wake::status(&global, place, output).await).await
        }
        Command::Migrate(migrate::Command::Up) => {
            on_place(&global, async |place| migrate::up(&global, place, output).await).await
        }
        Command::Migrate(migrate::Command::Status) => {
            on_place(&global, async |place| migrate::status(&global, place, output).await).await
        }
        Command::Bench(command) => {
            on_place(&global, async |place| bench::run(&command, place, output).await).await
        }
        Command::Doctor(args) => {
            on_place(&global, async |place| doctor::run(&args, &global, place, output).await).await
        }
    }
}

/// Opens the database, does one thing on it, and leaves nothing behind however that ends.
async fn on_place(
    global: &Global,
    work: impl AsyncFnOnce(&Place) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    stay_on_place(global, Stay::Brief, work).await
}

/// The same for what may take longer.
async fn stay_on_place<T>(
    global: &Global,
    stay: Stay,
    work: impl AsyncFnOnce(&Place) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut interrupts = Interrupts::catch().map_err(|e| Failure::system("catch signals", &e))?;
    let place = tokio::select! {
        place = Place::open(global, stay) => place?,
        signal = interrupts.next() => return Err(Failure::interrupted(signal)),
    };
    let result = tokio::select! {
        result = work(&place) => result,
        signal = interrupts.next() => Err(Failure::interrupted(signal)),
    };
    let closed = place.close(true).await;
    let done = result?;
    closed.map(|()| done)
}
