//! `bugle flow export`.

use crate::exit::Exit;
use crate::failure::Failure;
use bugle::flow::archive::{ExportError, Which};
use bugle::flow::{Flow, RunId};
use tokio::io::{BufWriter, stdout};

/// Write runs with their values and their log to standard output, for `bugle flow import`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle flow export 42 43 > runs.jsonl
  bugle flow export --all | gzip > runs.jsonl.gz
  bugle flow pause 42 && bugle flow export 42 | bugle --database-url $OTHER flow import -

All runs are written as they are at one moment. They stay where they are, and one that has not ended goes on: pause it, or stop
its workers, before it is to go on elsewhere. The file is a line of JSON for each thing, and its last line says that it is whole.
Exit code 4 when one of the runs does not exist.")]
#[group(required = true, multiple = false)]
pub(super) struct Args {
    /// The runs' numbers
    #[arg(value_name = "RUN")]
    runs: Vec<RunId>,
    /// All runs of the namespace, and the signals that nobody has taken
    #[arg(long)]
    all: bool,
}

pub(super) async fn run(args: &Args, flow: &Flow) -> Result<Exit, Failure> {
    let which = if args.all { Which::All } else { Which::Runs(&args.runs) };
    let mut to = BufWriter::new(stdout());
    flow.export(which, &mut to).await.map_err(failure)?;
    Ok(Exit::Ok)
}

fn failure(error: ExportError) -> Failure {
    match error {
        ExportError::NoRun { .. } => Failure::nothing(error.to_string()),
        ExportError::Io(error) => error.into(),
        ExportError::Database(error) => error.into(),
        other => Failure::server(other.to_string()),
    }
}
