//! One file for each command.

pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod dead;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod enqueue;
pub(crate) mod job;
pub(crate) mod migrate;
pub(crate) mod namespace;
pub(crate) mod queue;
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
        Command::Bench(bench::Command::Part) => bench::part::run().await, // its parent tells it where
        Command::Bench(bench::Command::Contender(args)) => {
            bench::contender::run(&args, global.allow_unsafe_database, output).await
        }
        // Short ones.
        Command::Enqueue(args) => {
            let input = enqueue::Input::read(&args)?; // what is wrong with it needs no database to be told
            on_place(&global, async |place| enqueue::run(&args, input, place, output).await).await
        }
        Command::Job(command) => {
            on_place(&global, async |place| job::run(&command, place, output).await).await
        }
        Command::Namespace(command) => {
            on_place(&global, async |place| namespace::run(&command, place, output).await).await
        }
        Command::Queue(command) => {
            on_place(&global, async |place| queue::run(&command, place, output).await).await
        }
        Command::Dead(command) => {
            on_place(&global, async |place| dead::run(&command, place, output).await).await
        }
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
    let mut interrupts = Interrupts::catch().map_err(|e| Failure::system("catch signals", &e))?;
    let place = tokio::select! {
        place = Place::open(global, Stay::Brief) => place?,
        signal = interrupts.next() => return Err(Failure::interrupted(signal)),
    };
    let result = tokio::select! {
        result = work(&place) => result,
        signal = interrupts.next() => Err(Failure::interrupted(signal)),
    };
    let closed = place.close(true).await;
    let exit = result?;
    closed.map(|()| exit)
}
