//! `bugle bench latency`: how long a job waits for its handler, beside a bare LISTEN and beside polling.

use super::check::{Check, Target};
use super::child::Child;
use super::figure::{self, Figure, Percentiles, of_rounds};
use super::ground::{Ground, on_ground};
use super::pick_up::{pick_ups, rate_of};
use super::progress;
use super::wire::{Order, Part, Sent, Write};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::place::Place;
use crate::span;
use bugle::{Bugle, Mode, Options};
use serde::Serialize;
use std::time::Duration;

pub(super) const METHOD: &str = "\
Method: pick-up is the time from the moment at which the enqueue's commit was answered to the producer to the moment at which the handler
starts, both read off the machine's monotonic clock, in two processes; negative differences count as 0. `bugle` is a worker process of 16
slots and a producer process that calls bugle.enqueue() in SQL; `bugle, one process` has both in one process, by the Rust interface.
`bare LISTEN` is a process with one connection that LISTENs and, when notified, deletes row by row with FOR UPDATE SKIP LOCKED until none
is left (each delete is a durable commit, and is over before the row counts as started); its producer INSERTs with a NOTIFY in the same
transaction. `polling` is `bugle` again, its queue in mode polling_only with that poll interval: what Bugle would be without its wake
engine. Sends are at random moments, 10 and 1,000 a second on average. In each round the sides take turns, each with fresh processes and tables and
nobody else at work: --length at 10 a second, half of it at 1,000. p50, p90 and p99 are those of a round: the median over the rounds, with
the lowest and highest for p50; max is the highest of all. The ratio is that of p50 to bare LISTEN's of the same round.
The default run takes about 4 minutes, --quick 20 s. It works in a database of its own, named after the one it was given with
`_bench_latency`, which it drops at the end.";

const QUEUE: &str = "bench";
const SLOTS: u32 = 16;
const SPARSE: u32 = 10;
const BUSY: u32 = 1_000;
/// What part of the rate that was asked for must have been reached.
const KEPT_UP: f64 = 0.9;
/// A consumer that has just started waits for work after this.
const SETTLE: Duration = Duration::from_millis(300);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long each side is measured in each round [default: 6s]
    #[arg(long, value_name = "TIME", value_parser = span::parse)]
    length: Option<Duration>,
    /// One short round, to see that it works: its figures mean little
    #[arg(long)]
    quick: bool,
}

/// Who consumes, woken by what, and who produces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    BareListen,
    Bugle,
    OneProcess,
    Polling(Duration),
}

/// One line of the result, not yet measured.
const CELLS: [(u32, Side); 8] = [
    (SPARSE, Side::BareListen),
    (SPARSE, Side::Bugle),
    (SPARSE, Side::OneProcess),
    (SPARSE, Side::Polling(Duration::from_millis(50))),
    (SPARSE, Side::Polling(Duration::from_secs(1))),
    (BUSY, Side::BareListen),
    (BUSY, Side::Bugle),
    (BUSY, Side::OneProcess),
];

struct Round {
    sent_per_s: f64,
    jobs: usize,
    pick_up: Percentiles,
    /// p50 to that of bare LISTEN.
    ratio: f64,
}

/// One line of the result, in milliseconds.
#[derive(Serialize)]
pub(super) struct Row {
    rate: u32,
    side: String,
    /// Really sent a second.
    sent_per_s: Option<Figure>,
    /// In all rounds.
    jobs: usize,
    p50_ms: Option<Figure>,
    p90_ms: Option<Figure>,
    p99_ms: Option<Figure>,
    max_ms: f64,
    ratio: Option<Figure>,
}

pub(super) async fn run(args: &Args, place: &Place, output: Output) -> Result<Exit, Failure> {
    let rows = measure(args, place).await?;
    figure::print(output, &rows, &[table(&rows)], &notes(&rows))?;
    Ok(Exit::Ok)
}

pub(super) async fn measure(args: &Args, place: &Place) -> Result<Vec<Row>, Failure> {
    let rounds = if args.quick { 1 } else { args.rounds };
    let length = args.length.unwrap_or(Duration::from_secs(if args.quick { 2 } else { 6 }));
    if rounds == 0 || length < Duration::from_millis(500) {
        return Err(Failure::user(
            "rounds must be at least 1 and length at least 500ms; leave them out for the defaults",
        ));
    }
    on_ground(place, "latency", async |ground| measure_on(rounds, length, ground).await).await
}

/// What must hold of a worker and a producer in two processes.
pub(super) fn checks(rows: &[Row]) -> Vec<Check> {
    let mut checks = Vec::new();
    for row in rows.iter().filter(|row| row.side == Side::Bugle.name()) {
        let name = |what| format!("pick-up at {} jobs a second, {what}", row.rate);
        checks.push(Check::new(name("p50 ms"), row.p50_ms, Target::AtMost(2.0)));
        checks.push(Check::new(name("p99 ms"), row.p99_ms, Target::AtMost(10.0)));
        checks.push(Check::new(name("p50 / bare LISTEN"), row.ratio, Target::AtMost(1.5)));
    }
    checks
}

async fn measure_on(rounds: usize, length: Duration, ground: &Ground) -> Result<Vec<Row>, Failure> {
    let bar = progress::bar(rounds * CELLS.len());
    let mut measured = CELLS.map(|_| Vec::new());
    for _ in 0..rounds {
        let mut bare_p50 = f64::NAN;
        for ((rate, side), measured) in CELLS.into_iter().zip(&mut measured) {
            let length = if rate == SPARSE { length } else { length / 2 };
            let mut round = round(ground, side, rate, length).await?;
            if side == Side::BareListen {
                bare_p50 = round.pick_up.p50; // the first of the sides of this rate
            }
            round.ratio = round.pick_up.p50 / bare_p50;
            measured.push(round);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(CELLS.into_iter().zip(&measured).map(|((rate, side), rounds)| row(rate, side, rounds)).collect())
}

impl Side {
    fn name(self) -> String {
        match self {
            Self::BareListen => "bare LISTEN".to_owned(),
            Self::Bugle => "bugle".to_owned(),
            Self::OneProcess => "bugle, one process".to_owned(),
            Self::Polling(every) if every.subsec_millis() > 0 => format!("polling {} ms", every.as_millis()),
            Self::Polling(every) => format!("polling {} s", every.as_secs()),
        }
    }

    fn consumer(self) -> Part {
        match self {
            Self::BareListen => Part::Bare,
            Self::Bugle | Self::OneProcess | Self::Polling(_) => {
                Part::Worker { queues: vec![QUEUE.to_owned()], slots: SLOTS }
            }
        }
    }

    fn write(self) -> Write {
        match self {
            Self::BareListen => Write::BareNotify,
            Self::Bugle | Self::OneProcess | Self::Polling(_) => Write::Job,
        }
    }
}

async fn round(ground: &Ground, side: Side, rate: u32, length: Duration) -> Result<Round, Failure> {
    ground.make_tables().await?;
    if let Side::Polling(every) = side {
        let bugle = Bugle::new(ground.pool().clone(), Options::default()).await?;
        bugle.queue(QUEUE).await?; // there must be one to set the mode of
        bugle.set_mode(QUEUE, Mode::PollingOnly, Some(every)).await?;
    }
    let mut consumers = [ground.start(side.consumer()).await?];
    let mut producer: Option<Child> = match side {
        Side::OneProcess => None,
        _ => Some(ground.start(Part::Producer).await?),
    };
    tokio::time::sleep(SETTLE).await;
    let order = Order::Pace { write: side.write(), queue: QUEUE.to_owned(), rate, length };
    let sent: Vec<Sent> = match &mut producer {
        Some(producer) => producer.ask(&order).await?,
        None => consumers[0].ask(&order).await?,
    };
    let pick_ups = pick_ups(&mut consumers, &sent).await?;
    for child in consumers.into_iter().chain(producer) {
        child.end().await;
    }
    let pick_up = Percentiles::of(&pick_ups).ok_or_else(|| Failure::server("no job was sent"))?;
    Ok(Round { sent_per_s: rate_of(&sent), jobs: sent.len(), pick_up, ratio: f64::NAN })
}

fn row(rate: u32, side: Side, rounds: &[Round]) -> Row {
    Row {
        rate,
        side: side.name(),
        sent_per_s: of_rounds(rounds, |round| round.sent_per_s),
        jobs: rounds.iter().map(|round| round.jobs).sum(),
        p50_ms: of_rounds(rounds, |round| round.pick_up.p50),
        p90_ms: of_rounds(rounds, |round| round.pick_up.p90),
        p99_ms: of_rounds(rounds, |round| round.pick_up.p99),
        max_ms: rounds.iter().map(|round| round.pick_up.max).fold(0.0, f64::max),
        ratio: of_rounds(rounds, |round| round.ratio),
    }
}

/// Where the machine did not keep up, pick-up is the length of a queue.
fn notes(rows: &[Row]) -> Vec<String> {
    let slow = |row: &&Row| row.sent_per_s.is_some_and(|sent| sent.median < KEPT_UP * f64::from(row.rate));
    let note = |row: &Row| {
        let sent = row.sent_per_s.map_or(0.0, |sent| sent.median);
        format!(
            "{} at {} a second: only {sent:.0} could be sent. This is overload, not waking.",
            row.side, row.rate
        )
    };
    rows.iter().filter(slow).map(note).collect()
}

fn table(rows: &[Row]) -> Table {
    let right = |name| (name, Align::Right);
    let mut table = Table::new(&[
        right("asked/s"),
        right("sent/s"),
        ("consumer", Align::Left),
        right("jobs"),
        right("p50 ms"),
        right("min to max"),
        right("p90 ms"),
        right("p99 ms"),
        right("max ms"),
        right("ratio"),
        right("min to max"),
    ]);
    for row in rows {
        let ([p50, p50_rounds], [ratio, ratio_rounds]) =
            (Figure::cells(row.p50_ms, 2), Figure::cells(row.ratio, 2));
        let [[sent, _], [p90, _], [p99, _]] =
            [Figure::cells(row.sent_per_s, 0), Figure::cells(row.p90_ms, 2), Figure::cells(row.p99_ms, 2)];
        table.row([
            row.rate.to_string(),
            sent,
            row.side.clone(),
            row.jobs.to_string(),
            p50,
            p50_rounds,
            p90,
            p99,
            format!("{:.2}", row.max_ms),
            ratio,
            ratio_rounds,
        ]);
    }
    table
}
