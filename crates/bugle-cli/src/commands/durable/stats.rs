//! `bugle durable stats`.

use super::{Desk, not_read};
use crate::commands::wake::{self, NodeRow};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::span;
use bugle_duroxide::{Depth, Stats};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Count instances and what waits for a turn or a worker, and list the nodes that listen
#[derive(Debug, clap::Args)]
#[command(after_help = "\
READY may be claimed now, LEASED is somebody's, LATER waits for a timer or for a retry. OLDEST says for how long the first of what
is ready has been so: where it grows, nobody works on it, or not fast enough. A node is a process that waits for work, of this
schema or of another one in the database; those with seats here are of this one (see `bugle wake status --help`). Everything is
counted anew: with millions of instances that takes seconds.

Example:
  bugle durable stats --json | jq '.turns.oldest_ms'")]
pub(crate) struct Args {}

pub(super) async fn run(desk: &Desk, output: Output) -> Result<Exit, Failure> {
    let stats = desk.provider.stats().await.map_err(not_read)?;
    let nodes = wake::find_nodes(desk.provider.pool(), desk.provider.schema()).await?;
    if output.is_json() {
        output.json(&as_json(&stats, &nodes))?;
        return Ok(Exit::Ok);
    }
    output.line(&in_words(&stats))?;
    output.text(&table(&stats).render())?;
    output.line("")?;
    if nodes.is_empty() {
        output.line("no node listens: no runtime runs here, or they poll")?;
    } else {
        output.text(&wake::node_table(&nodes, output).render())?;
    }
    Ok(Exit::Ok)
}

fn as_json(stats: &Stats, nodes: &[NodeRow]) -> Value {
    let depth = |depth: &Depth| {
        json!({
            "ready": depth.ready,
            "leased": depth.leased,
            "later": depth.later,
            "oldest_ms": depth.oldest.map(|oldest| u64::try_from(oldest.as_millis()).unwrap_or(u64::MAX)),
        })
    };
    json!({
        "instances": {
            "running": stats.instances.running,
            "completed": stats.instances.completed,
            "failed": stats.instances.failed,
            "continued_as_new": stats.instances.continued_as_new,
        },
        "turns": depth(&stats.turns),
        "work": depth(&stats.work),
        "unbegun": stats.unbegun,
        "messages": stats.messages,
        "sessions": stats.sessions,
        "nodes": nodes,
    })
}

fn in_words(stats: &Stats) -> String {
    let of = stats.instances;
    let mut text =
        format!("instances  {} running, {} completed, {} failed", of.running, of.completed, of.failed);
    if of.continued_as_new > 0 {
        let _ = write!(text, ", {} between two executions", of.continued_as_new);
    }
    let _ = write!(text, "\nmessages   {}", stats.messages);
    if stats.unbegun > 0 {
        let _ = write!(text, ", some to {} instances that nobody has started", stats.unbegun);
    }
    let _ = writeln!(text, "\nsessions   {}", stats.sessions);
    text
}

fn table(stats: &Stats) -> Table {
    let right = |name| (name, Align::Right);
    let mut table =
        Table::new(&[("", Align::Left), right("ready"), right("leased"), right("later"), right("oldest")]);
    for (kind, depth) in [("turns", &stats.turns), ("work", &stats.work)] {
        table.row([
            kind.to_owned(),
            depth.ready.to_string(),
            depth.leased.to_string(),
            depth.later.to_string(),
            depth.oldest.map_or_else(|| "-".to_owned(), span::short),
        ]);
    }
    table
}
