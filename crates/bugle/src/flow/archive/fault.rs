//! Why runs were not exported or imported, and how far it came.

use super::Imported;
use crate::flow::RunId;
use crate::{Error, Outcome};

/// Why an export was not finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// There is no such run, or no longer.
    #[error(
        "there is no run {run} in namespace {namespace}, or no longer; look with `bugle flow ls` (ended runs are kept for some days)"
    )]
    NoRun {
        /// Its number.
        run: RunId,
        /// Where it was looked for.
        namespace: String,
    },
    /// It could not be written.
    #[error("the export could not be written: {0}; what is there of it is cut off")]
    Io(#[from] std::io::Error),
    /// The database could not be read.
    #[error(transparent)]
    Database(#[from] Error),
}

/// Why an import was not finished. What was imported before stays: each run is imported whole or not at all.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {cause}; {}", so_far(*.imported, .cause))]
#[non_exhaustive]
pub struct ImportError {
    /// At which line of the file, from 1.
    pub line: u64,
    /// What was imported before.
    pub imported: Imported,
    /// What was in the way.
    pub cause: Cause,
}

/// What was in the way of an import.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// The line is not what can be there.
    #[error("{fault}; {next}")]
    Line {
        /// What is wrong.
        fault: String,
        /// What to do about it.
        next: &'static str,
    },
    /// There is a run with this number.
    #[error(
        "run {0} is in this database already; import into an empty one, or leave out those that are there (--skip-existing)"
    )]
    Exists(RunId),
    /// The file could not be read.
    #[error("the file could not be read: {0}")]
    Io(#[from] std::io::Error),
    /// The database refused it, or could not be asked.
    #[error(transparent)]
    Database(#[from] Error),
}

impl ImportError {
    /// Whether what the line belongs to may have been imported all the same.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match &self.cause {
            Cause::Database(error) => error.outcome(),
            _ => Outcome::Refused,
        }
    }
}

impl Cause {
    pub(super) fn line(fault: impl Into<String>, next: &'static str) -> Self {
        Self::Line { fault: fault.into(), next }
    }
}

fn so_far(imported: Imported, cause: &Cause) -> String {
    let runs = match imported.runs {
        0 => "no run was imported".to_owned(),
        1 => "1 run before it was imported".to_owned(),
        runs => format!("{runs} runs before it were imported"),
    };
    match cause {
        Cause::Database(error) if error.outcome() == Outcome::Unknown => {
            format!("{runs}, and perhaps the one it belongs to: import again with --skip-existing")
        }
        _ if imported.runs > 0 => format!("{runs}, and nothing of what comes after them"),
        _ => runs,
    }
}
