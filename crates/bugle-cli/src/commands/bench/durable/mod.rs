//! `bugle bench durable`: instances on Bugle's provider and, where their program is given, on the other providers for duroxide.

mod contestant;
mod phases;
mod report;

use super::figure;
use super::meter::{NO_METER, with_meter};
use super::progress;
use super::scene::{self, Fault, wire::Role};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;
use bugle_duroxide::PostgresProvider;
use contestant::Contestant;
use duroxide::providers::Provider;
use phases::Plan;
pub(super) use report::{Answer, checks};
use std::path::PathBuf;
use std::sync::Arc;

pub(super) const METHOD: &str = "\
Method: each provider has a database of its own on one server, a pool of 20 connections, and duroxide's default options but for the number of
dispatchers (4 turns + 4 work, where nothing else is said). A node is one process, a client that starts instances another. In each round:
  idle          all nodes are idle side by side for --idle; the statements of each database are counted (pg_stat_statements, top level)
  then each provider in turn, alone:
  latency       one instance with one activity every 100 ms, --instances of them: from before the start call to the first turn, from there to
                the activity, from there to the second turn; and the statements of the database for each instance
  timers        as many instances with a timer of 1 s, one every 20 ms: how long after its second the orchestration goes on
  burst         200 instances with five activities at once, and 300 that do nothing, started by 8 callers as fast as it goes; from the first
                call to the return of the last orchestration (its ack is not waited for). With 4 + 4 dispatchers, and with 8 + 8
  by time       without a node: a turn is claimed for 2 s and never heard of again, another given back with a delay of 2 s; two dispatchers
                that wait as duroxide's do: how long after that time they have it
Figures are the median of the rounds, with the lowest and the highest; those of timers are of all rounds together.
The other providers take part with --peers PROGRAM, the program of bench/durable-peers; `make bench-durable` builds and gives it.
The default run takes about 12 minutes (4 without the others), --quick 20 s. The databases are named after the one it was given with
`_bench_durable_...`; it drops them at the end.";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds in which idle nodes are watched
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    idle: u64,
    /// Instances of a round whose latency is measured, and timers
    #[arg(long, default_value_t = 50)]
    instances: usize,
    /// The program with the other providers
    #[arg(long, env = "BUGLE_DURABLE_PEERS", value_name = "PROGRAM")]
    peers: Option<PathBuf>,
    /// One short round, to see that it works
    #[arg(long)]
    quick: bool,
}

pub(super) async fn run(args: &Args, place: &Place, output: Output) -> Result<Exit, Failure> {
    let answer = measure(args, place).await?;
    let notes = if answer.is_metered() { vec![] } else { vec![NO_METER.to_owned()] };
    figure::print(output, &answer, &report::tables(&answer), &notes)?;
    Ok(Exit::Ok)
}

pub(super) async fn measure(args: &Args, place: &Place) -> Result<Answer, Failure> {
    let plan = if args.quick { Plan::quick() } else { Plan::full(args.idle, args.instances) };
    let rounds = if args.quick { 1 } else { args.rounds };
    if rounds == 0 || args.idle == 0 || args.instances == 0 {
        return Err(Failure::user(
            "rounds, idle and instances must be at least 1; leave them out for the defaults",
        ));
    }
    if let Some(program) = args.peers.as_ref().filter(|program| !program.is_file()) {
        return Err(Failure::user(format!(
            "there is no program {}; `make bench-durable` builds it, or leave --peers out to measure Bugle alone",
            program.display()
        )));
    }
    with_meter(place, "durable", async |meter| {
        let mut contestants = Contestant::all(place, args.peers.as_deref()).await?;
        let bar = progress::bar(rounds * (1 + contestants.len()));
        let measured = phases::rounds(rounds, plan, meter, &contestants, &bar).await;
        bar.finish_and_clear();
        for contestant in &mut contestants {
            contestant.drop().await?;
        }
        Ok(Answer::of(contestants.iter().map(|c| c.name).collect(), &measured?))
    })
    .await
}

/// Plays a role in the benchmark, as its parent says.
pub(crate) async fn play() -> Result<Exit, Failure> {
    let played = scene::run(make).await;
    played.map(|()| Exit::Ok).map_err(|fault| Failure::server(fault.to_string()))
}

async fn make(role: &Role) -> Result<Arc<dyn Provider>, Fault> {
    Ok(Arc::new(PostgresProvider::new_with_long_poll(&role.url).await?))
}
