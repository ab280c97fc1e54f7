//! `bugle queue`: looking at queues.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::place::Place;

/// Looking at queues.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the queues with how many jobs are in which state
    #[command(after_help = "Example:\n  bugle queue ls --output json | jq '.[] | select(.dead > 0)'")]
    Ls,
}

pub(crate) async fn list(place: &Place, output: Output) -> Result<Exit, Failure> {
    let queues = place.bugle(2).await?.list_queues().await?;
    output.rows(&queues, || {
        let count = |name| (name, Align::Right);
        let mut table = Table::new(&[
            ("queue", Align::Left),
            count("scheduled"),
            count("ready"),
            count("leased"),
            count("done"),
            count("dead"),
            count("cancelled"),
        ]);
        for q in &queues {
            let counts = [q.scheduled, q.ready, q.leased, q.done, q.dead, q.cancelled];
            table.row(std::iter::once(q.name.clone()).chain(counts.map(|n| n.to_string())));
        }
        table
    })?;
    Ok(Exit::Ok)
}
