//! Queues of messages, as `bugle queue ls` and `show` tell of them.

use crate::output::{Align, Output, Table, clean};
use bugle::broker::operate::{PartitionRow, QueueOptions, QueueRow};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A queue, for a program.
pub(super) fn as_json(row: &QueueRow) -> Value {
    let mut value = json!(row);
    value["holds"] = json!("messages");
    value
}

pub(super) fn table(rows: &[QueueRow]) -> Table {
    let (left, right) = (|name| (name, Align::Left), |name| (name, Align::Right));
    let mut table = Table::new(&[
        left("queue of messages"),
        left("mode"),
        right("partitions"),
        right("messages"),
        right("pending"),
        right("leased"),
        right("dead"),
        left("options"),
    ]);
    for row in rows {
        table.row([
            row.name.clone(),
            row.mode.clone(),
            row.partitions.to_string(),
            row.total.to_string(),
            row.pending.to_string(),
            row.leased.to_string(),
            row.dead.to_string(),
            told(&row.options),
        ]);
    }
    table
}

/// Everything about one queue, for a person.
pub(super) fn sheet(row: &QueueRow, partitions: &[PartitionRow], output: Output) -> String {
    let mut text = String::new();
    let dead = if row.dead > 0 { format!(": `bugle dlq ls {}`", row.name) } else { String::new() };
    let lines = [
        ("queue", row.name.clone()),
        ("holds", "messages".to_owned()),
        ("mode", row.mode.clone()),
        ("made", output.moment(row.created_at)),
        ("messages", row.total.to_string()),
        ("pending", format!("{}: `bugle group ls {}`", row.pending, row.name)),
        ("leased", row.leased.to_string()),
        ("dead", format!("{}{dead}", row.dead)),
        ("options", told(&row.options)),
    ];
    for (name, value) in lines {
        let _ = writeln!(text, "{name:<10} {}", clean(&value));
    }
    let (left, right) = (|name| (name, Align::Left), |name| (name, Align::Right));
    let mut table = Table::new(&[
        left("partition"),
        right("messages"),
        right("pending"),
        right("leased"),
        right("dead"),
        left("oldest"),
        left("newest"),
    ]);
    for partition in partitions {
        table.row([
            partition.partition.clone(),
            partition.total.to_string(),
            partition.pending.to_string(),
            partition.leased.to_string(),
            partition.dead.to_string(),
            output.moment_or_dash(partition.first_at),
            output.moment_or_dash(partition.last_at),
        ]);
    }
    text.push('\n');
    text.push_str(&table.render());
    text
}

/// What it was told, and nothing else.
fn told(options: &QueueOptions) -> String {
    let Value::Object(options) = json!(options) else { return "-".to_owned() };
    let told: Vec<String> = options
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| match value {
            Value::String(text) => format!("{name}={text}"),
            other => format!("{name}={other}"),
        })
        .collect();
    if told.is_empty() { "-".to_owned() } else { told.join(" ") }
}
