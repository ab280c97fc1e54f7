//! `bugle bench idle`: what a fleet that has nothing to do asks of the database, and how fast it gets up after a long silence.

use super::check::{Check, Target};
use super::child::Child;
use super::figure::{self, Figure, Percentiles, of_rounds, rate};
use super::ground::Ground;
use super::meter::{Meter, NO_METER, with_meter};
use super::pick_up::pick_ups;
use super::progress;
use super::wire::{Order, Part, Report, Sent, Write};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::place::Place;
use serde::Serialize;
use std::time::{Duration, Instant};

pub(super) const METHOD: &str = "\
Method: three fleets are idle side by side, each in a database of its own: one worker process with 4 slots on one queue; one process with a
worker of one slot on each of 100 queues; two processes with 4 slots each on one queue. Each round is --settle seconds to come to rest, then
--silence seconds in which the statements of each database are counted (pg_stat_statements: top level, all sessions of the fleet, the
meter's own not among them, because it works in a fourth database), then one job for each fleet in turn, enqueued by a process that
connects for it; its pick-up is measured as in `bench latency`. A look is a worker's claim statement. Statements and looks a second are the
median of the rounds, with the lowest and the highest; p50, p99 and max are those of the pick-ups of all rounds. `fallback hits` are
the jobs that a periodic look found and no wake had announced: there must be none.
The default is ten rounds of 10 s + 60 s: the run takes about 12 minutes (--silence 10: 3.5 minutes, --quick: 10 s). The databases
are named after the one it was given with `_bench_idle_...`; it drops them at the end.";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds, each of which ends with one job
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// Seconds without work in which statements are counted [default: 60]
    #[arg(long, value_name = "SECONDS")]
    silence: Option<u64>,
    /// Seconds to come to rest before that [default: 10]
    #[arg(long, value_name = "SECONDS")]
    settle: Option<u64>,
    /// Two short rounds, to see that it works: their figures mean little
    #[arg(long)]
    quick: bool,
}

/// One of the fleets, not yet started.
struct Kind {
    name: &'static str,
    database: &'static str,
    processes: usize,
    queues: usize,
    slots: u32,
}

const KINDS: [Kind; 3] = [
    Kind { name: "1 process, 1 queue, 4 slots", database: "idle_a", processes: 1, queues: 1, slots: 4 },
    Kind {
        name: "1 process, 100 queues, 100 slots",
        database: "idle_b",
        processes: 1,
        queues: 100,
        slots: 1,
    },
    Kind { name: "2 processes, 1 queue, 8 slots", database: "idle_c", processes: 2, queues: 1, slots: 4 },
];

/// A fleet at rest.
struct Fleet {
    kind: &'static Kind,
    ground: Ground,
    workers: Vec<Child>,
    rounds: Vec<Round>,
    pick_ups: Vec<f64>,
    fallback_hits: Option<u64>,
}

struct Round {
    statements_per_s: f64,
    looks_per_s: f64,
}

/// One line of the result.
#[derive(Serialize)]
struct Row {
    fleet: &'static str,
    processes: usize,
    /// None where statements cannot be counted.
    statements_per_s: Option<Figure>,
    looks_per_s: Option<Figure>,
    jobs: usize,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    /// None where nobody counts them.
    fallback_hits: Option<u64>,
}

#[derive(Serialize)]
pub(super) struct Answer {
    fleets: Vec<Row>,
    notes: Vec<String>,
}

/// How long the parts of a round are.
#[derive(Clone, Copy)]
struct Plan {
    rounds: usize,
    settle: Duration,
    silence: Duration,
}

pub(super) async fn run(args: &Args, place: &Place, output: Output) -> Result<Exit, Failure> {
    let answer = measure(args, place).await?;
    figure::print(output, &answer, &[table(&answer.fleets)], &answer.notes)?;
    Ok(Exit::Ok)
}

pub(super) async fn measure(args: &Args, place: &Place) -> Result<Answer, Failure> {
    let (rounds, silence, settle) = if args.quick { (2, 2, 1) } else { (args.rounds, 60, 10) };
    let plan = Plan {
        rounds,
        silence: Duration::from_secs(args.silence.unwrap_or(silence)),
        settle: Duration::from_secs(args.settle.unwrap_or(settle)),
    };
    if rounds == 0 || plan.silence.is_zero() {
        return Err(Failure::user("rounds and silence must be above zero; leave them out for the defaults"));
    }
    with_meter(place, "idle", async |meter| {
        let mut fleets = Vec::new();
        let measured = measure_fleets(plan, place, meter, &mut fleets).await;
        let rows = fleets.iter().filter_map(row).collect();
        let mut dropped = Ok(());
        for fleet in fleets {
            dropped = dropped.and(fleet.end().await);
        }
        measured?;
        dropped?;
        let notes = if meter.is_some() { Vec::new() } else { vec![NO_METER.to_owned()] };
        Ok(Answer { fleets: rows, notes })
    })
    .await
}

/// What must hold.
pub(super) fn checks(answer: &Answer) -> Vec<Check> {
    let mut checks = Vec::new();
    for row in &answer.fleets {
        let name = |what| format!("idle, {}: {what}", row.fleet);
        let each = row.statements_per_s.map(|figure| figure.shared_by(row.processes));
        checks.push(Check::new(name("statements/s of a node"), each, Target::AtMost(0.25)));
        let p99 = Figure::of(&[row.p99_ms]);
        checks.push(Check::new(name("pick-up after it, p99 ms"), p99, Target::AtMost(10.0)));
        let hits = row.fallback_hits.and_then(|hits| Figure::of(&[f64::from(u32::try_from(hits).ok()?)]));
        checks.push(Check::new(name("fallback hits"), hits, Target::AtMost(0.0)));
    }
    checks
}

async fn measure_fleets(
    plan: Plan,
    place: &Place,
    meter: Option<&Meter>,
    fleets: &mut Vec<Fleet>,
) -> Result<(), Failure> {
    for kind in &KINDS {
        fleets.push(Fleet::make(place, kind).await?);
    }
    for fleet in &mut *fleets {
        fleet.start().await?;
    }
    let bar = progress::bar(plan.rounds);
    for _ in 0..plan.rounds {
        tokio::time::sleep(plan.settle).await;
        be_silent(plan, meter, fleets).await?;
        for fleet in &mut *fleets {
            fleet.pick_up_one().await?;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Counts what the fleets ask of the database while nothing happens.
async fn be_silent(plan: Plan, meter: Option<&Meter>, fleets: &mut [Fleet]) -> Result<(), Failure> {
    let Some(meter) = meter else {
        tokio::time::sleep(plan.silence).await;
        return Ok(());
    };
    let mut before = Vec::new();
    for fleet in &*fleets {
        before.push((fleet.read(meter).await?, Instant::now()));
    }
    tokio::time::sleep(plan.silence).await;
    for (fleet, (before, begun)) in fleets.iter_mut().zip(before) {
        let (statements, looks) = fleet.read(meter).await?.since(before);
        let length = begun.elapsed();
        fleet
            .rounds
            .push(Round { statements_per_s: rate(statements, length), looks_per_s: rate(looks, length) });
    }
    Ok(())
}

impl Fleet {
    async fn make(place: &Place, kind: &'static Kind) -> Result<Self, Failure> {
        let ground = Ground::with_tables(place, kind.database).await?;
        let (workers, rounds, pick_ups) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { kind, ground, workers, rounds, pick_ups, fallback_hits: None })
    }

    async fn start(&mut self) -> Result<(), Failure> {
        let queues: Vec<String> = (0..self.kind.queues).map(queue).collect();
        for _ in 0..self.kind.processes {
            let part = Part::Worker { queues: queues.clone(), slots: self.kind.slots };
            self.workers.push(self.ground.start(part).await?);
        }
        // The parent's own sessions would be counted with the fleet's.
        self.ground.pool().close().await;
        Ok(())
    }

    async fn read(&self, meter: &Meter) -> Result<super::meter::Reading, Failure> {
        meter.read(self.ground.database()).await
    }

    /// One job from another process, for a fleet that had nothing to do.
    async fn pick_up_one(&mut self) -> Result<(), Failure> {
        let mut producer = self.ground.start(Part::Producer).await?;
        let queue = queue(rand::random_range(0..self.kind.queues));
        // One turn and no more: one job.
        let order = Order::Pace { write: Write::Job, queue, rate: 100, length: Duration::from_millis(1) };
        let sent: Vec<Sent> = producer.ask(&order).await?;
        self.pick_ups.extend(pick_ups(&mut self.workers, &sent).await?);
        producer.end().await;
        let mut hits = None;
        for worker in &mut self.workers {
            let report: Report = worker.ask(&Order::Report).await?;
            hits = report.fallback_hits.map(|more| hits.unwrap_or(0) + more).or(hits);
        }
        self.fallback_hits = hits;
        Ok(())
    }

    async fn end(self) -> Result<(), Failure> {
        for worker in self.workers {
            worker.end().await;
        }
        self.ground.drop().await
    }
}

fn queue(number: usize) -> String {
    format!("bench-{number}")
}

fn row(fleet: &Fleet) -> Option<Row> {
    let pick_up = Percentiles::of(&fleet.pick_ups)?;
    Some(Row {
        fleet: fleet.kind.name,
        processes: fleet.kind.processes,
        statements_per_s: of_rounds(&fleet.rounds, |round| round.statements_per_s),
        looks_per_s: of_rounds(&fleet.rounds, |round| round.looks_per_s),
        jobs: fleet.pick_ups.len(),
        p50_ms: pick_up.p50,
        p99_ms: pick_up.p99,
        max_ms: pick_up.max,
        fallback_hits: fleet.fallback_hits,
    })
}

fn table(rows: &[Row]) -> Table {
    let right = |name| (name, Align::Right);
    let mut table = Table::new(&[
        ("fleet", Align::Left),
        right("statements/s"),
        right("min to max"),
        right("looks/s"),
        right("min to max"),
        right("jobs"),
        right("p50 ms"),
        right("p99 ms"),
        right("max ms"),
        right("fallback hits"),
    ]);
    for row in rows {
        let ([statements, statement_rounds], [looks, look_rounds]) =
            (Figure::cells(row.statements_per_s, 2), Figure::cells(row.looks_per_s, 2));
        let hits = row.fallback_hits.map_or_else(|| "n/a".to_owned(), |hits| hits.to_string());
        let [p50, p99, max] = [row.p50_ms, row.p99_ms, row.max_ms].map(|ms| format!("{ms:.2}"));
        table.row([
            row.fleet.to_owned(),
            statements,
            statement_rounds,
            looks,
            look_rounds,
            row.jobs.to_string(),
            p50,
            p99,
            max,
            hits,
        ]);
    }
    table
}
