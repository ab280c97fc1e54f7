//! `bugle bench flow`: how fast workflows go from step to step, and what they cost.

mod phases;
mod report;
mod shapes;

use super::check::Check;
use super::figure;
use super::meter::{NO_METER, with_meter};
use super::progress;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;
use phases::Plan;
pub(super) use report::Answer;
pub(super) use shapes::HANDLERS;
use std::time::Duration;

pub(super) const METHOD: &str = "\
Method: two nodes, each a process with 8 slots whose handlers do nothing; the steps of a workflow's levels are claimed by the one and the other
in turn, so that every parent is settled on another node than the one that claims its children. Runs are started by this process, which is
none of the nodes. In each round, for each wake mode (hybrid; event_driven_only; polling_only, polled every second):
  stages        runs one after the other, --runs of each shape (linear, diamond, a DAG of 7; 2 of each where the mode polls).
                From a run's start to its end by its row, divided by the stages that follow one another; and from a settlement to the claim that it
                allows: from the event of the last parent's end, written before that commits, to the event of the step's beginning, written
                after its claim has committed, both by the database's clock: a little more than from commit to commit
  statements    of the whole database while the linear runs were measured, less those that start and wait for them, for each step
                (pg_stat_statements, top level)
  burst         100 runs of 4 steps at once on one node of 8 slots, --waves times (once where the mode polls): steps and runs a second
Afterwards, once: a node serves --namespaces namespaces, each with a workflow; after 10 s it is watched for --idle seconds: reasons to look
other than the heartbeat, and statements; then one run in the namespace made last.
Figures are the median of the rounds, with the lowest and the highest; percentiles are of all steps or runs of all rounds.
The databases are named after the one it was given with `_bench_flow_...`; it drops them at the end.";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Runs of each shape in a round
    #[arg(long, default_value_t = 40)]
    runs: usize,
    /// Bursts in a round
    #[arg(long, default_value_t = 3)]
    waves: usize,
    /// Seconds in which an idle node is watched
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    idle: u64,
    /// Namespaces that the idle node serves
    #[arg(long, default_value_t = 1000)]
    namespaces: usize,
    /// One short round, to see that it works: its figures mean little
    #[arg(long)]
    quick: bool,
}

impl Args {
    fn plan(&self) -> Result<Plan, Failure> {
        if self.quick {
            return Ok(Plan {
                rounds: 1,
                runs: 3,
                waves: 1,
                idle: Duration::from_secs(1),
                settle: Duration::from_secs(1),
                namespaces: 20,
            });
        }
        if [self.rounds, self.runs, self.waves, self.namespaces].contains(&0) || self.idle == 0 {
            return Err(Failure::user(
                "rounds, runs, waves, idle and namespaces must be at least 1; leave them out for the defaults",
            ));
        }
        Ok(Plan {
            rounds: self.rounds,
            runs: self.runs,
            waves: self.waves,
            idle: Duration::from_secs(self.idle),
            settle: Duration::from_secs(10),
            namespaces: self.namespaces,
        })
    }
}

pub(super) async fn run(args: &Args, place: &Place, output: Output) -> Result<Exit, Failure> {
    let answer = measure(args, place).await?;
    let notes = if answer.is_metered() { vec![] } else { vec![NO_METER.to_owned()] };
    figure::print(output, &answer, &report::tables(&answer), &notes)?;
    Ok(Exit::Ok)
}

pub(super) async fn measure(args: &Args, place: &Place) -> Result<Answer, Failure> {
    let plan = args.plan()?;
    with_meter(place, "flow", async |meter| {
        let bar = progress::bar(plan.rounds * phases::MODES.len() + 1);
        let measured = phases::rounds(plan, place, meter, &bar).await;
        let idle = match &measured {
            Ok(_) => phases::idle(plan, place, meter).await.map(Some),
            Err(_) => Ok(None),
        };
        bar.finish_and_clear();
        Ok(Answer::of(&measured?, idle?))
    })
    .await
}

/// What must hold.
pub(super) fn checks(answer: &Answer) -> Vec<Check> {
    report::checks(answer)
}
