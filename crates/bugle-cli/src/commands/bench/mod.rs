//! `bugle bench`: figures, each with the method that made it.

mod storage;

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
}

pub(crate) async fn run(place: &Place, command: Command, output: Output) -> Result<Exit, Failure> {
    match command {
        Command::Storage(args) => storage::run(place, &args, output).await,
    }
}
