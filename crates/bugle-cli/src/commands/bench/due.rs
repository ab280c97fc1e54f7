//! `bugle bench due`: how late jobs start that were enqueued for later.

use super::check::{Check, Target};
use super::clock::{DatabaseClock, signed_ms};
use super::figure::{self, Figure, Percentiles, of_rounds};
use super::ground::{Ground, on_ground};
use super::pick_up::starts;
use super::progress;
use super::wire::{Order, Part, Scheduled, Started};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::place::Place;
use serde::Serialize;
use std::time::Duration;

pub(super) const METHOD: &str = "\
Method: a producer process enqueues jobs for later in one transaction; a worker process of 64 slots waits for them. Lateness is the start of
the handler minus the job's due time, by the database's clock: the machine's monotonic clock is compared with clock_timestamp() by 50
round trips before each side, and the fastest is believed; `clock error` is half of its length. `earliest` is the smallest lateness of
all: below minus the clock error a job would have started too early. `spread` are --jobs due at random instants of 5 s; `one second` are
--burst due at random instants of one second, `one instant` as many due at the same instant (then lateness is mostly the time that
running them takes). In each round the sides take turns, with fresh processes and tables. p50 and p99 are those of a round: the median over
the rounds, with the lowest and highest; max is the highest of all.
The default run takes about 2 minutes, --quick 10 s. It works in a database of its own, named after the one it was given with
`_bench_due`, which it drops at the end.";

const QUEUE: &str = "bench";
const SLOTS: u32 = 64;
const AT_ONCE: &str = "one instant";
const SETTLE: Duration = Duration::from_millis(300);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Jobs spread over some seconds
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    jobs: u32,
    /// Jobs in one second, and at one instant
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    burst: u32,
    /// One short round of fewer jobs, to see that it works: its figures mean little
    #[arg(long)]
    quick: bool,
}

/// How jobs become due.
struct Side {
    name: &'static str,
    jobs: u32,
    /// How long before the first is due they are enqueued: longer than writing them takes.
    lead: Duration,
    within: Duration,
}

struct Round {
    lateness: Percentiles,
    clock_error_ms: f64,
}

/// One line of the result, in milliseconds.
#[derive(Serialize)]
pub(super) struct Row {
    side: &'static str,
    /// In each round.
    jobs: u32,
    p50_ms: Option<Figure>,
    p99_ms: Option<Figure>,
    max_ms: f64,
    earliest_ms: f64,
    clock_error_ms: f64,
}

pub(super) async fn run(args: &Args, place: &Place, output: Output) -> Result<Exit, Failure> {
    let rows = measure(args, place).await?;
    figure::print(output, &rows, &[table(&rows)], &[])?;
    Ok(Exit::Ok)
}

pub(super) async fn measure(args: &Args, place: &Place) -> Result<Vec<Row>, Failure> {
    if args.rounds == 0 {
        return Err(Failure::user("rounds must be at least 1; leave it out for the default"));
    }
    let (rounds, sides) = if args.quick {
        (1, sides(args.jobs.min(100), args.burst.min(500), Duration::from_secs(1)))
    } else {
        (args.rounds, sides(args.jobs, args.burst, Duration::from_secs(5)))
    };
    on_ground(place, "due", async |ground| measure_on(rounds, &sides, ground).await).await
}

/// What must hold. Of those due at one instant only that none is early: their lateness is the time that running them takes.
pub(super) fn checks(rows: &[Row]) -> Vec<Check> {
    let mut checks = Vec::new();
    for row in rows {
        if row.side != AT_ONCE {
            let name = format!("scheduled, {}: lateness p99 ms", row.side);
            checks.push(Check::new(name, row.p99_ms, Target::AtMost(10.0)));
        }
        let name = format!("scheduled, {}: earliest + clock error, ms", row.side);
        let earliest = Figure::of(&[row.earliest_ms + row.clock_error_ms]);
        checks.push(Check::new(name, earliest, Target::AtLeast(0.0)));
    }
    checks
}

fn sides(jobs: u32, burst: u32, spread: Duration) -> [Side; 3] {
    // A thousand are written in far less than half a second.
    let lead = |jobs: u32| Duration::from_secs(1) + Duration::from_millis(500) * (jobs / 1_000);
    let second = Duration::from_secs(1);
    [
        Side { name: "spread", jobs, lead: lead(jobs), within: spread },
        Side { name: "one second", jobs: burst, lead: lead(burst), within: second },
        Side { name: AT_ONCE, jobs: burst, lead: lead(burst), within: Duration::ZERO },
    ]
}

async fn measure_on(rounds: usize, sides: &[Side; 3], ground: &Ground) -> Result<Vec<Row>, Failure> {
    let bar = progress::bar(rounds * sides.len());
    let mut measured = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        for (side, measured) in sides.iter().zip(&mut measured) {
            measured.push(round(ground, side).await?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(sides.iter().zip(&measured).map(|(side, rounds)| row(side, rounds)).collect())
}

async fn round(ground: &Ground, side: &Side) -> Result<Round, Failure> {
    ground.make_tables().await?;
    let clock = DatabaseClock::measure(ground.pool()).await?;
    let mut consumers = [ground.start(Part::Worker { queues: vec![QUEUE.to_owned()], slots: SLOTS }).await?];
    let mut producer = ground.start(Part::Producer).await?;
    tokio::time::sleep(SETTLE).await;
    let (jobs, lead, within) = (side.jobs, side.lead, side.within);
    let scheduled: Scheduled =
        producer.ask(&Order::Schedule { queue: QUEUE.to_owned(), jobs, lead, within }).await?;
    if !scheduled.in_time {
        return Err(Failure::server(format!(
            "writing {jobs} jobs took longer than the {lead:?} until the first was due; choose fewer"
        )));
    }
    tokio::time::sleep(lead + within).await; // asking now would disturb those who run them
    let started = starts(&mut consumers, scheduled.jobs).await?;
    producer.end().await;
    for consumer in consumers {
        consumer.end().await;
    }
    let late = |start: &Started| signed_ms(clock.at_us(start.at_ns) - start.due_us);
    let lateness = Percentiles::of(&started.iter().map(late).collect::<Vec<_>>());
    let lateness = lateness.ok_or_else(|| Failure::server("no job was started"))?;
    Ok(Round { lateness, clock_error_ms: clock.error.as_secs_f64() * 1e3 })
}

fn row(side: &Side, rounds: &[Round]) -> Row {
    let all = |of: fn(&Round) -> f64| rounds.iter().map(of);
    Row {
        side: side.name,
        jobs: side.jobs,
        p50_ms: of_rounds(rounds, |round| round.lateness.p50),
        p99_ms: of_rounds(rounds, |round| round.lateness.p99),
        max_ms: all(|round| round.lateness.max).fold(f64::NEG_INFINITY, f64::max),
        earliest_ms: all(|round| round.lateness.min).fold(f64::INFINITY, f64::min),
        clock_error_ms: all(|round| round.clock_error_ms).fold(0.0, f64::max),
    }
}

fn table(rows: &[Row]) -> Table {
    let right = |name| (name, Align::Right);
    let mut table = Table::new(&[
        ("due", Align::Left),
        right("jobs"),
        right("p50 ms"),
        right("min to max"),
        right("p99 ms"),
        right("min to max"),
        right("max ms"),
        right("earliest ms"),
        right("clock error ms"),
    ]);
    for row in rows {
        let ([p50, p50_rounds], [p99, p99_rounds]) =
            (Figure::cells(row.p50_ms, 2), Figure::cells(row.p99_ms, 2));
        table.row([
            row.side.to_owned(),
            row.jobs.to_string(),
            p50,
            p50_rounds,
            p99,
            p99_rounds,
            format!("{:.2}", row.max_ms),
            format!("{:.3}", row.earliest_ms),
            format!("{:.3}", row.clock_error_ms),
        ]);
    }
    table
}
