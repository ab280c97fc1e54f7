//! `bugle flow dead`.

use super::step_words::short;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table, clean};
use bugle::Bugle;
use bugle::flow::RunId;
use bugle::flow::inspect::{DeadDetail, DeadRun, FailedStep, Mark};
use serde::Serialize;
use std::fmt::Write as _;

/// List runs that failed, with the step that failed first; or show one with what its failed steps had before them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle flow dead
  bugle flow dead --definition order --limit 100
  bugle flow dead 42                                     input, context and attempts of what failed
  bugle flow dead --output json | jq -r '.[-1].mark'     what --after wants for the next page

Steps whose failure the definition sees to do not fail a run, and are no reason for it.")]
pub(super) struct Args {
    /// Show this run
    #[arg(conflicts_with_all = ["definition", "after"])]
    run: Option<RunId>,
    /// Only of this definition
    #[arg(long, value_name = "NAME")]
    definition: Option<String>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 20, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Go on behind this place, the mark of the last one of the page before
    #[arg(long, value_name = "MARK")]
    after: Option<Mark>,
}

#[derive(Debug, Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    run: &'a DeadRun,
    mark: String,
}

pub(super) async fn run(args: &Args, bugle: &Bugle, output: Output) -> Result<Exit, Failure> {
    if let Some(id) = args.run {
        return show(id, bugle, output).await;
    }
    let runs = bugle.flow().list_dead(args.definition.as_deref(), args.after, args.limit).await?;
    let rows: Vec<Row<'_>> = runs.iter().map(|run| Row { run, mark: run.mark().to_string() }).collect();
    output.rows(&rows, || table(&runs, output))?;
    let is_full = usize::try_from(args.limit).is_ok_and(|limit| runs.len() >= limit);
    if let Some(last) = rows.last().filter(|_| is_full && !output.is_json()) {
        output.line(&format!("\nmore behind these: add --after {}", last.mark))?;
    }
    Ok(Exit::Ok)
}

fn table(runs: &[DeadRun], output: Output) -> Table {
    let mut table = Table::new(&[
        ("run", Align::Right),
        ("definition", Align::Left),
        ("failed", Align::Left),
        ("step", Align::Left),
        ("attempt", Align::Right),
        ("code", Align::Left),
        ("message", Align::Left),
        ("key", Align::Left),
    ]);
    for run in runs {
        let attempt =
            run.attempt.zip(run.attempts).map(|(attempt, attempts)| format!("{attempt}/{attempts}"));
        table.row([
            run.id.to_string(),
            format!("{} {}", run.definition, run.version),
            output.moment(run.ended_at),
            run.step.as_deref().map_or_else(|| "-".to_owned(), |step| named(step, run.element)),
            attempt.unwrap_or_else(|| "-".to_owned()),
            run.code.clone(),
            run.message.clone(),
            run.key.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table
}

async fn show(id: RunId, bugle: &Bugle, output: Output) -> Result<Exit, Failure> {
    let flow = bugle.flow();
    let Some(dead) = flow.show_dead(id).await? else {
        return Err(match flow.show(id).await? {
            None => super::missing(id, bugle),
            Some(run) => Failure::nothing(format!(
                "run {id} has not failed: it is {}; look at it with `bugle flow show {id}`",
                run.state.as_str()
            )),
        });
    };
    if output.is_json() {
        output.json(&dead)?;
    } else {
        output.text(&text(&dead, output))?;
    }
    Ok(Exit::Ok)
}

fn named(step: &str, element: i32) -> String {
    if element > 0 { format!("{step}[{element}]") } else { step.to_owned() }
}

/// Why a run failed, for a person.
fn text(dead: &DeadDetail, output: Output) -> String {
    let run = &dead.run;
    let mut text = String::new();
    let failed = output.moment_or_dash(run.ended_at);
    let _ = writeln!(
        text,
        "run {} of {} version {} failed {failed}",
        run.id,
        clean(&run.definition),
        run.version
    );
    let _ = writeln!(text, "input     {}", short(&clean(run.input.0.get())));
    if !dead.failed.iter().any(|step| !step.is_seen_to) {
        let _ = writeln!(text, "\nno step of it failed: it did not end within its deadline");
    }
    for step in &dead.failed {
        text.push_str(&of_step(step, dead, output));
    }
    let step = dead.failed.iter().find(|step| !step.is_seen_to);
    if let Some(step) = step {
        let element = if step.element > 0 { format!(" --element {}", step.element) } else { String::new() };
        let _ = writeln!(text, "\ntry it again with `bugle flow retry {} {}{element}`", run.id, step.step);
    }
    text
}

fn of_step(step: &FailedStep, dead: &DeadDetail, output: Output) -> String {
    let mut text = String::new();
    let name = named(&step.step, step.element);
    let seen_to = if step.is_seen_to { ", which the definition sees to" } else { "" };
    let _ = writeln!(
        text,
        "\n{} failed {}{seen_to}: {}",
        output.paint(&name, crate::output::Colour::Red),
        output.moment(step.failed_at),
        clean(step.code.as_deref().unwrap_or("?"))
    );
    for line in step.message.iter().flat_map(|message| message.lines()) {
        let _ = writeln!(text, "  {}", clean(line));
    }
    let values = [
        ("element", step.value.as_ref()),
        ("parents", Some(&step.parents)),
        ("kept", step.checkpoint.as_ref()),
    ];
    for (what, value) in values {
        let Some(value) = value.filter(|value| value.as_object().is_none_or(|fields| !fields.is_empty()))
        else {
            continue;
        };
        let _ = writeln!(text, "  {what:<8}{}", short(&clean(&value.to_string())));
    }
    for attempt in dead.attempts.iter().filter(|a| a.step == step.step && a.element == step.element) {
        let _ = writeln!(
            text,
            "  attempt {} of {} failed {} on {}: {}",
            attempt.attempt,
            step.attempts,
            output.moment(attempt.failed_at),
            clean(attempt.worker.as_deref().unwrap_or("?")),
            short(&clean(attempt.message.as_deref().unwrap_or_default()))
        );
    }
    text
}
