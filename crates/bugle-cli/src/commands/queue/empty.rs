//! `bugle queue clear` and `bugle queue rm`.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use bugle::Bugle;
use serde_json::json;

pub(super) const CLEAR: &str = "\
Everything that is in the queue now is invisible to all groups, at once. What is leased can still be settled; dead letters stay.

Example:
  bugle queue clear orders --yes";

pub(super) const RM: &str = "\
The queue goes with its messages, groups and dead letters, and cannot be had back. Queues of jobs cannot be removed.

Example:
  bugle queue rm orders --yes";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The queue
    queue: String,
    /// Do it; without this, only show what would be done
    #[arg(long, short)]
    yes: bool,
}

/// What is done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Clear,
    Remove,
}

pub(super) async fn run(act: Act, args: &Args, bugle: &Bugle, output: Output) -> Result<Exit, Failure> {
    super::messages(bugle, &args.queue).await?;
    let (broker, queue) = (bugle.broker(), args.queue.as_str());
    let Some((row, _)) = broker.show_queue(queue).await? else { return Err(super::missing(queue)) };
    if args.yes {
        match act {
            Act::Clear => broker.clear_queue(queue).await?,
            Act::Remove => broker.delete_queue(queue).await?,
        };
    }
    let (verb, past) = match act {
        Act::Clear => ("clear", "cleared"),
        Act::Remove => ("rm", "removed"),
    };
    if output.is_json() {
        let answer =
            json!({ "act": verb, "queue": queue, "done": args.yes, "messages": row.total, "dead": row.dead });
        output.json(&answer)?;
    } else if args.yes {
        output.line(&format!("{queue}: {past}"))?;
    } else {
        let of = format!("{} messages, {} dead letters, {} partitions", row.total, row.dead, row.partitions);
        output.line(&format!("{queue} would be {past} ({of}): add --yes to do it"))?;
    }
    Ok(Exit::Ok)
}
