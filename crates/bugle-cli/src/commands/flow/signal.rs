//! `bugle flow signal`.

use super::{by, on_flow};
use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::payloads;

/// Send a signal: one step that waits for its key gets it, now or when it begins to wait
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle flow signal approval:42 '{\"by\": \"Ada\"}'
  bugle flow signal approval:42 @answer.json

What is sent becomes the output of the step. `bugle flow why RUN` says which key a step waits for. A signal that nobody waits
for is kept until somebody does.")]
pub(super) struct Args {
    /// The key that the step waits for
    key: String,
    /// What goes with it, any JSON; @FILE reads it from a file, `-` from standard input
    #[arg(default_value = "null", hide_default_value = true, allow_negative_numbers = true)]
    payload: String,
    /// Who sends it, for the log [default: the name of the user who types this]
    #[arg(long, value_name = "NAME", default_value_t = by::user_name(), hide_default_value = true)]
    actor: String,
}

pub(super) async fn run(args: &Args, global: &Global, output: Output) -> Result<Exit, Failure> {
    let payload = payloads::value("payload", &args.payload)?;
    on_flow(global, async |flow| {
        flow.signal(&args.key, &payload, Some(&args.actor)).await?;
        if output.is_json() {
            output.json(&serde_json::json!({ "key": args.key, "sent": true }))?;
        } else {
            output.line("sent; whoever waits for it first gets it")?;
        }
        Ok(Exit::Ok)
    })
    .await
}
