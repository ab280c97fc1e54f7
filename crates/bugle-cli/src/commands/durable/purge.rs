//! `bugle durable purge`: a preview, or the deed in short steps.

use super::row::{Status, moment};
use super::{Desk, not_read, not_written};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::span;
use bugle_duroxide::{FinishedGroup, Which};
use duroxide::{DeleteInstanceResult, InstanceFilter};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// Instances without a parent that one step deletes.
const STEP: u32 = 1_000;

/// Delete instances that have ended, with those below them; shows which, unless --yes
#[derive(Debug, clap::Args)]
#[command(after_help = "\
They are deleted with their histories in steps of a thousand, each in a transaction of its own, and cannot be had back. An
instance that another one has started goes with that one; both stay as long as one of them goes on. Interrupted, it can be
run again. Exit code 4 when there is none.

Examples:
  bugle durable purge --older-than 30d                              shows what would be deleted, by orchestration and status
  bugle durable purge --older-than 30d --status completed --yes     does it
  bugle durable purge --id order-42 --yes                           a single one")]
pub(crate) struct Args {
    /// Only this instance
    #[arg(long)]
    id: Option<String>,
    /// Only this orchestration
    #[arg(long, value_name = "ORCHESTRATION")]
    name: Option<String>,
    /// Only this status, completed or failed; the others go on and are never purged
    #[arg(long, value_enum, ignore_case = true)]
    status: Option<Status>,
    /// Only those that ended at least so long ago, such as 2h or 30d
    #[arg(long, value_name = "TIME", value_parser = span::parse)]
    older_than: Option<Duration>,
    /// Do it; without this, only show what would be done
    #[arg(long, short)]
    yes: bool,
}

impl Args {
    fn which(&self) -> Which {
        Which {
            id: self.id.clone(),
            orchestration: self.name.clone(),
            status: self.status.map(|status| status.name().to_owned()),
            ended_for: self.older_than,
        }
    }

    /// What was asked for, in words.
    fn describe(&self) -> String {
        let mut text = match &self.id {
            Some(id) => format!("instances {id:?} without a parent"),
            None => "instances without a parent".to_owned(),
        };
        if let Some(name) = &self.name {
            let _ = write!(text, " of orchestration {name}");
        }
        match self.status {
            Some(status) => _ = write!(text, " that have ended as {}", status.name()),
            None => text.push_str(" that have ended"),
        }
        if let Some(age) = self.older_than {
            let _ = write!(text, " at least {} ago", span::short(age));
        }
        text
    }
}

pub(super) async fn run(args: &Args, desk: &Desk, output: Output) -> Result<Exit, Failure> {
    if let Some(status @ (Status::Running | Status::ContinuedAsNew)) = args.status {
        let status = status.name();
        return Err(Failure::user(format!(
            "instances with the status {status} go on and cannot be purged; end them with `bugle durable cancel` first"
        )));
    }
    let which = args.which();
    let groups = desk.provider.finished_groups(&which).await.map_err(not_read)?;
    let instances: u64 = groups.iter().map(|group| group.instances).sum();
    if instances == 0 {
        if output.is_json() {
            output.json(&json!({ "act": "purge", "done": args.yes, "instances": 0 }))?;
        } else {
            output.line(&format!("nothing to purge: there are no {}", args.describe()))?;
        }
        return Ok(Exit::Nothing);
    }
    if args.yes {
        let roots = groups.iter().map(|group| group.roots).sum();
        tell(&purge(&which, desk, &bar(roots)).await?, output)?;
    } else {
        preview(&groups, instances, output)?;
    }
    Ok(Exit::Ok)
}

async fn purge(which: &Which, desk: &Desk, progress: &ProgressBar) -> Result<DeleteInstanceResult, Failure> {
    let mut total = DeleteInstanceResult::default();
    let mut after = String::new();
    loop {
        let roots = desk.provider.finished_roots(which, &after, STEP).await;
        let roots = roots.map_err(|error| so_far(not_read(error), &total))?;
        let Some(last) = roots.last() else { break };
        after.clone_from(last);
        progress.inc(u64::try_from(roots.len()).unwrap_or(0));
        let filter =
            InstanceFilter { instance_ids: Some(roots), limit: Some(STEP), ..InstanceFilter::default() };
        let step = desk.client.delete_instance_bulk(filter).await;
        let step = step.map_err(|error| so_far(not_written(error), &total))?;
        total.instances_deleted += step.instances_deleted;
        total.executions_deleted += step.executions_deleted;
        total.events_deleted += step.events_deleted;
        total.queue_messages_deleted += step.queue_messages_deleted;
        progress.set_message(format!("{} purged", total.instances_deleted));
    }
    progress.finish_and_clear();
    Ok(total)
}

fn so_far(failure: Failure, total: &DeleteInstanceResult) -> Failure {
    match total.instances_deleted {
        0 => failure,
        purged => failure.after(&format!("{purged} were purged before; run it again for the rest")),
    }
}

fn tell(total: &DeleteInstanceResult, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        output.json(&json!({
            "act": "purge",
            "done": true,
            "instances": total.instances_deleted,
            "executions": total.executions_deleted,
            "events": total.events_deleted,
            "messages": total.queue_messages_deleted,
        }))?;
    } else {
        output.line(&format!("{} purged, with {} events", total.instances_deleted, total.events_deleted))?;
    }
    Ok(())
}

fn preview(groups: &[FinishedGroup], instances: u64, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        let groups: Vec<Value> = groups.iter().map(group_json).collect();
        output.json(&json!({ "act": "purge", "done": false, "instances": instances, "groups": groups }))?;
        return Ok(());
    }
    let mut table = Table::new(&[
        ("orchestration", Align::Left),
        ("status", Align::Left),
        ("without a parent", Align::Right),
        ("with those below", Align::Right),
        ("first ended", Align::Left),
        ("last ended", Align::Left),
    ]);
    for group in groups {
        table.row([
            group.orchestration.clone(),
            group.status.clone(),
            group.roots.to_string(),
            group.instances.to_string(),
            output.moment(moment(group.oldest_ms)),
            output.moment(moment(group.newest_ms)),
        ]);
    }
    output.text(&table.render())?;
    output.line(&format!("\n{instances} would be purged: add --yes to do it"))?;
    Ok(())
}

fn group_json(group: &FinishedGroup) -> Value {
    json!({
        "orchestration": group.orchestration,
        "status": group.status,
        "roots": group.roots,
        "instances": group.instances,
        "oldest": moment(group.oldest_ms),
        "newest": moment(group.newest_ms),
    })
}

/// On standard error, and only when that is a terminal.
fn bar(roots: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}  {eta} left");
    ProgressBar::new(roots).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
