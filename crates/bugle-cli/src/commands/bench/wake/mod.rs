//! `bugle bench wake`: what being able to wake costs producers, and how often it is done.

mod cost;
mod count;

use super::check::Check;
use super::figure;
use super::ground::{Ground, on_ground};
use super::meter::{Meter, NO_METER, with_meter};
use super::progress;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;
use crate::span;
use serde::Serialize;
use std::time::Duration;

pub(in super::super) const METHOD: &str = "\
Method, cost: one producer process writes one row or job a transaction, as fast as it goes, with --clients sessions, prepared
statements and payloads of about 100 bytes; nobody consumes. In each round the four sides take turns for --length each: `bare INSERT`, a table
with one index; `bare INSERT, NOTIFY`, the same with a statement trigger that notifies; `enqueue, awake`, bugle.enqueue() while nobody
holds the bell; `enqueue, asleep`, the same while a session holds it throughout: the worst case, which ends in life when the sleeper
wakes. One session of another process listens on all channels and counts: notifications per transaction. `2 ms` sets commit_delay = 2000
and commit_siblings = 0 in the producer's sessions, an emulated slow disk or synchronous standby (superusers only). The ratio is to
bare INSERT of the same round. Tables are made anew for each round.
Method, counts: a worker process of 16 slots and a producer process at 10 and at 2,000 jobs a second, until all jobs are started;
notifications are counted by a listening session, looks by pg_stat_statements (top level).
Every figure is the median of the rounds, with the lowest and the highest. The default run takes about 6 minutes, --quick 15 s.
It works in databases of its own, named after the one it was given with `_bench_wake` and `_bench_wake_meter`, which it drops at the end.";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long each side writes in each round [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = span::parse)]
    length: Option<Duration>,
    /// Sessions of the producer
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 8, 32])]
    clients: Vec<usize>,
    /// One short round, to see that it works: its figures mean nothing
    #[arg(long)]
    quick: bool,
}

/// What is measured, and for how long.
#[derive(Clone, Copy)]
struct Plan {
    rounds: usize,
    length: Duration,
}

/// What came of it.
#[derive(Serialize)]
pub(in super::super) struct Answer {
    cost: Vec<cost::Row>,
    counts: Vec<count::Row>,
    notes: Vec<String>,
}

pub(in super::super) async fn run(args: &Args, place: &Place, output: Output) -> Result<Exit, Failure> {
    let answer = measure(args, place).await?;
    let tables = [cost::table(&answer.cost), count::table(&answer.counts)];
    figure::print(output, &answer, &tables, &answer.notes)?;
    Ok(Exit::Ok)
}

pub(in super::super) async fn measure(args: &Args, place: &Place) -> Result<Answer, Failure> {
    let default = if args.quick { Duration::from_millis(150) } else { Duration::from_secs(2) };
    let plan =
        Plan { rounds: if args.quick { 1 } else { args.rounds }, length: args.length.unwrap_or(default) };
    if plan.rounds == 0 || plan.length.is_zero() || args.clients.contains(&0) {
        return Err(Failure::user(
            "rounds, length and clients must be above zero; leave them out for the defaults",
        ));
    }
    with_meter(place, "wake", async |meter| {
        on_ground(place, "wake", async |ground| measure_on(plan, &args.clients, ground, meter).await).await
    })
    .await
}

/// What must hold.
pub(in super::super) fn checks(answer: &Answer) -> Vec<Check> {
    vec![cost::check(&answer.cost)]
}

async fn measure_on(
    plan: Plan,
    clients: &[usize],
    ground: &Ground,
    meter: Option<&Meter>,
) -> Result<Answer, Failure> {
    let may_slow_down = cost::may_slow_down(ground).await?;
    let mut notes = Vec::new();
    if !may_slow_down {
        notes.push("The 2 ms flush is left out: only a superuser may set commit_delay.".to_owned());
    }
    if meter.is_none() {
        notes.push(NO_METER.to_owned());
    }
    let cells = cost::cells(clients, may_slow_down);
    let bar = progress::bar(plan.rounds * (cells.len() + count::RATES.len()));
    let cost = cost::measure(plan, ground, &cells, &bar).await?;
    let counts = count::measure(plan, ground, meter, &bar).await?;
    bar.finish_and_clear();
    Ok(Answer { cost, counts, notes })
}
