//! `bugle bench succession`: how long work waits when a node goes, in order or not.

use super::check::{Check, Target};
use super::clock::{DatabaseClock, signed_ms};
use super::figure::{self, Figure};
use super::ground::{Ground, on_ground};
use super::pick_up::{pick_ups, starts};
use super::progress;
use super::wire::{Order, Part, Sent, Started, Write};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::place::Place;
use bugle::{Bugle, Options};
use serde::Serialize;
use std::time::Duration;

pub(super) const METHOD: &str = "\
Method: two worker processes of 4 slots sleep on one queue, the first as sentinel (producers ring for it), the second as its reserve. Then
the first is told to stop, or is killed with SIGKILL; when it is gone a third process enqueues one job at once, and its pick-up by the
second is measured, from the answer to the commit to the start of the handler. After a clean stop the bell has been handed over; after a kill
nobody was told, and the reserve learns of it at its next heartbeat (15 s at most). `dead worker's lease`: jobs are claimed for 2 s by
somebody who never comes back; then a worker goes to sleep on their queue. Figure: the start of the handler minus the end of the lease, by
the database's clock. The median over the rounds, with the lowest and highest.
The default run takes about 2 minutes, --quick 30 s. It works in a database of its own, named after the one it was given with
`_bench_succession`, which it drops at the end.";

const QUEUE: &str = "bench";
const SLOTS: u32 = 4;
/// Long enough for a node to connect and sit.
const SETTLE: Duration = Duration::from_millis(1_500);
const LEASE: Duration = Duration::from_secs(2);
const LEASED: i32 = 4;
/// How soon a reserve learns of a sentinel that was killed, at the latest.
const HEARTBEAT_MS: f64 = 15_000.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// One round, to see that it works
    #[arg(long)]
    quick: bool,
}

/// One line of the result, in milliseconds.
#[derive(Serialize)]
pub(super) struct Row {
    side: &'static str,
    late_ms: Option<Figure>,
    #[serde(skip)]
    target: Target,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Clean,
    Killed,
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
    let rounds = if args.quick { 1 } else { args.rounds };
    on_ground(place, "succession", async |ground| measure_on(rounds, ground).await).await
}

/// What must hold.
pub(super) fn checks(rows: &[Row]) -> Vec<Check> {
    let check = |row: &Row| Check::new(format!("{}, ms late", row.side), row.late_ms, row.target);
    rows.iter().map(check).collect()
}

async fn measure_on(rounds: usize, ground: &Ground) -> Result<Vec<Row>, Failure> {
    let bar = progress::bar(rounds * 3);
    let (mut clean, mut killed, mut leases) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        clean.push(successor(ground, End::Clean).await?);
        bar.inc(1);
        killed.push(successor(ground, End::Killed).await?);
        bar.inc(1);
        leases.push(lease_end(ground).await?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let row =
        |side, rounds: &[f64], most| Row { side, late_ms: Figure::of(rounds), target: Target::AtMost(most) };
    Ok(vec![
        row("sentinel stopped", &clean, 50.0),
        row("sentinel killed", &killed, HEARTBEAT_MS),
        row("dead worker's lease", &leases, 100.0),
    ])
}

fn worker() -> Part {
    Part::Worker { queues: vec![QUEUE.to_owned()], slots: SLOTS }
}

/// The pick-up of a job that comes when the sentinel has gone.
async fn successor(ground: &Ground, end: End) -> Result<f64, Failure> {
    ground.make_tables().await?;
    let sentinel = ground.start(worker()).await?;
    tokio::time::sleep(SETTLE).await;
    let mut reserve = [ground.start(worker()).await?];
    let mut producer = ground.start(Part::Producer).await?;
    tokio::time::sleep(SETTLE).await;
    match end {
        End::Clean => sentinel.end().await,
        End::Killed => sentinel.kill().await,
    }
    let one = Order::Pace {
        write: Write::Job,
        queue: QUEUE.to_owned(),
        rate: 100,
        length: Duration::from_millis(10),
    };
    let sent: Vec<Sent> = producer.ask(&one).await?;
    let waited = pick_ups(&mut reserve, &sent).await?;
    producer.end().await;
    for node in reserve {
        node.end().await;
    }
    Ok(waited.into_iter().fold(0.0, f64::max))
}

/// How long after the end of a dead worker's lease its jobs start elsewhere: the worst of some.
async fn lease_end(ground: &Ground) -> Result<f64, Failure> {
    ground.make_tables().await?;
    let bugle = Bugle::new(ground.pool().clone(), Options::default()).await?;
    for _ in 0..LEASED {
        bugle.enqueue_raw(QUEUE, "bench", Box::default()).send().await?;
    }
    let dead = bugle.queue(QUEUE).await?.claim("dead", LEASED.unsigned_abs(), LEASE).await?;
    let until = dead.jobs.iter().map(|job| job.lease_until.timestamp_micros()).max();
    let until = until.ok_or_else(|| Failure::server("nothing was claimed"))?;
    let clock = DatabaseClock::measure(ground.pool()).await?;
    let mut workers = [ground.start(worker()).await?];
    let started = starts(&mut workers, dead.jobs.len()).await?;
    for node in workers {
        node.end().await;
    }
    let late = |start: &Started| signed_ms(clock.at_us(start.at_ns) - until);
    Ok(started.iter().map(late).fold(f64::NEG_INFINITY, f64::max))
}

fn table(rows: &[Row]) -> Table {
    let columns = [("what", Align::Left), ("late ms", Align::Right), ("min to max", Align::Right)];
    let mut table = Table::new(&columns);
    for row in rows {
        let [late, rounds] = Figure::cells(row.late_ms, 2);
        table.row([row.side.to_owned(), late, rounds]);
    }
    table
}
