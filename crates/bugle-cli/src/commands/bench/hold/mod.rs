//! `bugle bench hold`: what an old snapshot, held open by somebody else, does to the flow of jobs.

mod flow;

use super::check::{self, Check, Target};
use super::figure::{self, of_rounds};
use super::ground::{Ground, on_ground};
use super::progress;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::place::Place;
use crate::span;
pub(super) use flow::Flow;
use flow::Run;
use serde::Serialize;
use std::time::Duration;

pub(in super::super) const METHOD: &str = "\
Method: for --length a producer in a process of its own enqueues jobs in bulk, 500 a call, whenever fewer than 5,000 are open, and a worker of
1,000 slots runs handlers that do nothing. `held`: another session has begun a REPEATABLE READ transaction,
has read the table of jobs, and holds its snapshot until the end, so that no dead row can be removed. `free`: the same without it. In each
round the two take turns, the other one first in every second round, on tables made anew. Jobs handled a second are counted in windows of
--window; dead rows are those of pg_stat_user_tables for all tables of Bugle when the flow has stopped and the snapshot is still held.
Figures: the last window of the held run to the best of its first three; and to the whole of the free run of the same round. The median of
the rounds, with the lowest and the highest.
The default run takes about 11 minutes (--rounds 1 --length 10m: 20 minutes), --quick 5 s. It works in a database of its own, named after
the one it was given with `_bench_hold`, which it drops at the end.";

/// How many windows are the first ones.
const FIRST: usize = 3;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long jobs flow on each side of each round [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = span::parse)]
    length: Option<Duration>,
    /// Jobs are counted in windows of this length [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = span::parse)]
    window: Option<Duration>,
    /// One short round, to see that it works: its figures mean nothing
    #[arg(long)]
    quick: bool,
}

/// The two sides of a round.
#[derive(Serialize)]
struct Round {
    held: Run,
    free: Run,
}

#[derive(Serialize)]
pub(in super::super) struct Answer {
    window_s: f64,
    rounds: Vec<Round>,
    checks: Vec<Check>,
}

pub(in super::super) async fn run(args: &Args, place: &Place, output: Output) -> Result<Exit, Failure> {
    let answer = measure(args, place).await?;
    figure::print(output, &answer, &[table(&answer.rounds), check::table(&answer.checks)], &[])?;
    Ok(Exit::Ok)
}

pub(in super::super) async fn measure(args: &Args, place: &Place) -> Result<Answer, Failure> {
    let (rounds, length, window) = if args.quick {
        (1, Duration::from_millis(800), Duration::from_millis(200))
    } else {
        (args.rounds, Duration::from_mins(1), Duration::from_secs(10))
    };
    let (length, window) = (args.length.unwrap_or(length), args.window.unwrap_or(window));
    let windows = length.as_micros().checked_div(window.as_micros()).unwrap_or(0);
    let windows = u32::try_from(windows).unwrap_or(u32::MAX);
    if rounds == 0 || windows < 2 {
        return Err(Failure::user(
            "rounds must be at least 1 and length at least two windows; leave them out for the defaults",
        ));
    }
    let flow = Flow { window, windows };
    let rounds = on_ground(place, "hold", async |ground| measure_on(rounds, flow, ground).await).await?;
    Ok(Answer { window_s: window.as_secs_f64(), checks: checks(&rounds), rounds })
}

impl Answer {
    /// What must hold.
    pub(in super::super) fn into_checks(self) -> Vec<Check> {
        self.checks
    }
}

async fn measure_on(rounds: usize, flow: Flow, ground: &Ground) -> Result<Vec<Round>, Failure> {
    let bar = progress::bar(rounds * 2);
    let mut measured = Vec::new();
    for number in 0..rounds {
        // Who comes second may profit from warm caches, or pay for what the first has left to write: each in its turn.
        let held_first = number % 2 == 0;
        let first = flow.run(ground, held_first).await?;
        bar.inc(1);
        let second = flow.run(ground, !held_first).await?;
        bar.inc(1);
        let (held, free) = if held_first { (first, second) } else { (second, first) };
        measured.push(Round { held, free });
    }
    bar.finish_and_clear();
    Ok(measured)
}

fn checks(rounds: &[Round]) -> Vec<Check> {
    let last = |run: &Run| run.windows_per_s.last().copied().unwrap_or(f64::NAN);
    let best = |run: &Run| run.windows_per_s.iter().take(FIRST).copied().fold(f64::NAN, f64::max);
    vec![
        Check::new(
            "held snapshot: last window / best of the first three",
            of_rounds(rounds, |round| last(&round.held) / best(&round.held)),
            Target::AtLeast(0.85),
        ),
        Check::new(
            "held snapshot: last window / the run without it",
            of_rounds(rounds, |round| last(&round.held) / round.free.jobs_per_s),
            Target::AtLeast(0.75),
        ),
    ]
}

fn table(rounds: &[Round]) -> Table {
    let right = |name| (name, Align::Right);
    let columns = [
        right("round"),
        ("snapshot", Align::Left),
        right("jobs/s"),
        right("dead rows"),
        ("jobs/s of each window", Align::Left),
    ];
    let mut table = Table::new(&columns).uncut();
    for (number, round) in rounds.iter().enumerate() {
        for (name, run) in [("held", &round.held), ("free", &round.free)] {
            let windows: Vec<String> = run.windows_per_s.iter().map(|rate| format!("{rate:.0}")).collect();
            table.row([
                (number + 1).to_string(),
                name.to_owned(),
                format!("{:.0}", run.jobs_per_s),
                run.dead_rows.values().sum::<i64>().to_string(),
                windows.join(" "),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_window_is_compared_with_the_best_of_the_first_three_and_with_the_free_run() {
        let run = |windows: &[f64], jobs_per_s| Run {
            windows_per_s: windows.to_vec(),
            jobs_per_s,
            dead_rows: std::collections::BTreeMap::new(),
        };
        let held = run(&[80.0, 100.0, 90.0, 120.0, 60.0], 90.0);
        let round = Round { held, free: run(&[50.0; 5], 50.0) };
        let shown: Vec<_> =
            checks(&[round]).iter().map(|check| serde_json::to_value(check).unwrap()).collect();
        assert_eq!(shown[0]["value"]["median"], 0.6);
        assert_eq!(shown[1]["value"]["median"], 1.2);
    }
}
