//! `bugle flow define`.

use super::on_flow;
use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use bugle::flow::Definition;
use std::io::Read as _;
use std::path::Path;

/// Define a workflow from a file of YAML or JSON, and draw it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle flow define order.yaml
  bugle flow define order.yaml --check     see what is wrong with it, and how it looks; nothing is written
  generate-order | bugle flow define -

The same content again is the version that is there; another content is the next version. A version never changes: a run
goes to its end by the one that it was started with. docs/flow-definitions.md explains every field.")]
pub(super) struct Args {
    /// The file, JSON if its name ends in .json and YAML otherwise; `-` reads YAML or JSON from standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// Only check it and draw it
    #[arg(long)]
    check: bool,
}

pub(super) async fn run(args: &Args, global: &Global, output: Output) -> Result<Exit, Failure> {
    let definition = read(&args.file)?;
    if args.check {
        tell(&definition, None, output)?;
        return Ok(Exit::Ok);
    }
    on_flow(global, async |flow| {
        let defined = flow.define(&definition).await?;
        tell(&definition, Some((defined.version, defined.is_new)), output)?;
        Ok(Exit::Ok)
    })
    .await
}

fn read(file: &str) -> Result<Definition, Failure> {
    let mut text = String::new();
    let read = if file == "-" {
        std::io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(file).map(|all| text = all)
    };
    let called = if file == "-" { "standard input" } else { file };
    read.map_err(|error| {
        Failure::user(format!("{called} cannot be read: {error}; name a file of YAML or JSON in UTF-8"))
    })?;
    let is_json = Path::new(file).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    let parsed = if is_json { Definition::parse_json(&text) } else { Definition::parse_yaml(&text) };
    parsed.map_err(|error| {
        Failure::user(format!("{called} is no definition:\n  {}", error.to_string().replace('\n', "\n  ")))
    })
}

/// What came of it; no version: nothing was written.
fn tell(definition: &Definition, defined: Option<(i32, bool)>, output: Output) -> Result<(), Failure> {
    let name = definition.name();
    if output.is_json() {
        let (version, is_new) = defined.unzip();
        let steps = definition.steps().len();
        output.json(
            &serde_json::json!({ "name": name, "version": version, "is_new": is_new, "steps": steps }),
        )?;
        return Ok(());
    }
    let drawing = definition.draw();
    let (_, steps) = drawing.split_once('\n').unwrap_or_default(); // without its head, which the sentence has
    let sentence = match defined {
        Some((version, true)) => format!("{name} version {version} is defined"),
        Some((version, false)) => format!("{name} version {version} was there already, and is the same"),
        None => format!("{name} is well; nothing was written"),
    };
    Ok(output.text(&format!("{sentence}\n\n{steps}"))?)
}
