//! `bugle bench jobs`: what enqueueing and running jobs costs, beside the bare SQL of a queue in the same rounds.

use super::callers::{Enough, broken, saturate};
use super::check::Check;
use super::drain::{self, SLOTS, drain};
use super::figure::{self, rate};
use super::fill::{BATCH, copy, fill};
use super::floor::{CALLERS, CLAIMERS, Floor};
use super::ground::{Ground, on_ground};
use super::progress;
use super::ratio::{self, Ratio, Row};
use super::writer::Writer;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;
use crate::span;
use bugle::Bugle;
use futures_util::future::try_join_all;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

pub(super) const METHOD: &str = "\
Method: in each round the floor and Bugle take turns, each on tables made anew and a server just checkpointed; the ratio is that of the two
sides of the same round. The floor is `bugle bench floor`: see there. Payloads of about 100 bytes; all in this process.
`single enqueue`: 8 callers, one job a transaction for --length, by the Rust interface; each caller on a connection of its own, as the
floor's INSERT, and then all by `send()` on one handle, which fuses what comes at the same time; beside the same INSERT.
`bulk enqueue`: --jobs jobs by one caller, 500 a call, beside as many rows by INSERT of 500. `all in one COPY`: --jobs jobs by
`enqueue_bulk`, beside as many rows in a bare COPY.
`drain`: those --jobs jobs by one worker with --slots slots, every job leased, run by a registered handler that does nothing and acked by its
token, history kept, from the start of the worker until nothing is open; beside 4 sessions that claim 100 rows and delete them. `drain,
claims of n`: as many jobs without a worker, by 4 callers that claim n, read their bodies and ack each claim as a whole, beside the same
floor.
Every figure is the median of the rounds, with the lowest and the highest ratio. The default run takes about 3 minutes, --quick 3 s. It
works in a database of its own, named after the one it was given with `_bench_jobs`, which it drops at the end.";

const QUEUE: &str = "bench";
const LEASE: Duration = Duration::from_mins(1);
const DRAIN_WITHIN: Duration = Duration::from_mins(10);
/// Rows of the floor, and jobs, in one claim.
const FLOOR_CLAIM: i64 = 100;
const SMALL_CLAIM: u32 = 100;
const LARGE_CLAIM: u32 = 500;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Jobs that are enqueued in bulk and drained in each round [default: 100000]
    #[arg(long)]
    jobs: Option<usize>,
    /// How long single jobs are enqueued in each round [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = span::parse)]
    length: Option<Duration>,
    /// Jobs that the worker runs at once
    #[arg(long, default_value_t = SLOTS, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    slots: u32,
    /// One short round, to see that it works: its figures mean nothing
    #[arg(long)]
    quick: bool,
}

/// What is measured, and how much of it.
#[derive(Clone, Copy)]
struct Plan {
    rounds: usize,
    jobs: usize,
    length: Duration,
    slots: u32,
}

/// The lines of the result.
struct Ratios {
    own: Ratio,
    fused: Ratio,
    bulk: Ratio,
    copy: Ratio,
    worker: Ratio,
    small_claims: Ratio,
    large_claims: Ratio,
}

pub(super) async fn run(args: &Args, place: &Place, output: Output) -> Result<Exit, Failure> {
    let rows = measure(args, place).await?;
    figure::print(output, &rows, &[ratio::table(&rows)], &[])?;
    Ok(Exit::Ok)
}

pub(super) async fn measure(args: &Args, place: &Place) -> Result<Vec<Row>, Failure> {
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
    let plan = Plan { rounds, jobs, length, slots: args.slots };
    on_ground(place, "jobs", async |ground| measure_on(plan, ground).await).await
}

/// What must hold.
pub(super) fn checks(rows: &[Row]) -> Vec<Check> {
    rows.iter().filter_map(Row::check).collect()
}

async fn measure_on(plan: Plan, ground: &Ground) -> Result<Vec<Row>, Failure> {
    let bar = progress::bar(plan.rounds * 3);
    let mut ratios = Ratios {
        own: Ratio::new("single enqueue, 8 callers, own transactions", Some(0.8)),
        fused: Ratio::new("the same, fused by `send`", Some(2.0)),
        bulk: Ratio::new("bulk enqueue, 500 a call", Some(0.8)),
        copy: Ratio::new("all in one COPY, beside a bare COPY", None),
        worker: Ratio::new("drain through handlers, one worker", Some(1.2)),
        small_claims: Ratio::new("drain, claims of 100, no worker", None),
        large_claims: Ratio::new("drain, claims of 500, no worker", None),
    };
    for _ in 0..plan.rounds {
        single(plan, ground, &mut ratios).await?;
        bar.inc(1);
        let floor = many_bare(plan, ground).await?;
        bar.inc(1);
        many(plan, ground, floor, &mut ratios).await?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let Ratios { own, fused, bulk, copy, worker, small_claims, large_claims } = &ratios;
    let all = [own, fused, bulk, copy, worker, small_claims, large_claims];
    Ok(all.into_iter().map(Ratio::row).collect())
}

/// Tables made anew, and a handle on them.
async fn fresh(ground: &Ground) -> Result<Bugle, Failure> {
    ground.make_tables().await?;
    ground.checkpoint().await?;
    ground.bugle(u32::try_from(CALLERS).unwrap_or(1)).await
}

/// A round of single calls.
async fn single(plan: Plan, ground: &Ground, ratios: &mut Ratios) -> Result<(), Failure> {
    let enough = Enough::After(plan.length);
    let floor = Floor { ground };
    floor.clear().await?;
    let bare = floor.insert_single(CALLERS, plan.length).await?;
    let bugle = fresh(ground).await?;
    let mut writers = Vec::new();
    for _ in 0..CALLERS {
        writers.push(Writer::own(&bugle, QUEUE).await?);
    }
    let own = saturate(writers, enough).await?;
    ratios.own.add(bare, rate(own.commits, own.took));
    let writers = (0..CALLERS).map(|_| Writer::node(&bugle, QUEUE)).collect();
    let fused = saturate(writers, enough).await?;
    ratios.fused.add(bare, rate(fused.commits, fused.took));
    bugle.close().await;
    Ok(())
}

/// What the floor does with many rows, a second.
struct Bare {
    insert: f64,
    copy: f64,
    drain: f64,
}

async fn many_bare(plan: Plan, ground: &Ground) -> Result<Bare, Failure> {
    let floor = Floor { ground };
    floor.clear().await?;
    let copy = floor.copy(plan.jobs).await?;
    floor.clear().await?;
    Ok(Bare { insert: floor.insert(plan.jobs).await?, copy, drain: floor.drain(FLOOR_CLAIM).await? })
}

/// The same of Bugle.
async fn many(plan: Plan, ground: &Ground, bare: Bare, ratios: &mut Ratios) -> Result<(), Failure> {
    let Plan { jobs, slots, .. } = plan;
    let bugle = fresh(ground).await?;
    let filled = fill(&bugle, QUEUE, jobs, BATCH).await?;
    ratios.bulk.add(bare.insert, rate(jobs, filled));
    let work = drain::Plan { queue: QUEUE, jobs, slots, early: 0, most: DRAIN_WITHIN };
    let drained = drain(&bugle, work).await?.in_full()?;
    ratios.worker.add(bare.drain, drained.per_s());
    bugle.close().await;

    let bugle = fresh(ground).await?;
    let filled = copy(&bugle, QUEUE, jobs).await?;
    ratios.copy.add(bare.copy, rate(jobs, filled));
    ratios.small_claims.add(bare.drain, claim_and_ack(&bugle, SMALL_CLAIM).await?);
    bugle.close().await;

    let bugle = fresh(ground).await?;
    copy(&bugle, QUEUE, jobs).await?;
    ratios.large_claims.add(bare.drain, claim_and_ack(&bugle, LARGE_CLAIM).await?);
    bugle.close().await;
    Ok(())
}

/// Empties a queue without a worker: jobs a second.
async fn claim_and_ack(bugle: &Bugle, claim: u32) -> Result<f64, Failure> {
    let queue = bugle.queue(QUEUE).await?;
    // The pool connects when it must: here, before the clock starts.
    drop(try_join_all((0..CLAIMERS).map(|_| bugle.pool().acquire())).await?);
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..CLAIMERS {
        let queue = queue.clone();
        tasks.spawn(async move {
            let mut acked = 0;
            loop {
                let look = queue.claim("bench", claim, LEASE).await?;
                if look.jobs.is_empty() {
                    return Ok::<usize, Failure>(acked);
                }
                let jobs = i32::try_from(look.jobs.len()).unwrap_or(i32::MAX);
                acked += queue.ack_claims(&[(look.token, jobs)]).await?;
            }
        });
    }
    let mut acked = 0;
    while let Some(ended) = tasks.join_next().await {
        acked += ended.map_err(broken)??;
    }
    Ok(rate(acked, begun.elapsed()))
}
