//! `bugle pop`: claiming messages for a group.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::place::Place;
use crate::span;
use bugle::broker::operate::Tags;
use bugle::broker::{Delivered, Pop, Popped, Start};
use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::time::Duration;

/// Pop messages: lease them to a group, waiting for them if told to
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What is popped is the group's until its lease ends, or until it is settled with `bugle ack RECEIPT`. Exit code 4 when there is
nothing.

Examples:
  bugle pop orders                                              the next message
  bugle pop orders --group mailer --most 10 --wait 30s          up to ten, waiting for the first
  bugle pop orders --auto-ack | jq .messages[].payload          done with the answer
  bugle pop --tag-namespace orders --wait 1m                    of any queue with this tag")]
pub(crate) struct Args {
    /// The queue
    #[arg(required_unless_present_any = ["tag_namespace", "tag_task"], conflicts_with_all = ["tag_namespace", "tag_task"])]
    queue: Option<String>,
    /// The consumer group [default: that of those who name none]
    #[arg(long)]
    group: Option<String>,
    /// Only this partition
    #[arg(long)]
    partition: Option<String>,
    /// At most so many messages
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    most: u32,
    /// Of at most so many partitions
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    partitions: u32,
    /// Wait so long until there is something, such as 30s
    #[arg(long, value_name = "TIME", value_parser = span::parse)]
    pub(crate) wait: Option<Duration>,
    /// How long they are leased [default: as the queue says]
    #[arg(long, value_name = "TIME", value_parser = span::parse)]
    lease: Option<Duration>,
    /// They are done as soon as they are popped: there is nothing to ack
    #[arg(long)]
    auto_ack: bool,
    /// Where a new group begins: all, new, or a moment such as 2030-01-31T09:00:00Z
    #[arg(long, value_name = "WHERE", default_value = "all", value_parser = start)]
    start: Start,
    /// Any queue with this tag
    #[arg(long, value_name = "TAG")]
    tag_namespace: Option<String>,
    /// Any queue with this second tag
    #[arg(long, value_name = "TAG")]
    tag_task: Option<String>,
}

impl Args {
    fn pop(&self) -> Result<Pop, bugle::Error> {
        let mut pop = match &self.queue {
            Some(queue) => Pop::new(queue)?,
            None => Pop::tagged(Tags { namespace: self.tag_namespace.clone(), task: self.tag_task.clone() })?,
        };
        pop = pop.most(self.most)?.partitions(self.partitions)?.auto_ack(self.auto_ack).start(self.start);
        if let Some(partition) = &self.partition {
            pop = pop.partition(partition)?;
        }
        if let Some(group) = &self.group {
            pop = pop.group(group)?;
        }
        match self.lease {
            Some(lease) => pop.lease(lease),
            None => Ok(pop),
        }
    }
}

/// Where a new group begins.
pub(super) fn start(text: &str) -> Result<Start, String> {
    match text {
        "all" => Ok(Start::All),
        "new" => Ok(Start::New),
        _ => moment(text).map(Start::From),
    }
}

/// A moment as people write it.
pub(super) fn moment(text: &str) -> Result<DateTime<Utc>, String> {
    DateTime::parse_from_rfc3339(text)
        .map(|at| at.to_utc())
        .map_err(|error| format!("{error}; write it like 2030-01-31T09:00:00Z"))
}

pub(crate) async fn run(args: &Args, place: &Place, output: Output) -> Result<Exit, Failure> {
    let pop = args.pop()?;
    let broker = place.bugle(2).await?.broker();
    let popped = match args.wait {
        Some(wait) => broker.pop_within(&pop, wait).await?,
        None => broker.pop(&pop).await?,
    };
    let Some(popped) = popped else { return Err(Failure::nothing("there is no message to be had")) };
    if output.is_json() {
        output.json(&as_json(&popped))?;
    } else {
        output.text(&table(&popped, output).render())?;
    }
    Ok(Exit::Ok)
}

fn as_json(popped: &Popped) -> Value {
    let messages: Vec<Value> = popped
        .messages
        .iter()
        .zip(popped.receipts())
        .map(|(message, receipt)| {
            let mut value = message_json(message);
            if !popped.auto_ack {
                value["receipt"] = json!(receipt.to_string());
            }
            value
        })
        .collect();
    json!({
        "queue": popped.queue.as_str(),
        "group": popped.group.as_str(),
        "lease": (!popped.auto_ack).then_some(popped.token),
        "messages": messages,
    })
}

/// A message, for a program.
pub(super) fn message_json(message: &Delivered) -> Value {
    json!({
        "id": message.id,
        "key": message.key,
        "trace": message.trace,
        "sub": message.sub,
        "at": message.at,
        "partition": &*message.partition_name,
        "partition_id": message.partition.uuid(),
        "seq": message.seq,
        "n": message.n,
        "tries": message.tries,
        "until": message.until,
        "payload": payload(&message.payload),
    })
}

/// A payload as it was pushed: what is in it is nobody's business here.
pub(super) fn payload(text: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(text.to_owned()).ok()
}

fn table(popped: &Popped, output: Output) -> Table {
    let left = |name| (name, Align::Left);
    let mut table = Table::new(&[
        left("partition"),
        ("n", Align::Right),
        left("pushed"),
        left("receipt"),
        left("payload"),
    ])
    .uncut();
    for (message, receipt) in popped.messages.iter().zip(popped.receipts()) {
        table.row([
            message.partition_name.to_string(),
            message.n.to_string(),
            output.moment(message.at),
            if popped.auto_ack { "-".to_owned() } else { receipt.to_string() },
            message.payload.clone(),
        ]);
    }
    table
}
