//! `bugle flow show`.

use super::step_words::{self, short};
use super::{drawing, events, moment};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, clean};
use bugle::flow::inspect::{EventRow, RunDetail};
use bugle::flow::{Definition, Flow, RunId};
use bugle::{Bugle, Error};
use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use std::fmt::Write as _;

/// Show a run with its steps drawn, as it is now or as it was at an earlier time
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle flow show 42
  bugle flow show 42 --events                             every move, with who made it and why
  bugle flow show 42 --at 5m                              as it was five minutes ago
  bugle flow show 42 --at 2030-01-31T09:00:00Z --json

Marks: · pending  > ready  ▸ running  ~ waiting  ✓ succeeded  ✗ failed  - skipped  × cancelled. Of a map its elements that
succeeded are counted. The past is worked out from the log, for as long as that is kept.")]
pub(super) struct Args {
    /// The run's number, as start or `bugle flow ls` prints it
    run: RunId,
    /// As it was then: a moment such as 2030-01-31T09:00:00Z, or how long ago, such as 5m
    #[arg(long, value_name = "MOMENT", value_parser = moment::parse, allow_hyphen_values = true)]
    at: Option<DateTime<Utc>>,
    /// Every move of the run and its steps, too
    #[arg(long)]
    events: bool,
}

#[derive(Debug, Serialize)]
struct Sheet {
    #[serde(flatten)]
    detail: RunDetail,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<DateTime<Utc>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Vec<EventRow>>,
}

pub(super) async fn run(args: &Args, bugle: &Bugle, output: Output) -> Result<Exit, Failure> {
    let flow = bugle.flow();
    let detail = match args.at {
        None => flow.show_run(args.run).await?.ok_or_else(|| super::missing(args.run, bugle))?,
        Some(at) => past(args.run, at, bugle, &flow).await?,
    };
    let events = if args.events { Some(events::read(&flow, args.run, args.at).await?) } else { None };
    let sheet = Sheet { detail, at: args.at, events };
    if output.is_json() {
        output.json(&sheet)?;
    } else {
        let definition = definition(&sheet.detail, &flow).await?;
        output.text(&text(&sheet, definition.as_ref(), output))?;
    }
    Ok(Exit::Ok)
}

async fn past(run: RunId, at: DateTime<Utc>, bugle: &Bugle, flow: &Flow) -> Result<RunDetail, Failure> {
    if let Some(detail) = flow.run_at(run, at).await? {
        return Ok(detail);
    }
    match flow.show(run).await? {
        None => Err(super::missing(run, bugle)),
        Some(found) => Err(Failure::nothing(format!(
            "run {run} was started at {}, after {at}; ask for a later time",
            found.created_at
        ))),
    }
}

/// The definition to draw it by. One that was written past the checks of this version may not be readable: the steps are shown all the same.
async fn definition(detail: &RunDetail, flow: &Flow) -> Result<Option<Definition>, Failure> {
    match flow.show_definition(&detail.run.definition, Some(detail.run.version)).await {
        Ok(shown) => Ok(shown.map(|shown| shown.definition)),
        Err(Error::Bug(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Everything about one run, for a person.
fn text(sheet: &Sheet, definition: Option<&Definition>, output: Output) -> String {
    let run = &sheet.detail.run;
    let paused = if run.paused && !run.state.has_ended() { ", paused" } else { "" };
    let mut lines = vec![
        ("run", run.id.to_string()),
        ("of", format!("{}, version {}", run.definition, run.version)),
        ("state", format!("{}{paused}", run.state.as_str())),
    ];
    lines.extend(sheet.at.map(|at| ("as of", at.to_rfc3339_opts(SecondsFormat::Millis, true))));
    lines.extend(run.key.clone().map(|key| ("key", key)));
    lines.extend(run.tags.as_ref().map(|tags| ("tags", tags.0.get().to_owned())));
    lines.push(("started", output.moment(run.created_at)));
    lines.extend(run.ended_at.map(|at| ("ended", output.moment(at))));
    lines.extend(run.ends_by.filter(|_| run.ended_at.is_none()).map(|at| ("deadline", output.moment(at))));
    lines.push(("input", short(run.input.0.get())));
    let mut text = String::new();
    for (name, value) in lines {
        let _ = writeln!(text, "{name:<10}{}", clean(&value));
    }
    if let Some(definition) = definition {
        let _ = write!(text, "\n{}", drawing::draw(definition, &sheet.detail.steps, output));
    }
    let steps = step_words::lines(&sheet.detail.steps, output);
    if !steps.is_empty() {
        let _ = writeln!(text, "\n{}", steps.join("\n"));
    }
    if let Some(events) = &sheet.events {
        let _ = write!(text, "\n{}", events::table(events).render());
    }
    text
}
