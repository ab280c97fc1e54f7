//! The lines of an export, in the order in which they come: a header; definitions and runs, each definition before the first run of it; the signals that nobody
//! has taken; the end. Of a run: its head, values, events, notes, its end.

use crate::flow::RunId;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The version of the format. Another one is refused.
pub const FORMAT: u32 = 1;

/// What the header calls the file.
pub(super) const WHAT: &str = "bugle workflows";

/// One line.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    Header(Header),
    Definition(Box<DefinitionLine>),
    Run(Box<RawValue>),
    Value(Box<RawValue>),
    Event(Box<RawValue>),
    Note(Box<RawValue>),
    RunEnd(RunEnd),
    Signal(Box<RawValue>),
    End(End),
}

impl Line {
    /// What it is called in a complaint.
    pub(super) fn called(&self) -> &'static str {
        match self {
            Self::Header(_) => "a header",
            Self::Definition(_) => "a definition",
            Self::Run(_) => "a run",
            Self::Value(_) => "a value",
            Self::Event(_) => "an event",
            Self::Note(_) => "a note",
            Self::RunEnd(_) => "the end of a run",
            Self::Signal(_) => "a signal",
            Self::End(_) => "the end",
        }
    }
}

/// Says what the file is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) what: String,
    pub(super) format: u32,
    pub(super) namespace: String,
    pub(super) exported_at: DateTime<Utc>,
    /// Runs in the file have numbers up to this one.
    pub(super) last_number: i64,
}

/// The first line of any version of the format, as far as it must be known to refuse it.
#[derive(Deserialize)]
pub(super) struct AnyHeader {
    pub(super) header: AnyHead,
}

#[derive(Deserialize)]
pub(super) struct AnyHead {
    pub(super) what: String,
    pub(super) format: u32,
}

/// A definition.
#[derive(Deserialize)]
pub(super) struct DefinitionLine {
    pub(super) name: String,
    pub(super) version: i32,
    pub(super) hash: String,
    pub(super) defined_at: DateTime<Utc>,
    pub(super) spec: Box<RawValue>,
}

/// What of a run's head is needed to work it out; the rest is for the database.
#[derive(Deserialize)]
pub(super) struct RunHead {
    pub(super) id: RunId,
    pub(super) definition: String,
    pub(super) version: i32,
    pub(super) created_at: DateTime<Utc>,
}

/// A value, without reading it.
#[derive(Deserialize)]
pub(super) struct ValueLine<'a> {
    pub(super) no: i16,
    pub(super) idx: i32,
    pub(super) epoch: i32,
    #[serde(borrow)]
    pub(super) value: &'a RawValue,
}

/// Closes a run: of one that was cut off, or from which somebody took a line, nothing is imported.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunEnd {
    pub(super) values: u64,
    pub(super) events: u64,
    pub(super) notes: u64,
}

/// Closes the file.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) runs: u64,
    pub(super) signals: u64,
}
