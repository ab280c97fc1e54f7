//! `bugle flow defs`.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table, clean};
use crate::span;
use bugle::flow::Flow;
use bugle::flow::inspect::{COUNT_MAX, DefinitionDetail, DefinitionRow};
use std::time::Duration;

/// List definitions with their versions, or show one of them drawn
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle flow defs
  bugle flow defs order                          its versions, and the newest drawn
  bugle flow defs order --version 2 --yaml       as it can be defined again")]
pub(super) struct Args {
    /// Only this definition, and draw it
    name: Option<String>,
    /// Another version than the newest
    #[arg(long, value_name = "N", requires = "name", allow_negative_numbers = true)]
    version: Option<i32>,
    /// The definition itself, in YAML
    #[arg(long, requires = "name")]
    yaml: bool,
}

pub(super) async fn run(args: &Args, flow: &Flow, output: Output) -> Result<Exit, Failure> {
    let rows = flow.list_definitions(args.name.as_deref()).await?;
    let Some(name) = &args.name else {
        output.rows(&rows, || table(&rows, output))?;
        return Ok(Exit::Ok);
    };
    let Some(shown) = flow.show_definition(name, args.version).await? else {
        return Err(missing(name, args.version, &rows));
    };
    if args.yaml {
        output.text(&shown.definition.to_yaml())?;
    } else if output.is_json() {
        output.json(&as_json(&shown, &rows))?;
    } else {
        let description =
            shown.definition.description().map_or_else(String::new, |text| format!("\n{}\n", clean(text)));
        output.text(&format!(
            "{}{description}\n{}",
            table(&rows, output).render(),
            shown.definition.draw()
        ))?;
    }
    Ok(Exit::Ok)
}

fn missing(name: &str, version: Option<i32>, rows: &[DefinitionRow]) -> Failure {
    match (version, rows.first(), rows.last()) {
        (Some(version), Some(newest), Some(oldest)) => Failure::nothing(format!(
            "definition {name:?} has no version {version}; there are {} to {}",
            oldest.version, newest.version
        )),
        _ => Failure::nothing(format!(
            "there is no definition {name:?}; list what there is with `bugle flow defs`"
        )),
    }
}

fn as_json(shown: &DefinitionDetail, rows: &[DefinitionRow]) -> serde_json::Value {
    let versions: Vec<i32> = rows.iter().map(|row| row.version).collect();
    serde_json::json!({
        "name": shown.definition.name(),
        "version": shown.version,
        "defined_at": shown.defined_at,
        "versions": versions,
        "definition": shown.definition.to_json(),
    })
}

fn table(rows: &[DefinitionRow], output: Output) -> Table {
    let mut table = Table::new(&[
        ("name", Align::Left),
        ("version", Align::Right),
        ("steps", Align::Right),
        ("identity", Align::Left),
        ("deadline", Align::Left),
        ("defined", Align::Left),
        ("open", Align::Right),
        ("failed", Align::Right),
    ]);
    for row in rows {
        let deadline = row.deadline_ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis);
        table.row([
            row.name.clone(),
            row.version.to_string(),
            row.steps.to_string(),
            row.identity.clone(),
            deadline.map_or_else(|| "-".to_owned(), span::exact),
            output.moment(row.defined_at),
            counted(row.open),
            counted(row.failed),
        ]);
    }
    table
}

/// Runs are counted up to a limit.
pub(super) fn counted(runs: i64) -> String {
    if runs >= COUNT_MAX.into() { format!("{runs}+") } else { runs.to_string() }
}
