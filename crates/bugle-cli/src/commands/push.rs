//! `bugle push`: writing messages.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::payloads::{Input, Lines};
use crate::place::Place;
use bugle::broker::{Broker, Message, Pushed};
use bugle::name::{Key, PartitionName, QueueName};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Push a message, or many, and print the id
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle push orders '{\"order\": 42}' --partition customer-7
  bugle push orders '{\"order\": 42}' --key order-42               the same key again writes nothing
  bugle push orders - < order.json
  jq -c '.[]' orders.json | bugle push orders --file -           one message a line, a thousand a transaction")]
pub(crate) struct Args {
    /// The queue; made when it is not there
    #[arg(value_parser = QueueName::parse)]
    queue: QueueName,
    /// The payload, any JSON; `-` reads it from standard input
    #[arg(default_value = "null", allow_negative_numbers = true, conflicts_with = "file")]
    payload: String,
    /// The partition: messages of one are read in their order [default: Default]
    #[arg(long, value_parser = PartitionName::parse)]
    partition: Option<PartitionName>,
    /// Same key, same message: for a day at least a second one is not written to the partition, and the first one's id is printed
    #[arg(long, value_parser = Key::parse, conflicts_with = "file")]
    key: Option<Key>,
    /// Read many payloads, one JSON value a line (`-` is standard input)
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Args {
    /// Reads the one payload, or opens the file of many.
    pub(crate) fn input(&self) -> Result<Input, Failure> {
        Input::read(&self.payload, self.file.as_deref(), Ok)
    }

    fn message(&self, payload: Box<RawValue>) -> Result<Message, bugle::Error> {
        let mut message = Message::new(self.queue.as_str(), payload)?;
        if let Some(partition) = &self.partition {
            message = message.partition(partition.as_str())?;
        }
        if let Some(key) = &self.key {
            message = message.key(key.as_str())?;
        }
        Ok(message)
    }
}

pub(crate) async fn run(args: &Args, input: Input, place: &Place, output: Output) -> Result<Exit, Failure> {
    let broker = place.bugle(2).await?.broker();
    match input {
        Input::One(payload) => {
            let pushed = push(&broker, vec![args.message(payload)?]).await?;
            for pushed in &pushed {
                if output.is_json() {
                    output.json(&as_json(pushed))?;
                } else {
                    output.line(&pushed.id.to_string())?;
                }
            }
        }
        Input::Lines(lines) => {
            let pushed = many(args, &broker, lines).await?;
            if output.is_json() {
                let messages: Vec<Value> = pushed.iter().map(as_json).collect();
                output.json(&json!({ "count": pushed.len(), "messages": messages }))?;
            } else {
                let ids: Vec<String> = pushed.iter().map(|pushed| pushed.id.to_string()).collect();
                output.line(&ids.join("\n"))?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn as_json(pushed: &Pushed) -> Value {
    json!({ "id": pushed.id, "partition_id": pushed.partition.uuid(), "seq": pushed.seq, "duplicate": pushed.seq.is_none() })
}

/// All of them, or the first that could not be pushed.
async fn push(broker: &Broker, messages: Vec<Message>) -> Result<Vec<Pushed>, Failure> {
    let mut pushed = Vec::with_capacity(messages.len());
    for answer in broker.push(messages).await? {
        pushed.push(answer.map_err(|error| told(error, pushed.len()))?);
    }
    Ok(pushed)
}

async fn many(args: &Args, broker: &Broker, mut lines: Lines) -> Result<Vec<Pushed>, Failure> {
    let progress = lines.progress();
    let mut all = Vec::new();
    loop {
        let batch;
        (batch, lines) = lines.batch().await.map_err(|failure| failure.after(&before(all.len())))?;
        if batch.is_empty() {
            break;
        }
        let messages = batch.into_iter().map(|payload| args.message(payload));
        let messages = messages.collect::<Result<Vec<_>, _>>().map_err(|error| told(error, all.len()))?;
        all.extend(push(broker, messages).await.map_err(|failure| failure.after(&before(all.len())))?);
        progress.set_message(format!("{} messages", all.len()));
    }
    progress.finish_and_clear();
    if all.is_empty() {
        return Err(Failure::nothing("the file holds no payload; nothing was written"));
    }
    Ok(all)
}

fn told(error: bugle::Error, pushed: usize) -> Failure {
    Failure::from(error).after(&before(pushed))
}

fn before(pushed: usize) -> String {
    match pushed {
        0 => "nothing was written before".to_owned(),
        n => format!("{n} messages were written before"),
    }
}
