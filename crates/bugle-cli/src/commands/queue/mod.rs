//! `bugle queue`: looking at queues, pausing them, and how their waiters are woken.

mod ls;
mod mode;
mod pause;
mod show;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;

/// Looking at queues, pausing them, and how their waiters are woken.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the queues with how many jobs are in which state
    #[command(after_help = ls::EXAMPLES)]
    Ls,
    Show(show::Args),
    /// Hand out nothing of a queue until it is resumed; what workers hold goes on
    #[command(after_help = pause::PAUSE)]
    Pause(pause::Args),
    /// Hand out jobs of a paused queue again
    #[command(after_help = pause::RESUME)]
    Resume(pause::Args),
    /// Set how the waiters of a queue are woken, on every node within a second
    #[command(after_help = mode::MODES)]
    Mode(mode::Args),
}

pub(crate) async fn run(command: &Command, place: &Place, output: Output) -> Result<Exit, Failure> {
    let bugle = place.bugle(2).await?;
    match command {
        Command::Ls => ls::run(&bugle, output).await,
        Command::Show(args) => show::run(args, &bugle, output).await,
        Command::Pause(args) => pause::pause(args, &bugle, output).await,
        Command::Resume(args) => pause::resume(args, &bugle, output).await,
        Command::Mode(args) => mode::run(args, &bugle, output).await,
    }
}

/// There is no queue of this name.
fn missing(queue: &str) -> Failure {
    Failure::user(format!("queue {queue:?} does not exist; `bugle queue ls` lists them"))
}
