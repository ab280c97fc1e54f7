//! `bugle queue`: looking at queues, and how their waiters are woken.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::place::Place;
use crate::span;
use bugle::Mode;
use std::time::Duration;

/// Looking at queues, and how their waiters are woken.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the queues with how many jobs are in which state
    #[command(after_help = "Example:\n  bugle queue ls --output json | jq '.[] | select(.dead > 0)'")]
    Ls,
    /// Set how the waiters of a queue are woken, on every node within a second
    #[command(after_help = MODES)]
    Mode {
        /// The queue
        queue: String,
        /// The mode; left out: say what it is
        mode: Option<Mode>,
        /// How often to look, where the mode polls [default: as each node's `poll_interval` says]
        #[arg(long, value_name = "TIME", value_parser = span::parse, requires = "mode")]
        poll: Option<Duration>,
    },
}

const MODES: &str = "\
Modes:
  hybrid             by rings and timers; the heartbeat looks as well (the default)
  event_driven_only  by rings and timers alone: no fallback look
  polling_only       by the clock alone: no rings, no locks, a look every poll interval
  shadow             holds its place and counts the rings, but is served by polls

Example:
  bugle queue mode mail polling_only --poll 500ms";

pub(crate) async fn run(command: &Command, place: &Place, output: Output) -> Result<Exit, Failure> {
    match command {
        Command::Ls => list(place, output).await,
        Command::Mode { queue, mode: None, .. } => show_mode(queue, place, output).await,
        Command::Mode { queue, mode: Some(mode), poll } => {
            place.bugle(2).await?.set_mode(queue, *mode, *poll).await?;
            show_mode(queue, place, output).await
        }
    }
}

async fn show_mode(queue: &str, place: &Place, output: Output) -> Result<Exit, Failure> {
    let queues = place.bugle(2).await?.list_queues().await?;
    let Some(row) = queues.iter().find(|row| row.name == queue) else {
        return Err(Failure::user(format!("queue {queue:?} does not exist; `bugle queue ls` lists them")));
    };
    if output.is_json() {
        output.json(&serde_json::json!({ "queue": row.name, "mode": row.mode }))?;
    } else {
        output.line(&format!("{}: {}", row.name, row.mode))?;
    }
    Ok(Exit::Ok)
}

async fn list(place: &Place, output: Output) -> Result<Exit, Failure> {
    let queues = place.bugle(2).await?.list_queues().await?;
    output.rows(&queues, || {
        let count = |name| (name, Align::Right);
        let mut table = Table::new(&[
            ("queue", Align::Left),
            ("mode", Align::Left),
            count("scheduled"),
            count("ready"),
            count("leased"),
            count("done"),
            count("dead"),
            count("cancelled"),
        ]);
        for q in &queues {
            let counts = [q.scheduled, q.ready, q.leased, q.done, q.dead, q.cancelled];
            table.row([q.name.clone(), q.mode.clone()].into_iter().chain(counts.map(|n| n.to_string())));
        }
        table
    })?;
    Ok(Exit::Ok)
}
