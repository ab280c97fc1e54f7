//! `bugle job ls`.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use bugle::Bugle;
use bugle::jobs::State;
use bugle::jobs::inspect::Filter;
use bugle::name::{Kind, QueueName};

/// List jobs, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle job ls --queue mail --state dead
  bugle job ls --state dead --output json | jq -r '.[].id' | xargs bugle job retry")]
pub(crate) struct Args {
    /// Only this queue
    #[arg(long, value_parser = QueueName::parse)]
    queue: Option<QueueName>,
    /// Only this state: scheduled, ready, leased, done, dead or cancelled
    #[arg(long)]
    state: Option<State>,
    /// Only this kind
    #[arg(long, value_parser = Kind::parse)]
    kind: Option<Kind>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 20, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

pub(super) async fn run(args: &Args, bugle: &Bugle, output: Output) -> Result<Exit, Failure> {
    let filter = Filter {
        queue: args.queue.as_ref().map(ToString::to_string),
        state: args.state,
        kind: args.kind.as_ref().map(ToString::to_string),
    };
    let jobs = bugle.list_jobs(&filter, args.limit).await?;
    output.rows(&jobs, || {
        let mut table = Table::new(&[
            ("id", Align::Right),
            ("queue", Align::Left),
            ("kind", Align::Left),
            ("state", Align::Left),
            ("attempt", Align::Right),
            ("enqueued", Align::Left),
            ("due", Align::Left),
            ("ended", Align::Left),
            ("key", Align::Left),
        ]);
        for job in &jobs {
            table.row([
                job.id.to_string(),
                job.queue.clone(),
                job.kind.clone(),
                job.state.clone(),
                format!("{}/{}", job.attempt, job.max_attempts),
                output.moment(job.enqueued_at),
                output.moment_or_dash(job.due_at),
                output.moment_or_dash(job.finished_at),
                job.key.clone().unwrap_or_else(|| "-".to_owned()),
            ]);
        }
        table
    })?;
    Ok(Exit::Ok)
}
