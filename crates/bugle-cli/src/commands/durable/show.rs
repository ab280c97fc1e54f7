//! `bugle durable show`.

use super::row::{Row, moment};
use super::waits::{Wait, waits_for};
use super::{Desk, not_read};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table, clean};
use chrono::{DateTime, Utc};
use duroxide::Event;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Executions and instances below it that are looked at one by one.
const LOOKED_AT_MAX: usize = 20;

/// Show an instance: how it stands, what it waits for, its executions, its history and the instances below it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle durable show order-42
  bugle durable show order-42 --history --json | jq '.history[].type'")]
pub(crate) struct Args {
    /// The instance, as `bugle durable ls` prints it
    id: String,
    /// Every event of the current execution, not only how many of each kind
    #[arg(long)]
    history: bool,
}

#[derive(Debug, Serialize)]
struct Execution {
    number: u64,
    status: String,
    started_at: DateTime<Utc>,
    ended_at: Option<DateTime<Utc>>,
    events: usize,
}

/// Everything about one instance.
#[derive(Debug, Serialize)]
struct Sheet {
    #[serde(flatten)]
    row: Row,
    output: Option<String>,
    waits_for: Vec<Wait>,
    /// The last of them.
    executions: Vec<Execution>,
    /// How many events of each kind the current execution has.
    events: BTreeMap<String, usize>,
    /// Why its history cannot be read, if so.
    history_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<Vec<Event>>,
    /// How many instances are below it.
    below: usize,
    /// The first of them.
    tree: Vec<Row>,
}

pub(super) async fn run(args: &Args, desk: &Desk, output: Output) -> Result<Exit, Failure> {
    let sheet = read(args, desk).await?;
    if output.is_json() {
        output.json(&sheet)?;
    } else {
        output.text(&text(&sheet, output))?;
    }
    Ok(Exit::Ok)
}

async fn read(args: &Args, desk: &Desk) -> Result<Sheet, Failure> {
    let row = Row::from(desk.find(&args.id).await?);
    let info = desk.client.get_instance_info(&args.id).await.map_err(not_read)?;
    let mut executions = Vec::new();
    let numbers = desk.client.list_executions(&args.id).await.map_err(not_read)?;
    for number in numbers.into_iter().rev().take(LOOKED_AT_MAX) {
        let found = desk.client.get_execution_info(&args.id, number).await.map_err(not_read)?;
        executions.push(Execution {
            number,
            status: found.status,
            started_at: moment(found.started_at),
            ended_at: found.completed_at.map(moment),
            events: found.event_count,
        });
    }
    // Events of a newer version cannot be read: the rest is shown all the same.
    let (events, history_error) = match desk.client.read_execution_history(&args.id, row.execution).await {
        Ok(events) => (events, None),
        Err(error) if error.is_retryable() => return Err(not_read(error)),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let below = desk.client.get_instance_tree(&args.id).await.map_err(not_read)?.all_ids;
    let mut tree = Vec::new();
    for id in below.iter().skip(1).take(LOOKED_AT_MAX) {
        tree.extend(desk.look_for(id).await?.map(Row::from)); // none: not begun, or gone since
    }
    Ok(Sheet {
        waits_for: if info.status == "Running" { waits_for(&events) } else { Vec::new() },
        row,
        output: info.output,
        executions,
        events: count(&events),
        history_error,
        history: args.history.then_some(events),
        below: below.len().saturating_sub(1),
        tree,
    })
}

fn count(events: &[Event]) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for event in events {
        *kinds.entry(kind(event)).or_default() += 1;
    }
    kinds
}

/// The kind under its name in the history.
fn kind(event: &Event) -> String {
    let value = serde_json::to_value(&event.kind).unwrap_or_default();
    value["type"].as_str().unwrap_or("?").to_owned()
}

/// The same for a person.
fn text(sheet: &Sheet, output: Output) -> String {
    let row = &sheet.row;
    let version = row.version.as_deref().unwrap_or("unknown");
    let mut lines = vec![
        ("instance", row.id.clone()),
        ("name", format!("{}, version {version}", row.orchestration)),
        ("status", row.status.clone()),
    ];
    lines.extend(row.custom_status.clone().map(|says| ("says", says)));
    lines.extend(row.parent.clone().map(|parent| ("parent", parent)));
    lines.push(("started", output.moment(row.created_at)));
    lines.push(("last turn", output.moment(row.updated_at)));
    lines.extend(row.ended_at.map(|at| ("ended", output.moment(at))));
    lines.extend(sheet.output.clone().map(|value| ("output", value)));
    lines.extend(sheet.waits_for.iter().map(|wait| ("waits for", in_words(wait, output))));
    lines.extend(sheet.history_error.clone().map(|error| ("history", format!("cannot be read: {error}"))));
    let events: Vec<String> = sheet.events.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    if !events.is_empty() {
        lines.push(("events", events.join(", ")));
    }
    let mut text = String::new();
    for (name, value) in lines {
        let _ = writeln!(text, "{name:<11}{}", clean(&value));
    }
    if sheet.executions.len() > 1 {
        let _ = write!(text, "\n{}", executions(&sheet.executions, output).render());
    }
    if sheet.below > 0 {
        let _ =
            write!(text, "\n{} below it\n{}", sheet.below, super::row::table(&sheet.tree, output).render());
    }
    for event in sheet.history.iter().flatten() {
        let data = serde_json::to_string(&event.kind).unwrap_or_default();
        let at = output.moment(moment(event.timestamp_ms));
        let _ = writeln!(text, "\n{:>5}  {at}  {}\n       {}", event.event_id, kind(event), clean(&data));
    }
    text
}

fn in_words(wait: &Wait, output: Output) -> String {
    let name = wait.name.as_deref().unwrap_or_default();
    match wait.due_ms {
        Some(due) => format!("timer, {}", output.moment(moment(due))),
        None => format!("{} {name}", wait.kind),
    }
}

fn executions(executions: &[Execution], output: Output) -> Table {
    let mut table = Table::new(&[
        ("execution", Align::Right),
        ("status", Align::Left),
        ("started", Align::Left),
        ("ended", Align::Left),
        ("events", Align::Right),
    ]);
    for one in executions {
        table.row([
            one.number.to_string(),
            one.status.clone(),
            output.moment(one.started_at),
            output.moment_or_dash(one.ended_at),
            one.events.to_string(),
        ]);
    }
    table
}
