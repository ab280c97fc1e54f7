//! `bugle bench all`: every figure that has a target, beside it.

use super::check::{self, Check};
use super::{
    backlog, broker, crash, due, durable, figure, flow, hold, idle, jobs, latency, succession, wake,
};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;
use clap::ValueEnum;
use serde::Serialize;

pub(super) const METHOD: &str = "\
Method: runs the other benchmarks one after the other, each as it is by default (--quick: each in its quick form, whose figures mean
nothing), and prints what has a target: the median of the rounds, the lowest and the highest, and whether the median meets it. Their help
texts tell how each is measured. One that fails is told below the table, and the command exits with 2.
The default run takes over an hour, --quick 2 minutes; run it on a machine that does nothing else.
Example:
  bugle bench all --ephemeral --only jobs,hold";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_enum)]
    only: Vec<Name>,
    /// The quick form of each, to see that it works: the figures mean nothing
    #[arg(long)]
    quick: bool,
}

/// The benchmarks that have targets. (Comments on the variants would make the help text twice as long.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    Jobs,
    Backlog,
    Hold,
    Crash,
    Wake,
    Latency,
    Due,
    Idle,
    Succession,
    Durable,
    Broker,
    Flow,
}

#[derive(Serialize)]
struct Answer {
    checks: Vec<Check>,
    /// What could not be measured, and why.
    failed: Vec<String>,
}

pub(super) async fn run(args: &Args, place: &Place, output: Output) -> Result<Exit, Failure> {
    let mut answer = Answer { checks: Vec::new(), failed: Vec::new() };
    for name in Name::value_variants() {
        if !args.only.is_empty() && !args.only.contains(name) {
            continue;
        }
        tracing::info!(benchmark = ?name, "begun");
        match Box::pin(name.measure(args.quick, place)).await {
            Ok(checks) => answer.checks.extend(checks),
            Err(failure) => answer.failed.push(format!("{name:?}: {failure}")),
        }
    }
    figure::print(output, &answer, &[check::table(&answer.checks)], &answer.failed)?;
    Ok(if answer.failed.is_empty() { Exit::Ok } else { Exit::Server })
}

impl Name {
    async fn measure(self, quick: bool, place: &Place) -> Result<Vec<Check>, Failure> {
        Ok(match self {
            Self::Jobs => jobs::checks(&jobs::measure(&typed(quick)?, place).await?),
            Self::Backlog => backlog::checks(&backlog::measure(&typed(quick)?, place).await?),
            Self::Hold => hold::measure(&typed(quick)?, place).await?.into_checks(),
            Self::Crash => crash::checks(&crash::measure(&typed(quick)?, place).await?),
            Self::Wake => wake::checks(&wake::measure(&typed(quick)?, place).await?),
            Self::Latency => latency::checks(&latency::measure(&typed(quick)?, place).await?),
            Self::Due => due::checks(&due::measure(&typed(quick)?, place).await?),
            Self::Idle => idle::checks(&idle::measure(&typed(quick)?, place).await?),
            Self::Succession => succession::checks(&succession::measure(&typed(quick)?, place).await?),
            Self::Durable => durable::checks(&durable::measure(&typed(quick)?, place).await?),
            Self::Broker => broker::measure(&typed(quick)?, place).await?.into_checks(),
            Self::Flow => flow::checks(&flow::measure(&typed(quick)?, place).await?),
        })
    }
}

/// A benchmark's options as if it had been typed without any, or with `--quick` alone: its defaults are told in one place.
fn typed<A: clap::Args>(quick: bool) -> Result<A, Failure> {
    let words: &[&str] = if quick { &["--quick"] } else { &[] };
    let command = A::augment_args(clap::Command::new("bench").no_binary_name(true));
    command
        .try_get_matches_from(words)
        .and_then(|matches| A::from_arg_matches(&matches))
        .map_err(|error| Failure::server(format!("the options of a benchmark are wrong: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_benchmark_can_be_run_with_its_defaults() {
        for quick in [false, true] {
            typed::<jobs::Args>(quick).unwrap();
            typed::<backlog::Args>(quick).unwrap();
            typed::<hold::Args>(quick).unwrap();
            typed::<crash::Args>(quick).unwrap();
            typed::<wake::Args>(quick).unwrap();
            typed::<latency::Args>(quick).unwrap();
            typed::<due::Args>(quick).unwrap();
            typed::<idle::Args>(quick).unwrap();
            typed::<succession::Args>(quick).unwrap();
            typed::<durable::Args>(quick).unwrap();
            typed::<flow::Args>(quick).unwrap();
        }
    }
}
