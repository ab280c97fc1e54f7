//! `bugle flow start`.

use super::{by, on_flow, wait};
use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::{payloads, span};
use bugle::flow::{Flow, Start};
use serde_json::value::RawValue;
use std::time::Duration;

/// Start a run of a workflow, and print its number
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle flow start order --input '{\"items\": [\"tea\"]}'
  bugle flow start order --input @order.json --key 'order 7'      the same key again: the same run
  bugle flow start order --input - --wait --timeout 5m < order.json

With --wait the exit code is 0 when the run succeeded, 5 when it failed, 6 when it was cancelled, and 7 when it has not ended
in time; it goes on all the same.")]
pub(super) struct Args {
    /// The definition
    name: String,
    /// Another version than the newest
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    version: Option<i32>,
    /// What it is started with, any JSON; @FILE reads it from a file, `-` from standard input
    #[arg(
        long,
        value_name = "JSON",
        default_value = "null",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    input: String,
    /// Same key, same run: within the window a second one is not started, and the first one's number is printed
    #[arg(long)]
    key: Option<String>,
    /// How long the key stands for this run, also after its end [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = span::parse, allow_hyphen_values = true)]
    key_window: Option<Duration>,
    /// An object that is shown with the run; @FILE reads it from a file
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    tags: Option<String>,
    /// Who starts it, for the log [default: the name of the user who types this]
    #[arg(long, value_name = "NAME", default_value_t = by::user_name(), hide_default_value = true)]
    actor: String,
    /// Wait until the run has ended, and print what came of it
    #[arg(long)]
    wait: bool,
    /// Wait no longer than this, such as 30s or 5m
    #[arg(long, value_name = "TIME", value_parser = span::parse, requires = "wait", allow_hyphen_values = true)]
    timeout: Option<Duration>,
}

pub(super) async fn run(args: &Args, global: &Global, output: Output) -> Result<Exit, Failure> {
    let input = payloads::value("input", &args.input)?;
    let tags = args.tags.as_deref().map(|tags| payloads::value("tags", tags)).transpose()?;
    if args.wait {
        let begin = async |flow: &Flow| Ok(vec![start(args, flow, &input, tags)?.send().await?.id()]);
        return wait::for_all(global, args.timeout, output, begin).await;
    }
    on_flow(global, async |flow| {
        let id = start(args, flow, &input, tags)?.send().await?.id();
        if output.is_json() {
            output.json(&serde_json::json!({ "id": id }))?;
        } else {
            output.line(&id.to_string())?;
        }
        Ok(Exit::Ok)
    })
    .await
}

fn start<'a>(
    args: &'a Args,
    flow: &'a Flow,
    input: &RawValue,
    tags: Option<Box<RawValue>>,
) -> Result<Start<'a>, Failure> {
    let mut start = flow.start(&args.name, &input).actor(&args.actor);
    if let Some(key) = &args.key {
        start = start.key(key);
    }
    if let Some(window) = args.key_window {
        start = start.key_window(window);
    }
    if let Some(version) = args.version {
        start = start.version(version);
    }
    if let Some(tags) = tags {
        let tags = serde_json::from_str(tags.get());
        start = start.tags(tags.map_err(|error| Failure::user(format!("tags cannot be read: {error}")))?);
    }
    Ok(start)
}
