//! `bugle bench broker`: messages over HTTP, beside the bare SQL that nothing in PostgreSQL can do without.

mod caller;
mod held;
mod load;
mod losses;
mod report;
mod rounds;
mod server;
mod streams;
mod waiters;

use super::figure;
use super::ground::on_ground;
use super::meter::{NO_METER, with_meter};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;
pub(super) use report::Answer;
use rounds::Plan;

pub(super) const METHOD: &str = "\
Method: `bugle serve` with its default options is one process, all clients are this one; HTTP/1.1, connections that are kept, one request at a
time on each, payloads of about 100 bytes, 100 partitions. In each round, floor and Bugle in turn, the server checkpointed before each side:
  push 1        50 connections, one message a request, for 5 s; beside 50 sessions that INSERT one row a transaction
  push 100      20 connections, 100 messages a request, for 5 s; beside 20 sessions that INSERT 100 rows a statement
  pop 100 + ack 20 connections drain 100,000 messages, batch 100, one ack request for each pop; beside claim 100 + delete on 4 sessions
  autoAck       the same for another group, acked by the pop
  waiters       1, 100, 1,000 and 10,000 connections wait, ack what they get at once and wait again: all on one queue, and each on a
                partition of its own; and 100, 500, 1,000 and 5,000 divided among 50, 200, 500 and 2,000 queues. 100 messages, one every
                20 ms: from before the push is sent until a waiter has it
Once, at the end:
  idle          10,000 waiting pops, for 30 s: statements of the database (pg_stat_statements, top level), and the server's memory against that
                before they came; 100,000 as HTTP/2 streams on 100 connections (with --wake intentions_max=200000): memory
  backlog       1,000,000 messages wait: the first 100,000 are popped and acked
  losses        16 connections push 150,000 messages into one partition, one to three a request, while another pops and acks: how many never
                came, and how many came out of their producer's order
  held snapshot 20 clients push 10, pop 10 and ack 10, each on its own partition, for 60 s in windows of 10 s, while another session holds a
                REPEATABLE READ snapshot: the last window to the best of the first three
Figures are the median of the rounds, with the lowest and the highest; latencies of all rounds together.
The default run took 10 minutes on two cores, --quick 20 s. It works in a database of its own, named after the one it was given with
`_bench_broker`, which it drops at the end.";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// One short round, to see that it works: its figures mean nothing
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
    let (rounds, plan) = if args.quick { (1, Plan::QUICK) } else { (args.rounds, Plan::FULL) };
    if rounds == 0 {
        return Err(Failure::user("rounds must be at least 1; leave it out for the default"));
    }
    with_meter(place, "broker", async |meter| {
        let measured =
            on_ground(place, "broker", async |ground| rounds::all(rounds, &plan, ground, meter).await)
                .await?;
        Ok(Answer::of(&measured))
    })
    .await
}
