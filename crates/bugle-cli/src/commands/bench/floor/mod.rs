//! `bugle bench floor`: what this machine's PostgreSQL does for the bare SQL of a queue. The other benchmarks measure it again in their
//! own rounds: two figures of different runs are not compared.

mod bare;

pub(super) use bare::{CALLERS, CLAIMERS, Floor};

use super::figure::{self, Figure, rounded};
use super::ground::{Ground, on_ground};
use super::progress;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::place::Place;
use crate::span;
use serde::Serialize;
use std::time::Duration;

pub(in super::super) const METHOD: &str = "\
Method: a table with a number, a mark and a payload of about 100 bytes, emptied and the server checkpointed before each side; prepared
statements, sessions of their own, all in this process. `claim n + delete`: 4 sessions, each marks n rows by UPDATE ... FOR UPDATE SKIP
LOCKED, reads them and deletes them, two durable commits, until none is left (--jobs rows; a tenth of them for n = 1). `INSERT of 500`: one
session, --jobs rows. `COPY`: one session, --jobs rows in one statement. `single INSERT`: 8 sessions, one row a transaction, for --length,
into a table without the mark.
Rows a second: the median of the rounds, in each of which the sides take turns, with the lowest and the highest.
The default run takes about 1 minute, --quick 2 s. It works in a database of its own, named after the one it was given with `_bench_floor`,
which it drops at the end.";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Rows that are written, claimed and deleted in each round [default: 100000]
    #[arg(long)]
    jobs: Option<usize>,
    /// How long single rows are inserted in each round [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = span::parse)]
    length: Option<Duration>,
    /// One short round, to see that it works: its figures mean nothing
    #[arg(long)]
    quick: bool,
}

/// One line of the result.
#[derive(Serialize)]
struct Row {
    statement: &'static str,
    sessions: usize,
    rows_per_s: Option<Figure>,
}

/// What is measured, with how many sessions.
const SIDES: [(&str, usize); 5] = [
    ("claim 1 + delete", CLAIMERS),
    ("claim 100 + delete", CLAIMERS),
    ("INSERT of 500", 1),
    ("COPY", 1),
    ("single INSERT", CALLERS),
];

pub(in super::super) async fn run(args: &Args, place: &Place, output: Output) -> Result<Exit, Failure> {
    let (rounds, jobs, length) = if args.quick {
        (1, 2_000, Duration::from_millis(100))
    } else {
        (args.rounds, 100_000, Duration::from_secs(2))
    };
    let (jobs, length) = (args.jobs.unwrap_or(jobs), args.length.unwrap_or(length));
    if rounds == 0 || jobs == 0 || length.is_zero() {
        return Err(Failure::user(
            "rounds, jobs and length must be above zero; leave them out for the defaults",
        ));
    }
    let rows = on_ground(place, "floor", async |ground| measure(rounds, jobs, length, ground).await).await?;
    figure::print(output, &rows, &[table(&rows)], &[])?;
    Ok(Exit::Ok)
}

async fn measure(rounds: usize, jobs: usize, length: Duration, ground: &Ground) -> Result<Vec<Row>, Failure> {
    let floor = Floor { ground };
    let bar = progress::bar(rounds);
    let mut measured = SIDES.map(|_| Vec::new());
    for _ in 0..rounds {
        for (rate, measured) in round(floor, jobs, length).await?.into_iter().zip(&mut measured) {
            measured.push(rounded(rate, 0));
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let row = |((statement, sessions), rates): ((&'static str, usize), &Vec<f64>)| Row {
        statement,
        sessions,
        rows_per_s: Figure::of(rates),
    };
    Ok(SIDES.into_iter().zip(&measured).map(row).collect())
}

/// In the order of the sides.
async fn round(floor: Floor<'_>, jobs: usize, length: Duration) -> Result<[f64; SIDES.len()], Failure> {
    floor.clear().await?;
    floor.insert(jobs.div_ceil(10)).await?;
    let one = floor.drain(1).await?;
    floor.clear().await?;
    let insert = floor.insert(jobs).await?;
    let hundred = floor.drain(100).await?;
    floor.clear().await?;
    let copy = floor.copy(jobs).await?;
    floor.clear().await?;
    let single = floor.insert_single(CALLERS, length).await?;
    Ok([one, hundred, insert, copy, single])
}

fn table(rows: &[Row]) -> Table {
    let right = |name| (name, Align::Right);
    let mut table =
        Table::new(&[("statement", Align::Left), right("sessions"), right("rows/s"), right("min to max")]);
    for row in rows {
        let [rate, rounds] = Figure::cells(row.rows_per_s, 0);
        table.row([row.statement.to_owned(), row.sessions.to_string(), rate, rounds]);
    }
    table
}
