//! `bugle ack`: what shall become of messages that were popped.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::place::Place;
use bugle::broker::{Receipt, Settle, Settlement, Verdict};
use serde_json::{Value, json};

/// Ack messages, or say that they failed
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A receipt is what `bugle pop` printed for a message. An ack is for the message and all before it in its claim. Exit code 4 when
one was not accepted: its lease is somebody else's by now.

Examples:
  bugle ack 3.17.01997b1e-....mailer
  bugle ack 3.17.01997b1e-....mailer --fail --error 'no such customer'
  bugle pop orders --most 10 | jq -r '.messages[].receipt' | xargs bugle ack")]
pub(crate) struct Args {
    /// The receipts
    #[arg(required = true, value_name = "RECEIPT")]
    receipts: Vec<Receipt>,
    #[command(flatten)]
    how: How,
    /// Why, for whoever looks at the dead letters
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
}

/// Instead of an ack.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
#[allow(clippy::struct_excessive_bools)] // switches, of which one is given
struct How {
    /// It failed: it and all behind it come again, or it is dead when the queue's retries are used up
    #[arg(long)]
    fail: bool,
    /// It and all behind it come again, counted as a try
    #[arg(long)]
    retry: bool,
    /// It is dead
    #[arg(long)]
    dead: bool,
    /// The whole claim is given back, not counted as a try
    #[arg(long)]
    release: bool,
}

impl How {
    fn verdict(&self) -> Verdict {
        match self {
            Self { fail: true, .. } => Verdict::Fail,
            Self { retry: true, .. } => Verdict::Retry,
            Self { dead: true, .. } => Verdict::Dead,
            Self { release: true, .. } => Verdict::Release,
            _ => Verdict::Ack,
        }
    }
}

pub(crate) async fn run(args: &Args, place: &Place, output: Output) -> Result<Exit, Failure> {
    let broker = place.bugle(2).await?.broker();
    let verdict = |receipt: &Receipt| {
        let settle = receipt.settle(args.how.verdict());
        match &args.error {
            Some(error) => settle.error(error),
            None => settle,
        }
    };
    let verdicts: Vec<Settle> = args.receipts.iter().map(verdict).collect();
    let settled = broker.settle(&verdicts).await?;
    let answers: Vec<(String, &'static str, bool)> = args
        .receipts
        .iter()
        .zip(&settled)
        .map(|(receipt, settled)| (receipt.to_string(), told(settled.settlement), settled.freed))
        .collect();
    let value: Vec<Value> = answers
        .iter()
        .map(|(receipt, result, freed)| json!({ "receipt": receipt, "result": result, "freed": freed }))
        .collect();
    output.rows(&value, || {
        let mut table = Table::new(&[("receipt", Align::Left), ("result", Align::Left)]).uncut();
        for (receipt, result, _) in &answers {
            table.row([receipt.clone(), (*result).to_owned()]);
        }
        table
    })?;
    let is_refused = |s: Settlement| matches!(s, Settlement::Lost | Settlement::Missing | Settlement::Passed);
    let refused = settled.iter().any(|settled| is_refused(settled.settlement));
    Ok(if refused { Exit::Nothing } else { Exit::Ok })
}

fn told(settlement: Settlement) -> &'static str {
    match settlement {
        Settlement::Acked => "acked",
        Settlement::Dead => "dead",
        Settlement::Retried => "retried",
        Settlement::Released => "released",
        Settlement::Returned => "returned",
        Settlement::Passed => "passed",
        Settlement::Lost => "lost",
        Settlement::Missing => "missing",
    }
}
