//! `bugle durable ls`.

use super::row::{self, Row, Status};
use super::{Desk, not_read};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use bugle_duroxide::Which;

/// List instances of orchestrations, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle durable ls --status failed
  bugle durable ls --name Order --durable-schema shop --json | jq -r '.[].id'

SAYS is the custom status that an orchestration has set.")]
pub(crate) struct Args {
    /// Only this status
    #[arg(long, value_enum, ignore_case = true)]
    status: Option<Status>,
    /// Only this orchestration
    #[arg(long, value_name = "ORCHESTRATION")]
    name: Option<String>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 20, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

pub(super) async fn run(args: &Args, desk: &Desk, output: Output) -> Result<Exit, Failure> {
    let which = Which {
        status: args.status.map(|status| status.name().to_owned()),
        orchestration: args.name.clone(),
        ..Which::default()
    };
    let found = desk.provider.find_instances(&which, args.limit).await.map_err(not_read)?;
    let rows: Vec<Row> = found.into_iter().map(Row::from).collect();
    output.rows(&rows, || row::table(&rows, output))?;
    Ok(Exit::Ok)
}
