//! `bugle queue ls`.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use bugle::Bugle;

pub(super) const EXAMPLES: &str = "\
WAITS is how long the job has been due that is next in line: how far the queue lags. The counts come from maintained
counters and cost the same at ten jobs and at ten million.

Examples:
  bugle queue ls
  bugle queue ls --output json | jq '.[] | select(.dead > 0)'";

pub(super) async fn run(bugle: &Bugle, output: Output) -> Result<Exit, Failure> {
    let queues = bugle.list_queues().await?;
    output.rows(&queues, || {
        let count = |name| (name, Align::Right);
        let mut table = Table::new(&[
            ("queue", Align::Left),
            ("mode", Align::Left),
            ("paused", Align::Left),
            count("scheduled"),
            count("ready"),
            ("waits", Align::Left),
            count("leased"),
            count("done"),
            count("dead"),
            count("cancelled"),
        ]);
        for q in &queues {
            table.row([
                q.name.clone(),
                q.mode.clone(),
                if q.paused { "PAUSED" } else { "-" }.to_owned(),
                q.scheduled.to_string(),
                q.ready.to_string(),
                output.since_or_dash(q.oldest_ready),
                q.leased.to_string(),
                q.done.to_string(),
                q.dead.to_string(),
                q.cancelled.to_string(),
            ]);
        }
        table
    })?;
    Ok(Exit::Ok)
}
