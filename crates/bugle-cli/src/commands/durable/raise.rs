//! `bugle durable raise`.

use super::waits::waits_for;
use super::{Desk, has_ended, not_written};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use std::io::Read as _;

/// Send an external event to an instance
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle durable raise order-42 approval '{\"by\": \"Ada\"}'
  bugle durable raise order-42 lines --queue - < line.json

An event wakes an instance that waits for it by this name (`schedule_wait`) and is dropped when it does not wait for it at that
moment; with --queue it is kept until the instance takes it (`dequeue_event`). The payload is passed on as it is. Exit code 4
when there is no such instance, or it has ended.")]
pub(crate) struct Args {
    /// The instance
    id: String,
    /// The event's name, or the queue's
    event: String,
    /// What goes with it; `-` reads it from standard input
    #[arg(default_value = "", allow_hyphen_values = true)]
    payload: String,
    /// Put it into the instance's queue of this name
    #[arg(long)]
    queue: bool,
}

/// The payload: what is wrong with it needs no database to be told.
pub(crate) fn read(args: &Args) -> Result<String, Failure> {
    if args.payload != "-" {
        return Ok(args.payload.clone());
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| {
        Failure::user(format!("payload cannot be read from standard input: {error}; give it text in UTF-8"))
    })?;
    Ok(text)
}

pub(super) async fn run(args: &Args, payload: String, desk: &Desk, output: Output) -> Result<Exit, Failure> {
    let Args { id, event, queue, .. } = args;
    let found = desk.find(id).await?;
    if has_ended(&found.status) {
        return Err(Failure::nothing(format!(
            "instance {id:?} has ended ({}): nobody would get the event; `bugle durable show` tells how it ended",
            found.status
        )));
    }
    // A history that cannot be read keeps nobody from raising an event.
    let history = desk.client.read_execution_history(id, found.execution).await.unwrap_or_default();
    let waits = waits_for(&history).iter().any(|wait| wait.is_for_event(event, *queue));
    if *queue {
        desk.client.enqueue_event(id, event, payload).await.map_err(not_written)?;
    } else {
        desk.client.raise_event(id, event, payload).await.map_err(not_written)?;
    }
    if output.is_json() {
        let answer = serde_json::json!({ "id": id, "event": event, "queue": queue, "was_waited_for": waits });
        output.json(&answer)?;
    } else {
        output.line(said(waits, *queue))?;
    }
    Ok(Exit::Ok)
}

fn said(waits: bool, queue: bool) -> &'static str {
    match (waits, queue) {
        (true, _) => "raised; the instance waits for it",
        (false, true) => "in the queue; the instance does not wait for it at this moment",
        (false, false) => {
            "raised, but the instance does not wait for it at this moment: it is dropped unless it does by its next turn \
             (`bugle durable show` tells what it waits for)"
        }
    }
}
