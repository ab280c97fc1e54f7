//! `bugle queue`: looking at queues of jobs and of messages, making and emptying the latter, pausing, and how waiters are woken.

mod create;
mod empty;
mod ls;
mod messages;
mod mode;
mod pause;
mod show;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;
use bugle::Bugle;

/// Queues of jobs and of messages.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Create(create::Args),
    /// List the queues, of jobs with how many are in which state, of messages with how many are pending
    #[command(after_help = ls::EXAMPLES)]
    Ls,
    Show(show::Args),
    /// Make everything that is in a queue of messages invisible; shows what, unless --yes
    #[command(after_help = empty::CLEAR)]
    Clear(empty::Args),
    /// Delete a queue of messages; shows what goes with it, unless --yes
    #[command(after_help = empty::RM)]
    Rm(empty::Args),
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
        Command::Create(args) => create::run(args, &bugle, output).await,
        Command::Clear(args) => empty::run(empty::Act::Clear, args, &bugle, output).await,
        Command::Rm(args) => empty::run(empty::Act::Remove, args, &bugle, output).await,
        Command::Ls => ls::run(&bugle, output).await,
        Command::Show(args) => show::run(args, &bugle, output).await,
        Command::Pause(args) => pause::pause(args, &bugle, output).await,
        Command::Resume(args) => pause::resume(args, &bugle, output).await,
        Command::Mode(args) => mode::run(args, &bugle, output).await,
    }
}

/// Refuses a verb of messages on a queue that holds jobs, or is not there.
pub(super) async fn messages(bugle: &Bugle, queue: &str) -> Result<(), Failure> {
    if bugle.broker().has_queue(queue).await? {
        return Ok(());
    }
    if bugle.find_queue(queue).await?.is_none() {
        return Err(missing(queue));
    }
    Err(Failure::user(format!(
        "queue {queue:?} holds jobs: this is for queues of messages; look with `bugle queue show {queue}`"
    )))
}

/// There is no queue of this name.
fn missing(queue: &str) -> Failure {
    Failure::user(format!("queue {queue:?} does not exist; `bugle queue ls` lists them"))
}
