//! `bugle durable cancel`.

use super::{Desk, has_ended, not_written};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use serde::Serialize;

/// Ask instances to end, and those below them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  bugle durable cancel order-42 --reason 'the customer has changed her mind'

An instance ends as failed at its next turn, which this causes; what its orchestration would have done then is not done, so
nothing is compensated. Activities under way are told, and their results ignored. Exit code 4 when one of them has ended
already or does not exist.")]
pub(crate) struct Args {
    /// The instances
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Why, for whoever reads the history
    #[arg(long, default_value = "cancelled by hand")]
    reason: String,
}

/// What became of one of them.
#[derive(Debug, Serialize)]
struct Answer {
    id: String,
    /// The status that it had; none when there is no such instance.
    was: Option<String>,
    changed: bool,
    result: &'static str,
}

pub(super) async fn run(args: &Args, desk: &Desk, output: Output) -> Result<Exit, Failure> {
    let mut answers = Vec::new();
    for (done, id) in args.ids.iter().enumerate() {
        let answer = cancel(id, &args.reason, desk).await;
        answers.push(answer.map_err(|failure| match done {
            0 => failure,
            _ => failure.after(&format!("at {id:?}; the {done} before it were dealt with")),
        })?);
    }
    output.rows(&answers, || {
        let columns = [("id", Align::Left), ("was", Align::Left), ("result", Align::Left)];
        let mut table = Table::new(&columns).uncut();
        for a in &answers {
            table.row([a.id.clone(), a.was.clone().unwrap_or_else(|| "-".to_owned()), a.result.to_owned()]);
        }
        table
    })?;
    Ok(if answers.iter().all(|a| a.changed) { Exit::Ok } else { Exit::Nothing })
}

async fn cancel(id: &str, reason: &str, desk: &Desk) -> Result<Answer, Failure> {
    let was = desk.look_for(id).await?.map(|found| found.status);
    let changed = was.as_deref().is_some_and(|status| !has_ended(status));
    if changed {
        desk.client.cancel_instance(id, reason).await.map_err(not_written)?;
    }
    let result = match (&was, changed) {
        (None, _) => "no such instance",
        (_, false) => "left as it is: it has ended already",
        (_, true) => "told to end; it does at its next turn",
    };
    Ok(Answer { id: id.to_owned(), was, changed, result })
}
