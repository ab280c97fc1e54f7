//! `bugle bench crash`: a worker is killed in the middle of its jobs. When do they run elsewhere?

use super::check::{Check, Target};
use super::clock::{DatabaseClock, between, now_ns, signed_ms};
use super::figure::{self, Figure, of_rounds};
use super::ground::{Ground, on_ground};
use super::payload::payloads;
use super::pick_up::starts;
use super::progress;
use super::wire::{Part, Started};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::place::Place;
use crate::span;
use bugle::{Bugle, JobId};
use serde::Serialize;
use std::collections::HashMap;
use std::time::Duration;

pub(super) const METHOD: &str = "\
Method: a worker process with a lease of --lease starts 16 jobs that never end, and renews its lease as it always does; a second worker
process waits on the same queue. At a random moment between two renewals the first is killed with SIGKILL. `past the lease`: the start of
a job's handler in the second process minus the end of the lease that the killed worker held, by the database's clock (compared with the
machine's by 50 round trips); `since the kill`: the same from the moment at which the first process was gone. Both are those of the last of the
16 jobs; the median of the rounds, with the lowest and the highest.
The default run takes about 1 minute, --quick 3 s. It works in a database of its own, named after the one it was given with
`_bench_crash`, which it drops at the end.";

const QUEUE: &str = "bench";
const JOBS: usize = 16;
const SLOTS: u32 = 16;
/// The second worker sleeps after this.
const SETTLE: Duration = Duration::from_millis(300);
/// A lease is renewed after a third of it.
const RENEWALS: u32 = 3;
const PAST_LEASE_MS_MAX: f64 = 1_000.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The lease of the worker that is killed, 500ms to 20s [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = span::parse)]
    lease: Option<Duration>,
    /// One round with a short lease, to see that it works
    #[arg(long)]
    quick: bool,
}

/// Milliseconds.
struct Round {
    past_lease: f64,
    since_kill: f64,
}

#[allow(clippy::struct_field_names)] // their unit
#[derive(Serialize)]
pub(super) struct Answer {
    lease_ms: f64,
    past_lease_ms: Option<Figure>,
    since_kill_ms: Option<Figure>,
}

pub(super) async fn run(args: &Args, place: &Place, output: Output) -> Result<Exit, Failure> {
    let answer = measure(args, place).await?;
    figure::print(output, &answer, &[table(&answer)], &[])?;
    Ok(Exit::Ok)
}

pub(super) async fn measure(args: &Args, place: &Place) -> Result<Answer, Failure> {
    let (rounds, lease) =
        if args.quick { (1, Duration::from_secs(1)) } else { (args.rounds, Duration::from_secs(5)) };
    let lease = args.lease.unwrap_or(lease);
    if rounds == 0 || lease < Duration::from_millis(500) || lease > Duration::from_secs(20) {
        return Err(Failure::user(
            "rounds must be at least 1 and lease 500ms to 20s; leave them out for the defaults",
        ));
    }
    on_ground(place, "crash", async |ground| measure_on(rounds, lease, ground).await).await
}

/// What must hold.
pub(super) fn checks(answer: &Answer) -> Vec<Check> {
    let name = "worker killed: its jobs run elsewhere, ms past its lease";
    vec![Check::new(name, answer.past_lease_ms, Target::AtMost(PAST_LEASE_MS_MAX))]
}

async fn measure_on(rounds: usize, lease: Duration, ground: &Ground) -> Result<Answer, Failure> {
    let bar = progress::bar(rounds);
    let mut measured = Vec::new();
    for _ in 0..rounds {
        measured.push(round(lease, ground).await?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Answer {
        lease_ms: lease.as_secs_f64() * 1e3,
        past_lease_ms: of_rounds(&measured, |round| round.past_lease),
        since_kill_ms: of_rounds(&measured, |round| round.since_kill),
    })
}

async fn round(lease: Duration, ground: &Ground) -> Result<Round, Failure> {
    ground.make_tables().await?;
    let bugle = ground.bugle(2).await?;
    let mut victim = [ground.start(Part::Stuck { queue: QUEUE.to_owned(), slots: SLOTS, lease }).await?];
    let jobs = bugle.enqueue_many_raw(QUEUE, "bench", payloads(JOBS)).send().await?;
    starts(&mut victim, JOBS).await?;
    let mut others = [ground.start(Part::Worker { queues: vec![QUEUE.to_owned()], slots: SLOTS }).await?];
    tokio::time::sleep(SETTLE + (lease / RENEWALS).mul_f64(rand::random_range(0.0..1.0))).await;
    for victim in victim {
        victim.kill().await;
    }
    let killed = now_ns();
    let ends = lease_ends(&bugle, &jobs).await?;
    let clock = DatabaseClock::measure(ground.pool()).await?;
    let started = starts(&mut others, JOBS).await?;
    for other in others {
        other.end().await;
    }
    bugle.close().await;
    let late = |start: &Started| ends.get(&start.id).map(|end| signed_ms(clock.at_us(start.at_ns) - end));
    Ok(Round {
        past_lease: started.iter().filter_map(late).fold(f64::NEG_INFINITY, f64::max),
        since_kill: started
            .iter()
            .map(|start| between(killed, start.at_ns).as_secs_f64() * 1e3)
            .fold(0.0, f64::max),
    })
}

/// When the leases of these jobs end unless somebody renews them, in microseconds since 1970.
async fn lease_ends(bugle: &Bugle, jobs: &[JobId]) -> Result<HashMap<i64, i64>, Failure> {
    let mut ends = HashMap::new();
    for job in jobs {
        let until = bugle.show_job(*job).await?.and_then(|shown| shown.lease_until);
        let until =
            until.ok_or_else(|| Failure::server("a job's lease had ended before it was looked at"))?;
        ends.insert(job.0, until.timestamp_micros());
    }
    Ok(ends)
}

fn table(answer: &Answer) -> Table {
    let right = |name| (name, Align::Right);
    let columns = [("worker killed", Align::Left), right("ms"), right("min to max")];
    let mut table = Table::new(&columns);
    for (name, value) in [("past the lease", answer.past_lease_ms), ("since the kill", answer.since_kill_ms)]
    {
        let [median, rounds] = Figure::cells(value, 1);
        table.row([name.to_owned(), median, rounds]);
    }
    table
}
