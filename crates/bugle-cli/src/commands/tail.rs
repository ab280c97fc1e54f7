//! `bugle tail`: messages as they come.

use super::pop::{message_json, moment};
use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::output::Output;
use crate::place::Place;
use bugle::broker::{Broker, Delivered, Pop, Start};
use bugle::pg::embedded::Stay;
use chrono::{DateTime, Utc};
use std::time::Duration;

/// One wait: how long does not matter, because the next one follows.
const WAIT: Duration = Duration::from_hours(1);
/// Messages that one pop brings.
const MOST: u32 = 100;

/// Print messages as they are pushed, until Ctrl-C; nobody else misses them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
It reads as a group of its own, which is deleted at the end. (After a kill -9 it is left: `bugle group ls`, `bugle group rm`.)

Examples:
  bugle tail orders
  bugle tail orders --since 2030-01-31T09:00:00Z --json | jq .payload
  bugle tail orders --all --limit 10")]
pub(crate) struct Args {
    /// The queue; made when it is not there
    queue: String,
    /// Only this partition
    #[arg(long)]
    partition: Option<String>,
    /// Those that are there already as well
    #[arg(long, conflicts_with = "since")]
    all: bool,
    /// Those that were pushed at this moment or later
    #[arg(long, value_name = "MOMENT", value_parser = moment)]
    since: Option<DateTime<Utc>>,
    /// End after so many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

pub(crate) async fn run(args: &Args, global: &Global, output: Output) -> Result<Exit, Failure> {
    let mut interrupts = Interrupts::catch().map_err(|e| Failure::system("catch signals", &e))?;
    let place = tokio::select! {
        place = Place::open(global, Stay::Long) => place?,
        signal = interrupts.next() => return Err(Failure::interrupted(signal)),
    };
    let tailed = tail(args, &place, &mut interrupts, output).await;
    let closed = place.close(false).await;
    tailed?;
    closed.map(|()| Exit::Ok)
}

async fn tail(
    args: &Args,
    place: &Place,
    interrupts: &mut Interrupts,
    output: Output,
) -> Result<(), Failure> {
    let broker = place.bugle(2).await?.broker();
    let group = format!("bugle-tail-{:016x}", rand::random::<u64>());
    let start = match args.since {
        Some(at) => Start::From(at),
        None if args.all => Start::All,
        None => Start::New,
    };
    let mut pop = Pop::new(&args.queue)?.group(&group)?.most(MOST)?.auto_ack(true).start(start);
    if let Some(partition) = &args.partition {
        pop = pop.partition(partition)?;
    }
    let read = tokio::select! {
        read = print(args, &broker, &pop, output) => read,
        _ = interrupts.next() => Ok(()), // that is how it ends
    };
    broker.delete_group(&args.queue, &group).await?;
    read
}

async fn print(args: &Args, broker: &Broker, pop: &Pop, output: Output) -> Result<(), Failure> {
    let mut left = args.limit;
    while left != Some(0) {
        let Some(popped) = broker.pop_within(pop, WAIT).await? else { continue };
        let most = left.and_then(|left| usize::try_from(left).ok()).unwrap_or(usize::MAX);
        for message in popped.messages.iter().take(most) {
            line(message, output)?;
            left = left.map(|left| left - 1);
        }
    }
    Ok(())
}

fn line(message: &Delivered, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        output.line(&message_json(message).to_string())?;
    } else {
        let at = output.moment(message.at);
        output.line(&format!(
            "{at}  {}  {}",
            crate::output::clean(&message.partition_name),
            message.payload
        ))?;
    }
    Ok(())
}
