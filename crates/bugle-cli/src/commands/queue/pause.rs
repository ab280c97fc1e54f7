//! `bugle queue pause` and `bugle queue resume`.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use bugle::Bugle;
use serde_json::json;

pub(super) const PAUSE: &str = "\
From the moment that this command has ended no job of the queue is handed out, on any node. Jobs that workers hold go on, and
their acks count. Jobs may be enqueued meanwhile. Pausing what is paused is no error.

Example:
  bugle queue pause mail && bugle queue show mail      who is still at it?";

pub(super) const RESUME: &str = "\
Whoever waits for the queue is woken at once, on every node. Resuming what is not paused is no error.

Example:
  bugle queue resume mail";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The queue
    queue: String,
}

pub(super) async fn pause(args: &Args, bugle: &Bugle, output: Output) -> Result<Exit, Failure> {
    let changed = bugle.pause(&args.queue).await?;
    let told = if changed {
        let held = bugle.find_queue(&args.queue).await?.map_or(0, |queue| queue.leased);
        match held {
            0 => "paused; no worker holds a job of it".to_owned(),
            1 => "paused; 1 job is still in a worker's hands and goes on".to_owned(),
            _ => format!("paused; {held} jobs are still in workers' hands and go on"),
        }
    } else {
        "was paused already".to_owned()
    };
    tell(args, true, changed, &told, output)
}

pub(super) async fn resume(args: &Args, bugle: &Bugle, output: Output) -> Result<Exit, Failure> {
    let changed = bugle.resume(&args.queue).await?;
    tell(args, false, changed, if changed { "resumed" } else { "was not paused" }, output)
}

fn tell(args: &Args, paused: bool, changed: bool, told: &str, output: Output) -> Result<Exit, Failure> {
    if output.is_json() {
        let answer = json!({ "queue": args.queue, "paused": paused, "changed": changed, "result": told });
        output.json(&answer)?;
    } else {
        output.line(&format!("{}: {told}", args.queue))?;
    }
    Ok(Exit::Ok) // it is as it was asked to be
}
