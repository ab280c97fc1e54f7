//! `bugle flow ls`.

use super::defs::counted;
use super::moment;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use bugle::flow::inspect::{Mark, RunFilter, RunRow};
use bugle::flow::{Flow, RunState};
use chrono::{DateTime, Utc};
use serde::Serialize;

/// List runs, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle flow ls --state failed --since 2h
  bugle flow ls --definition order --limit 100
  bugle flow ls --count                               how many are in which state
  bugle flow ls --output json | jq -r '.[-1].mark'    what --after wants for the next page")]
pub(super) struct Args {
    /// Only of this definition
    #[arg(long, value_name = "NAME")]
    definition: Option<String>,
    /// Only in this state: queued, running, succeeded, failed or cancelled
    #[arg(long)]
    state: Option<RunState>,
    /// Only those started since then: a moment such as 2030-01-31T09:00:00Z, or how long ago, such as 2h
    #[arg(long, value_name = "MOMENT", value_parser = moment::parse, allow_hyphen_values = true)]
    since: Option<DateTime<Utc>>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 20, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Go on behind this place, the mark of the last one of the page before
    #[arg(long, value_name = "MARK")]
    after: Option<Mark>,
    /// Only how many there are in each state
    #[arg(long, conflicts_with_all = ["state", "since", "after"])]
    count: bool,
}

#[derive(Debug, Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    run: &'a RunRow,
    mark: String,
}

pub(super) async fn run(args: &Args, flow: &Flow, output: Output) -> Result<Exit, Failure> {
    if args.count {
        return count(args, flow, output).await;
    }
    let filter = RunFilter {
        definition: args.definition.clone(),
        state: args.state,
        started_after: args.since,
        after: args.after,
    };
    let runs = flow.list_runs(&filter, args.limit).await?;
    let rows: Vec<Row<'_>> = runs.iter().map(|run| Row { run, mark: run.mark().to_string() }).collect();
    output.rows(&rows, || table(&runs, output))?;
    let is_full = usize::try_from(args.limit).is_ok_and(|limit| runs.len() >= limit);
    if let Some(last) = rows.last().filter(|_| is_full && !output.is_json()) {
        output.line(&format!("\nmore behind these: add --after {}", last.mark))?;
    }
    Ok(Exit::Ok)
}

async fn count(args: &Args, flow: &Flow, output: Output) -> Result<Exit, Failure> {
    let counts = flow.count_runs(args.definition.as_deref()).await?;
    output.rows(&counts, || {
        let mut table = Table::new(&[("state", Align::Left), ("runs", Align::Right)]);
        for count in &counts {
            table.row([count.state.as_str().to_owned(), counted(count.runs)]);
        }
        table
    })?;
    Ok(Exit::Ok)
}

fn table(runs: &[RunRow], output: Output) -> Table {
    let mut table = Table::new(&[
        ("run", Align::Right),
        ("definition", Align::Left),
        ("version", Align::Right),
        ("state", Align::Left),
        ("steps", Align::Right),
        ("started", Align::Left),
        ("ended", Align::Left),
        ("key", Align::Left),
    ]);
    for run in runs {
        let paused = if run.paused && !run.state.has_ended() { ", paused" } else { "" };
        table.row([
            run.id.to_string(),
            run.definition.clone(),
            run.version.to_string(),
            format!("{}{paused}", run.state.as_str()),
            format!("{}/{}", run.steps - run.steps_left, run.steps),
            output.moment(run.created_at),
            output.moment_or_dash(run.ended_at),
            run.key.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table
}
