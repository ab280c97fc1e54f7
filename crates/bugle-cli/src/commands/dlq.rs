//! `bugle dlq`: dead letters, the messages that are dead for a group.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table, clean};
use crate::place::Place;
use bugle::Bugle;
use bugle::broker::Broker;
use bugle::broker::operate::DeadMessage;
use serde_json::json;
use std::fmt::Write as _;

/// Dead letters that a preview or a search reads.
const READ_MAX: u32 = 100_000;

const REDRIVE: &str = "\
Each comes again for the group that it was dead for, and for no other, at the end of its partition. Exit code 4 when there is
none.

Examples:
  bugle dlq redrive orders                                  shows how many
  bugle dlq redrive orders --group mailer --yes             does it
  bugle dlq redrive orders --key order-42 --yes             a single one";

const PURGE: &str = "\
They cannot be had back. Exit code 4 when there is none.

Examples:
  bugle dlq purge orders                     shows how many
  bugle dlq purge orders --group mailer --yes";

/// Dead letters.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List dead letters with their errors, the last to die first
    #[command(
        after_help = "Examples:\n  bugle dlq ls orders --group mailer\n  bugle dlq ls --json | jq -r '.[].error' | sort | uniq -c"
    )]
    Ls {
        /// Only those of this queue
        queue: Option<String>,
        /// Only those of this group
        #[arg(long)]
        group: Option<String>,
        /// At most this many
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=i64::from(READ_MAX)))]
        limit: u32,
    },
    /// Show a dead letter with its payload
    #[command(after_help = "Example:\n  bugle dlq show orders order-42")]
    Show {
        /// The queue
        queue: String,
        /// The message's key, or its id
        key: String,
        /// Of this group
        #[arg(long)]
        group: Option<String>,
    },
    /// Put dead letters back; shows how many, unless --yes
    #[command(after_help = REDRIVE)]
    Redrive(Change),
    /// Delete dead letters for good; shows how many, unless --yes
    #[command(after_help = PURGE)]
    Purge(Change),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Change {
    /// The queue
    queue: String,
    /// Only those of this group
    #[arg(long)]
    group: Option<String>,
    /// Only those with this key, or id where there is none
    #[arg(long)]
    key: Option<String>,
    /// Do it; without this, only show how many
    #[arg(long, short)]
    yes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Redrive,
    Purge,
}

pub(crate) async fn run(command: &Command, place: &Place, output: Output) -> Result<Exit, Failure> {
    let bugle = place.bugle(2).await?;
    let broker = bugle.broker();
    match command {
        Command::Ls { queue, group, limit } => {
            if let Some(queue) = queue {
                super::queue::messages(&bugle, queue).await?;
            }
            let (letters, _) = broker.list_dead(queue.as_deref(), group.as_deref(), *limit, 0).await?;
            output.rows(&letters, || table(&letters, output))?;
            Ok(Exit::Ok)
        }
        Command::Show { queue, key, group } => {
            super::queue::messages(&bugle, queue).await?;
            let letters = find(&broker, queue, group.as_deref(), Some(key)).await?;
            if letters.is_empty() {
                return Err(Failure::nothing(format!(
                    "queue {queue:?} has no dead letter {key:?}; `bugle dlq ls {queue}` lists those it has"
                )));
            }
            if output.is_json() {
                output.json(&letters)?;
            } else {
                output.text(
                    &letters.iter().map(|letter| sheet(letter, output)).collect::<Vec<_>>().join("\n"),
                )?;
            }
            Ok(Exit::Ok)
        }
        Command::Redrive(args) => change(Act::Redrive, args, &bugle, output).await,
        Command::Purge(args) => change(Act::Purge, args, &bugle, output).await,
    }
}

async fn find(
    broker: &Broker,
    queue: &str,
    group: Option<&str>,
    key: Option<&str>,
) -> Result<Vec<DeadMessage>, Failure> {
    let (mut letters, _) = broker.list_dead(Some(queue), group, READ_MAX, 0).await?;
    letters.retain(|letter| key.is_none_or(|key| name(letter) == key || letter.id.to_string() == key));
    Ok(letters)
}

/// What it is called: by its key, or its id.
fn name(letter: &DeadMessage) -> String {
    letter.key.clone().unwrap_or_else(|| letter.id.to_string())
}

async fn change(act: Act, args: &Change, bugle: &Bugle, output: Output) -> Result<Exit, Failure> {
    let broker = bugle.broker();
    super::queue::messages(bugle, &args.queue).await?;
    let (group, key) = (args.group.as_deref(), args.key.as_deref());
    let count = match (args.yes, act) {
        (true, Act::Redrive) => broker.redrive_dead(&args.queue, group, None, key).await?,
        (true, Act::Purge) => broker.purge_dead(&args.queue, group, None, key).await?,
        (false, _) if key.is_none() => {
            broker.list_dead(Some(&args.queue), group, 1, 0).await?.1.unsigned_abs()
        }
        (false, _) => u64::try_from(find(&broker, &args.queue, group, key).await?.len()).unwrap_or(u64::MAX),
    };
    let (verb, past) = if act == Act::Redrive { ("redrive", "redriven") } else { ("purge", "purged") };
    if output.is_json() {
        output.json(&json!({ "act": verb, "done": args.yes, "messages": count }))?;
    } else {
        output.line(&match (count, args.yes) {
            (0, _) => format!("nothing to {verb}: there are no such dead letters"),
            (_, true) => format!("{count} {past}"),
            (_, false) => format!("{count} would be {past}: add --yes to do it"),
        })?;
    }
    Ok(if count == 0 { Exit::Nothing } else { Exit::Ok })
}

fn table(letters: &[DeadMessage], output: Output) -> Table {
    let (left, right) = (|name| (name, Align::Left), |name| (name, Align::Right));
    let mut table = Table::new(&[
        left("queue"),
        left("partition"),
        left("group"),
        left("message"),
        right("tries"),
        left("died"),
        left("error"),
    ]);
    for letter in letters {
        table.row([
            letter.queue.clone(),
            letter.partition.clone(),
            letter.group_name.clone(),
            name(letter),
            letter.tries.to_string(),
            output.moment(letter.died_at),
            letter.error.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table
}

fn sheet(letter: &DeadMessage, output: Output) -> String {
    let mut text = String::new();
    let lines = [
        ("message", name(letter)),
        ("id", letter.id.to_string()),
        ("queue", letter.queue.clone()),
        ("partition", letter.partition.clone()),
        ("group", letter.group_name.clone()),
        ("pushed", output.moment(letter.at)),
        ("died", output.moment(letter.died_at)),
        ("tries", letter.tries.to_string()),
        ("error", letter.error.clone().unwrap_or_else(|| "-".to_owned())),
        ("payload", letter.payload.clone()),
    ];
    for (name, value) in lines {
        let _ = writeln!(text, "{name:<10} {}", clean(&value));
    }
    text
}
