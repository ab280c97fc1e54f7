//! `bugle queue ls`.

use super::messages;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use bugle::Bugle;
use bugle::broker::operate::Tags;
use bugle::jobs::inspect::QueueRow;
use serde_json::{Value, json};

pub(super) const EXAMPLES: &str = "\
WAITS is how long the job has been due that is next in line: how far the queue lags. The counts come from maintained
counters and cost the same at ten jobs and at ten million. PENDING are messages that the group furthest behind has not done.

Examples:
  bugle queue ls
  bugle queue ls --output json | jq '.[] | select(.dead > 0)'";

pub(super) async fn run(bugle: &Bugle, output: Output) -> Result<Exit, Failure> {
    let queues = bugle.list_queues().await?;
    let of_messages = bugle.broker().list_queues(&Tags::default()).await?;
    if output.is_json() {
        let jobs = queues.iter().map(|row| {
            let mut value = json!(row);
            value["holds"] = json!("jobs");
            value
        });
        let all: Vec<Value> = jobs.chain(of_messages.iter().map(messages::as_json)).collect();
        output.json(&all)?;
        return Ok(Exit::Ok);
    }
    if !queues.is_empty() || of_messages.is_empty() {
        output.text(&table(&queues, output).render())?;
    }
    if !of_messages.is_empty() {
        let apart = if queues.is_empty() { "" } else { "\n" };
        output.text(&format!("{apart}{}", messages::table(&of_messages).render()))?;
    }
    Ok(Exit::Ok)
}

fn table(queues: &[QueueRow], output: Output) -> Table {
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
    for q in queues {
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
}
