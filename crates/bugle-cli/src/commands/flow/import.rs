//! `bugle flow import`.

use super::on_flow;
use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use bugle::flow::archive::{Cause, ImportError, ImportOptions, Imported};
use std::fmt::Write as _;
use tokio::io::{AsyncBufRead, BufReader};

/// Import runs that `bugle flow export` wrote; those that have not ended go on here
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle flow import runs.jsonl
  gunzip -c runs.jsonl.gz | bugle flow import -
  bugle flow import runs.jsonl --skip-existing     after one that was cut off or interrupted

Runs keep their numbers. Each is imported whole or not at all; an error says at which line it came and how many were before it.
A step that somebody ran when it was exported is ready here. Domain events are not pushed again.")]
pub(super) struct Args {
    /// The file; `-` reads standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// Leave out runs that are there already, instead of refusing the file
    #[arg(long)]
    skip_existing: bool,
}

pub(super) async fn run(args: &Args, global: &Global, output: Output) -> Result<Exit, Failure> {
    let mut from: Box<dyn AsyncBufRead + Unpin + Send> = if args.file == "-" {
        Box::new(BufReader::new(tokio::io::stdin()))
    } else {
        let file = tokio::fs::File::open(&args.file).await.map_err(|error| {
            let file = &args.file;
            Failure::user(format!(
                "{file} cannot be read: {error}; name a file that `bugle flow export` wrote"
            ))
        })?;
        Box::new(BufReader::new(file))
    };
    on_flow(global, async |flow| {
        let options = ImportOptions::default().skip_existing(args.skip_existing);
        let imported = flow.import(&mut from, options).await.map_err(failure)?;
        if output.is_json() {
            output.json(&imported)?;
        } else {
            output.line(&sentence(imported))?;
        }
        Ok(Exit::Ok)
    })
    .await
}

fn sentence(imported: Imported) -> String {
    let mut said = format!("imported {} runs and {} definitions", imported.runs, imported.definitions);
    for (n, what) in [
        (imported.signals, "signals that nobody has taken"),
        (imported.skipped, "runs were there already"),
        (imported.released, "steps that somebody ran are ready"),
    ] {
        if n > 0 {
            let _ = write!(said, "; {n} {what}");
        }
    }
    said
}

fn failure(error: ImportError) -> Failure {
    let sentence = error.to_string();
    match error.cause {
        Cause::Line { .. } | Cause::Exists(_) => Failure::user(sentence),
        Cause::Database(error) => Failure::from(error).saying(sentence),
        _ => Failure::server(sentence),
    }
}
