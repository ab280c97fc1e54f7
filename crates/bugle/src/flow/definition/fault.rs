//! What is wrong with a definition: all of it at once, in the order of the file.

use super::limits::FAULTS_MAX;
use super::node::shorten;
use serde::Serialize;
use std::fmt;

/// Where something was said: in a text, or by which call of the builder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    /// Line and column, both from 1.
    Text { line: usize, column: usize },
    /// The number of the step, 0 for the definition itself.
    Built(usize),
}

/// A value and where it was said.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) mark: Mark,
}

impl<T> At<T> {
    pub(super) fn new(value: T, mark: Mark) -> Self {
        Self { value, mark }
    }
}

/// One thing that is wrong with a definition. It can be serialized, for programs that show it in their own way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Fault {
    /// The line, from 1; `None`: it came from no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The column in that line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// The step that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// What is wrong, with the value.
    pub fault: String,
    /// What to do about it.
    pub next: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, "line {line}, column {column}: ")?;
        }
        if let Some(step) = &self.step {
            write!(f, "step {step:?}: ")?;
        }
        write!(f, "{}; {}", self.fault, self.next)
    }
}

/// Why a text or a builder gave no definition: every fault, in the order of the file.
///
/// It is printed with one fault a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    faults: Vec<Fault>,
    more: usize,
}

impl Error {
    /// The faults; at least one. Beyond a thousand they are only counted.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, fault) in self.faults.iter().enumerate() {
            let end = if n == 0 { "" } else { "\n" };
            write!(f, "{end}{fault}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for crate::Error {
    fn from(error: Error) -> Self {
        Self::Invalid {
            what: "definition",
            fault: format!("cannot be used: {error}"),
            next: "nothing was written; correct it and define it again",
        }
    }
}

/// The faults that were found so far.
#[derive(Debug, Default)]
pub(super) struct Faults {
    found: Vec<(Mark, Fault)>,
    more: usize,
}

impl Faults {
    /// One more: at `mark`, about `step` if it is about one.
    pub(super) fn add(
        &mut self,
        mark: Mark,
        step: Option<&str>,
        fault: impl Into<String>,
        next: impl Into<String>,
    ) {
        if self.found.len() >= FAULTS_MAX {
            self.more += 1;
            return;
        }
        let (line, column) = match mark {
            Mark::Text { line, column } => (Some(line), Some(column)),
            Mark::Built(_) => (None, None),
        };
        let step = step.map(shorten);
        self.found.push((mark, Fault { line, column, step, fault: fault.into(), next: next.into() }));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// All of them as an error. The sort keeps the order of those at the same place.
    pub(super) fn into_error(mut self) -> Error {
        self.found.sort_by_key(|(mark, _)| *mark);
        Error { faults: self.found.into_iter().map(|(_, fault)| fault).collect(), more: self.more }
    }
}
