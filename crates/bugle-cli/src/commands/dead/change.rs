//! `bugle dead redrive` and `bugle dead purge`: a preview, or the deed in short steps.

use super::Which;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use bugle::Bugle;
use bugle::jobs::inspect::DeadGroup;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::collections::BTreeMap;

pub(super) const REDRIVE: &str = "\
They become ready in steps of a thousand, each in a transaction of its own, and workers that wait are woken. Interrupted, it
can be run again. Exit code 4 when there is none.

Examples:
  bugle dead redrive --queue mail                                  shows what would be redriven, by kind and error
  bugle dead redrive --queue mail --code smtp_timeout --yes        does it
  bugle job retry 42                                               a single one";

pub(super) const PURGE: &str = "\
They are deleted in steps of a thousand, each in a transaction of its own, and cannot be had back. Their failed attempts age as
all others do. Interrupted, it can be run again. Exit code 4 when there is none.

Examples:
  bugle dead purge --older-than 30d              shows what would be deleted, by kind and error
  bugle dead purge --older-than 30d --yes        does it";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Do it; without this, only show what would be done
    #[arg(long, short)]
    yes: bool,
}

/// What is done to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Redrive,
    Purge,
}

impl Act {
    fn name(self) -> &'static str {
        match self {
            Self::Redrive => "redrive",
            Self::Purge => "purge",
        }
    }

    fn past(self) -> &'static str {
        match self {
            Self::Redrive => "redriven",
            Self::Purge => "purged",
        }
    }
}

pub(super) async fn run(act: Act, args: &Args, bugle: &Bugle, output: Output) -> Result<Exit, Failure> {
    // Dead jobs of the queues in question, matching or not, by the counters: how far the walk is.
    let queues = bugle.list_queues().await?;
    let dead: i64 = queues.iter().map(|queue| queue.dead).sum();
    let progress = bar(dead);
    let jobs = if args.yes {
        let jobs = change(act, args, bugle, &progress).await?;
        tell(act, args, jobs, output)?;
        jobs
    } else {
        preview(act, args, bugle, &progress, output).await?
    };
    Ok(if jobs > 0 { Exit::Ok } else { Exit::Nothing })
}

async fn change(act: Act, args: &Args, bugle: &Bugle, progress: &ProgressBar) -> Result<i64, Failure> {
    let mut walk = bugle.walk_dead(args.which.filter())?;
    let mut jobs = 0;
    loop {
        let step = match act {
            Act::Redrive => walk.redrive().await,
            Act::Purge => walk.purge().await,
        };
        let step = step.map_err(|error| match jobs {
            0 => Failure::from(error),
            _ => Failure::from(error)
                .after(&format!("{jobs} were {} before; run it again for the rest", act.past())),
        })?;
        let Some(step) = step else { break };
        jobs += i64::from(step.changed);
        progress.inc(u64::from(step.read.unsigned_abs()));
        progress.set_message(format!("{jobs} {}", act.past()));
    }
    progress.finish_and_clear();
    Ok(jobs)
}

fn tell(act: Act, args: &Args, jobs: i64, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        output.json(&json!({ "act": act.name(), "done": true, "jobs": jobs }))?;
    } else if jobs == 0 {
        output.line(&format!("nothing to {}: there are no {}", act.name(), args.which.describe()))?;
    } else {
        output.line(&format!("{} {}", jobs, act.past()))?;
    }
    Ok(())
}

async fn preview(
    act: Act,
    args: &Args,
    bugle: &Bugle,
    progress: &ProgressBar,
    output: Output,
) -> Result<i64, Failure> {
    let mut walk = bugle.walk_dead(args.which.filter())?;
    let mut groups = BTreeMap::new();
    while let Some((read, found)) = walk.find().await? {
        for group in found {
            merge(&mut groups, group);
        }
        progress.inc(read.unsigned_abs());
    }
    progress.finish_and_clear();
    let mut groups: Vec<DeadGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.jobs)); // the worst first
    let jobs = groups.iter().map(|group| group.jobs).sum();
    if output.is_json() {
        output.json(&json!({ "act": act.name(), "done": false, "jobs": jobs, "groups": groups }))?;
    } else if jobs == 0 {
        tell(act, args, jobs, output)?;
    } else {
        output.text(&table(&groups, output).render())?;
        let would = format!("\n{jobs} would be {}: add --yes to do it", act.past());
        output.line(&would)?;
    }
    Ok(jobs)
}

fn merge(groups: &mut BTreeMap<(String, String, String), DeadGroup>, found: DeadGroup) {
    let key = (found.queue.clone(), found.kind.clone(), found.code.clone());
    let Some(group) = groups.get_mut(&key) else {
        groups.insert(key, found);
        return;
    };
    group.jobs += found.jobs;
    group.oldest = group.oldest.min(found.oldest);
    group.newest = group.newest.max(found.newest);
}

fn table(groups: &[DeadGroup], output: Output) -> Table {
    let mut table = Table::new(&[
        ("queue", Align::Left),
        ("kind", Align::Left),
        ("error", Align::Left),
        ("jobs", Align::Right),
        ("first died", Align::Left),
        ("last died", Align::Left),
    ]);
    for group in groups {
        table.row([
            group.queue.clone(),
            group.kind.clone(),
            group.code.clone(),
            group.jobs.to_string(),
            output.moment(group.oldest),
            output.moment(group.newest),
        ]);
    }
    table
}

/// On standard error, and only when that is a terminal.
fn bar(jobs: i64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}  {eta} left");
    ProgressBar::new(jobs.unsigned_abs()).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
