//! `bugle queue mode`.

use super::missing;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::span;
use bugle::{Bugle, Mode};
use std::time::Duration;

pub(super) const MODES: &str = "\
Modes:
  hybrid             by rings and timers; the heartbeat looks as well (the default)
  event_driven_only  by rings and timers alone: no fallback look
  polling_only       by the clock alone: no rings, no locks, a look every poll interval
  shadow             holds its place and counts the rings, but is served by polls

Example:
  bugle queue mode mail polling_only --poll 500ms";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The queue
    queue: String,
    /// The mode; left out: say what it is
    mode: Option<Mode>,
    /// How often to look, where the mode polls [default: as each node's `poll_interval` says]
    #[arg(long, value_name = "TIME", value_parser = span::parse, requires = "mode")]
    poll: Option<Duration>,
}

pub(super) async fn run(args: &Args, bugle: &Bugle, output: Output) -> Result<Exit, Failure> {
    if let Some(mode) = args.mode {
        bugle.set_mode(&args.queue, mode, args.poll).await?;
    }
    let mode = match bugle.find_queue(&args.queue).await? {
        Some(row) => row.mode,
        None => bugle.broker().show_queue(&args.queue).await?.ok_or_else(|| missing(&args.queue))?.0.mode,
    };
    if output.is_json() {
        output.json(&serde_json::json!({ "queue": args.queue, "mode": mode }))?;
    } else {
        output.line(&format!("{}: {mode}", args.queue))?;
    }
    Ok(Exit::Ok)
}
