//! `bugle job wait`.

use crate::args::Global;
use crate::commands::wait;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::span;
use bugle::{Bugle, JobId};
use std::time::Duration;

/// Wait until jobs have ended, and tell what came of each
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle job wait 42
  bugle job wait 42 43 --timeout 30s
  bugle job wait 42 --output json | jq .result

One line a job, in the order in which they end. Waiting asks nothing of the database: it is told of each end. A dead job has
ended, although a person may try it again.

Exit codes:
  0 all are done   4 there is no such job   5 one is dead   6 one was cancelled   7 one has not ended in time")]
pub(crate) struct Args {
    /// The jobs' numbers, as enqueue or `bugle job ls` prints them
    #[arg(required = true, value_name = "ID")]
    ids: Vec<JobId>,
    /// No longer than this, such as 30s or 5m
    #[arg(long, value_name = "TIME", value_parser = span::parse, allow_hyphen_values = true)]
    timeout: Option<Duration>,
}

pub(super) async fn run(args: &Args, global: &Global, output: Output) -> Result<Exit, Failure> {
    let all = async |bugle: &Bugle| Ok(args.ids.iter().map(|id| bugle.handle(*id)).collect());
    wait::for_all(global, args.timeout, output, all).await
}
