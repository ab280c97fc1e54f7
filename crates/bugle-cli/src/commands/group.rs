//! `bugle group`: consumer groups, where they are, and how they are moved.

use super::pop::moment;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::place::Place;
use bugle::broker::Broker;
use bugle::broker::operate::{GroupRow, LagRow, Seek};
use serde_json::json;

const LS: &str = "\
LAG is how many messages the group has not done, exactly; BEHIND in how many partitions; WAITS how long the oldest of them does.

Examples:
  bugle group ls
  bugle group ls orders --output json | jq '.[] | select(.lag > 1000)'";

const SEEK: &str = "\
What the group has leased is lost to it: whoever holds it cannot ack it any more. A group that is not there is made.

Examples:
  bugle group seek orders mailer beginning                     everything again
  bugle group seek orders mailer end                           only what comes from now on
  bugle group seek orders mailer 2030-01-31T09:00:00Z          what was pushed then or later
  bugle group seek orders mailer end --partition customer-7    in one partition alone";

/// Consumer groups.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List consumer groups and how far each is behind
    #[command(after_help = LS)]
    Ls {
        /// Only those of this queue
        queue: Option<String>,
    },
    /// Show where the groups of a queue are, partition by partition
    #[command(after_help = "Example:\n  bugle group lag orders mailer")]
    Lag {
        /// The queue
        queue: String,
        /// Only this group
        group: Option<String>,
    },
    /// Move a group to the beginning, the end, or a moment
    #[command(after_help = SEEK)]
    Seek {
        /// The queue
        queue: String,
        /// The group
        group: String,
        /// beginning, end, or a moment such as 2030-01-31T09:00:00Z
        #[arg(value_parser = place_of)]
        to: Seek,
        /// In this partition alone; only to its end
        #[arg(long)]
        partition: Option<String>,
    },
    /// Delete a group: where it was is forgotten, its dead letters stay
    #[command(after_help = "Example:\n  bugle group rm orders mailer --yes")]
    Rm {
        /// The queue
        queue: String,
        /// The group
        group: String,
        /// Do it; without this, only show what would be done
        #[arg(long, short)]
        yes: bool,
    },
}

fn place_of(text: &str) -> Result<Seek, String> {
    match text {
        "beginning" => Ok(Seek::Beginning),
        "end" => Ok(Seek::End),
        _ => moment(text).map(Seek::Time).map_err(|fault| format!("{fault}, or beginning, or end")),
    }
}

pub(crate) async fn run(command: &Command, place: &Place, output: Output) -> Result<Exit, Failure> {
    let bugle = place.bugle(2).await?;
    let broker = bugle.broker();
    match command {
        Command::Ls { queue } => {
            if let Some(queue) = queue {
                super::queue::messages(&bugle, queue).await?;
            }
            let groups = broker.list_groups(queue.as_deref()).await?;
            output.rows(&groups, || groups_table(&groups, output))?;
            Ok(Exit::Ok)
        }
        Command::Lag { queue, group } => {
            super::queue::messages(&bugle, queue).await?;
            let lag = broker.lag(queue, group.as_deref()).await?;
            if let (true, Some(group)) = (lag.is_empty(), group) {
                find(&broker, queue, group).await?;
            }
            output.rows(&lag, || lag_table(&lag, output))?;
            Ok(Exit::Ok)
        }
        Command::Seek { queue, group, to, partition } => {
            super::queue::messages(&bugle, queue).await?;
            seek(&broker, queue, group, *to, partition.as_deref(), output).await
        }
        Command::Rm { queue, group, yes } => {
            super::queue::messages(&bugle, queue).await?;
            remove(&broker, queue, group, *yes, output).await
        }
    }
}

/// A group that must be there.
async fn find(broker: &Broker, queue: &str, group: &str) -> Result<GroupRow, Failure> {
    let groups = broker.list_groups(Some(queue)).await?;
    groups.into_iter().find(|row| row.name == group).ok_or_else(|| {
        Failure::nothing(format!(
            "queue {queue:?} has no group {group:?}; `bugle group ls {queue}` lists those it has"
        ))
    })
}

async fn seek(
    broker: &Broker,
    queue: &str,
    group: &str,
    to: Seek,
    partition: Option<&str>,
    output: Output,
) -> Result<Exit, Failure> {
    match partition {
        None => drop(broker.seek(queue, group, to).await?),
        Some(_) if to != Seek::End => {
            return Err(Failure::user(
                "in one partition a group can only be moved to the end; leave out --partition",
            ));
        }
        Some(partition) => {
            if broker.seek_partition(queue, group, partition).await?.is_none() {
                find(broker, queue, group).await?;
                return Err(Failure::nothing(format!("queue {queue:?} has no partition {partition:?}")));
            }
        }
    }
    let row = find(broker, queue, group).await?;
    if output.is_json() {
        output.json(&row)?;
    } else {
        output.line(&format!("{group}: moved, {} messages are before it", row.lag))?;
    }
    Ok(Exit::Ok)
}

async fn remove(
    broker: &Broker,
    queue: &str,
    group: &str,
    yes: bool,
    output: Output,
) -> Result<Exit, Failure> {
    let row = find(broker, queue, group).await?;
    let removed = yes && broker.delete_group(queue, group).await?;
    if output.is_json() {
        output.json(&json!({ "queue": queue, "group": group, "done": removed, "lag": row.lag }))?;
    } else if removed {
        output.line(&format!("{group}: deleted"))?;
    } else {
        output.line(&format!(
            "{group} would be deleted, with {} messages that it has not done: add --yes to do it",
            row.lag
        ))?;
    }
    Ok(Exit::Ok)
}

fn groups_table(groups: &[GroupRow], output: Output) -> Table {
    let (left, right) = (|name| (name, Align::Left), |name| (name, Align::Right));
    let mut table = Table::new(&[
        left("queue"),
        left("group"),
        right("lag"),
        right("partitions"),
        right("behind"),
        left("waits"),
        left("began"),
        left("made"),
    ]);
    for group in groups {
        table.row([
            group.queue.clone(),
            group.name.clone(),
            group.lag.to_string(),
            group.partitions.to_string(),
            group.partitions_behind.to_string(),
            output.since_or_dash(group.first_at),
            group.start_at.map_or_else(|| group.mode.clone(), |at| output.moment(at)),
            output.moment(group.created_at),
        ]);
    }
    table
}

fn lag_table(rows: &[LagRow], output: Output) -> Table {
    let (left, right) = (|name| (name, Align::Left), |name| (name, Align::Right));
    let mut table = Table::new(&[
        left("group"),
        left("partition"),
        right("lag"),
        right("leased"),
        left("waits"),
        left("lease ends"),
        right("tries"),
    ]);
    for row in rows {
        table.row([
            row.group_name.clone(),
            row.partition.clone(),
            row.lag.to_string(),
            row.leased.to_string(),
            output.since_or_dash(row.first_at),
            output.moment_or_dash(row.until),
            row.tries.to_string(),
        ]);
    }
    table
}
