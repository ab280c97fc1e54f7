//! `bugle flow cancel`, `pause` and `resume`: what is done to whole runs.

use super::by;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use bugle::flow::{By, Flow, Run, RunId};
use serde::Serialize;

/// Which runs, who does it and why.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle flow cancel 42 --reason 'ordered twice'
  bugle flow pause 42 43
  bugle flow resume 42 43

Exit code 4 when one of them does not exist, or there was nothing to do to it.")]
pub(super) struct Args {
    /// The runs' numbers, as start or `bugle flow ls` prints them
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<RunId>,
    #[command(flatten)]
    by: by::ByArgs,
}

/// What is done.
#[derive(Debug, Clone, Copy)]
pub(super) enum Verb {
    Cancel,
    Pause,
    Resume,
}

/// What became of one of several runs.
#[derive(Debug, Serialize)]
struct Answer {
    id: RunId,
    /// The state that it was in; none when there is no such run.
    was: Option<&'static str>,
    changed: bool,
    result: &'static str,
}

pub(super) async fn run(args: &Args, verb: Verb, flow: &Flow, output: Output) -> Result<Exit, Failure> {
    let mut answers = Vec::new();
    for (done, id) in args.runs.iter().enumerate() {
        let answer = change(*id, verb, flow, args.by.by()).await;
        answers.push(answer.map_err(|failure| match done {
            0 => failure,
            _ => failure.after(&format!("at run {id}; the {done} before it were dealt with")),
        })?);
    }
    output.rows(&answers, || {
        let columns = [("run", Align::Right), ("was", Align::Left), ("result", Align::Left)];
        let mut table = Table::new(&columns).uncut();
        for a in &answers {
            table.row([a.id.to_string(), a.was.unwrap_or("-").to_owned(), a.result.to_owned()]);
        }
        table
    })?;
    Ok(if answers.iter().all(|a| a.changed) { Exit::Ok } else { Exit::Nothing })
}

async fn change(id: RunId, verb: Verb, flow: &Flow, by: By<'_>) -> Result<Answer, Failure> {
    let Some(found) = flow.show(id).await? else {
        return Ok(Answer { id, was: None, changed: false, result: "no such run" });
    };
    let changed = match verb {
        Verb::Cancel => flow.cancel(id, by).await?,
        Verb::Pause => flow.pause(id, by).await?,
        Verb::Resume => flow.resume(id, by).await?,
    };
    let result = if changed { done(verb) } else { left(verb, &found) };
    Ok(Answer { id, was: Some(found.state.as_str()), changed, result })
}

fn done(verb: Verb) -> &'static str {
    match verb {
        Verb::Cancel => "cancelled; whoever runs a step of it is told",
        Verb::Pause => "paused; what runs goes on",
        Verb::Resume => "goes on",
    }
}

fn left(verb: Verb, run: &Run) -> &'static str {
    match verb {
        _ if run.state.has_ended() => "left as it is: it has ended already",
        Verb::Cancel => "left as it is: it has just ended",
        Verb::Pause => "left as it is: it is paused already",
        Verb::Resume => "left as it is: it is not paused",
    }
}
