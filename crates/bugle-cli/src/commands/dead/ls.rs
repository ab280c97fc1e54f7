//! `bugle dead ls`.

use super::Which;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use bugle::Bugle;

/// List dead jobs with their last error, the last to die first
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle dead ls --queue mail --code exit_65
  bugle dead redrive --queue mail              how many are there with which error? (changes nothing without --yes)
  bugle job show 42                            everything about one of them")]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 20, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

pub(super) async fn run(args: &Args, bugle: &Bugle, output: Output) -> Result<Exit, Failure> {
    let jobs = bugle.list_dead(&args.which.filter(), args.limit).await?;
    output.rows(&jobs, || {
        let mut table = Table::new(&[
            ("id", Align::Right),
            ("queue", Align::Left),
            ("kind", Align::Left),
            ("attempt", Align::Right),
            ("died", Align::Left),
            ("error", Align::Left),
            ("message", Align::Left),
        ]);
        for job in &jobs {
            table.row([
                job.id.to_string(),
                job.queue.clone(),
                job.kind.clone(),
                format!("{}/{}", job.attempt, job.max_attempts),
                output.moment(job.died_at),
                job.code.clone(),
                job.message.clone(),
            ]);
        }
        table
    })?;
    Ok(Exit::Ok)
}
