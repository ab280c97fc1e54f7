//! `bugle bench backlog`: does a queue drain as fast when much waits in it, is due later, or has been done before?

use super::check::{Check, Target};
use super::drain::{self, Drained, SLOTS, drain};
use super::figure::{self, Figure, of_rounds, rate};
use super::fill::{BATCH, fill, fill_later};
use super::ground::{Ground, on_ground};
use super::progress;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::place::Place;
use serde::Serialize;
use std::time::Duration;

pub(super) const METHOD: &str = "\
Method: one worker of 1,000 slots in this process runs handlers that do nothing, from its start until nothing of the queue is ready or
leased. In each round, on tables made anew: first a hundredth of --jobs jobs wait, enqueued in bulk just before, and are drained; then --jobs
of them, and the time until the first hundredth had been handled is taken as well (compared with the time to the last handler of the small
backlog: neither has the end in it). Then --jobs more are enqueued for tomorrow, and a hundredth to run now, which are drained beside them and
beside the --jobs that have been done.
The ratio is to the small backlog of the same round. Every figure is the median of the rounds, with the lowest and the highest.
The default run takes about 5 minutes, --quick 5 s. It works in a database of its own, named after the one it was given with
`_bench_backlog`, which it drops at the end.";

const QUEUE: &str = "bench";
const CONNECTIONS: u32 = 8;
/// How many times smaller the small backlog is.
const SMALLER: usize = 100;
const DRAIN_WITHIN: Duration = Duration::from_mins(30);
const AT_LEAST: f64 = 0.8;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Jobs of the large backlog; the small one has a hundredth of them [default: 1000000]
    #[arg(long)]
    jobs: Option<usize>,
    /// One round of a few jobs, to see that it works: its figures mean nothing
    #[arg(long)]
    quick: bool,
}

/// Jobs a second.
struct Round {
    small: f64,
    large: f64,
    /// To the small backlog, until the last handler.
    first_ratio: f64,
    first: f64,
    beside: f64,
}

/// One line of the result.
#[derive(Serialize)]
pub(super) struct Row {
    backlog: String,
    jobs_per_s: Option<Figure>,
    /// To the small backlog of the same round.
    ratio: Option<Figure>,
}

pub(super) async fn run(args: &Args, place: &Place, output: Output) -> Result<Exit, Failure> {
    let rows = measure(args, place).await?;
    figure::print(output, &rows, &[table(&rows)], &[])?;
    Ok(Exit::Ok)
}

pub(super) async fn measure(args: &Args, place: &Place) -> Result<Vec<Row>, Failure> {
    let (rounds, jobs) = if args.quick { (1, 10_000) } else { (args.rounds, 1_000_000) };
    let jobs = args.jobs.unwrap_or(jobs);
    if rounds == 0 || jobs < SMALLER {
        return Err(Failure::user(
            "rounds must be at least 1 and jobs at least 100; leave them out for the defaults",
        ));
    }
    on_ground(place, "backlog", async |ground| measure_on(rounds, jobs, ground).await).await
}

/// What must hold of them.
pub(super) fn checks(rows: &[Row]) -> Vec<Check> {
    let check = |row: &Row| {
        Check::new(
            format!("drain, {} / the small backlog", row.backlog),
            row.ratio,
            Target::AtLeast(AT_LEAST),
        )
    };
    rows.iter().skip(1).map(check).collect()
}

async fn measure_on(rounds: usize, jobs: usize, ground: &Ground) -> Result<Vec<Row>, Failure> {
    let bar = progress::bar(rounds);
    let mut measured = Vec::new();
    for _ in 0..rounds {
        measured.push(round(jobs, ground).await?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let small = jobs / SMALLER;
    let row = |backlog, per_s: fn(&Round) -> f64, ratio: fn(&Round) -> f64| Row {
        backlog,
        jobs_per_s: of_rounds(&measured, |round| per_s(round).round()),
        ratio: of_rounds(&measured, ratio),
    };
    Ok(vec![
        row(format!("{small} waiting"), |round| round.small, |_| 1.0),
        row(format!("{jobs} waiting"), |round| round.large, |round| round.large / round.small),
        row(format!("the first {small} of {jobs}"), |round| round.first, |round| round.first_ratio),
        row(
            format!("{small} beside {jobs} scheduled, {jobs} done"),
            |round| round.beside,
            |round| round.beside / round.small,
        ),
    ])
}

async fn round(jobs: usize, ground: &Ground) -> Result<Round, Failure> {
    let few = jobs / SMALLER;
    ground.make_tables().await?;
    let small = fill_and_drain(ground, few, 0).await?;
    let large = fill_and_drain(ground, jobs, few).await?;
    let bugle = ground.bugle(1).await?;
    fill_later(&bugle, QUEUE, jobs).await?;
    bugle.close().await;
    let beside = fill_and_drain(ground, few, 0).await?;
    let first = rate(few, large.early);
    Ok(Round {
        small: small.per_s(),
        large: large.per_s(),
        first,
        first_ratio: first / rate(few, small.handlers_done),
        beside: beside.per_s(),
    })
}

async fn fill_and_drain(ground: &Ground, jobs: usize, early: usize) -> Result<Drained, Failure> {
    let bugle = ground.bugle(CONNECTIONS).await?;
    fill(&bugle, QUEUE, jobs, BATCH).await?;
    ground.checkpoint().await?;
    let plan = drain::Plan { queue: QUEUE, jobs, slots: SLOTS, early, most: DRAIN_WITHIN };
    let drained = drain(&bugle, plan).await;
    bugle.close().await;
    drained?.in_full()
}

fn table(rows: &[Row]) -> Table {
    let right = |name| (name, Align::Right);
    let columns =
        [("backlog", Align::Left), right("jobs/s"), right("min to max"), right("ratio"), right("min to max")];
    let mut table = Table::new(&columns).uncut();
    for row in rows {
        let ([per_s, rates], [ratio, ratios]) =
            (Figure::cells(row.jobs_per_s, 0), Figure::cells(row.ratio, 2));
        table.row([row.backlog.clone(), per_s, rates, ratio, ratios]);
    }
    table
}
