//! `bugle doctor`.
use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;

/// Check the database
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(
    _args: &Args,
    _global: &Global,
    _place: &Place,
    _output: Output,
) -> Result<Exit, Failure> {
    Ok(Exit::Ok)
}
