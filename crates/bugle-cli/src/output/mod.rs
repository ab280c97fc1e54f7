//! Writing the answer: the only place that writes to standard output.

mod colour;
mod table;
mod time;

pub(crate) use colour::Colour;
pub(crate) use table::{Align, Table, clean};

use crate::args::Format;
use crate::span;
use chrono::{DateTime, Utc};
use serde::Serialize;
use std::io::{self, IsTerminal as _, Write as _};

/// Where and how the answer is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    format: Format,
    asked_for: Option<Format>,
    terminal: bool,
}

impl Output {
    pub(crate) fn new(asked_for: Option<Format>) -> Self {
        let terminal = io::stdout().is_terminal();
        let format = asked_for.unwrap_or(if terminal { Format::Table } else { Format::Json });
        Self { format, asked_for, terminal }
    }

    /// Is the answer for a program?
    pub(crate) fn is_json(self) -> bool {
        self.format == Format::Json
    }

    /// Did the caller say so, rather than only put a pipe there?
    pub(crate) fn asked_for_json(self) -> bool {
        self.asked_for == Some(Format::Json)
    }

    /// May a live view be drawn?
    pub(crate) fn is_a_live_terminal(self) -> bool {
        self.terminal && self.asked_for.is_none()
    }

    /// Text as it is.
    #[allow(clippy::unused_self)] // whoever writes has been given an Output
    pub(crate) fn text(self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    /// One line.
    #[allow(clippy::unused_self)] // as above
    pub(crate) fn line(self, line: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{line}")?;
        stdout.flush()
    }

    /// One value, on one line when a program reads it and spread out for a person.
    pub(crate) fn json(self, value: &impl Serialize) -> io::Result<()> {
        let text =
            if self.terminal { serde_json::to_string_pretty(value)? } else { serde_json::to_string(value)? };
        self.line(&text)
    }

    /// The rows as a table, or `value` as JSON.
    pub(crate) fn rows(self, value: &impl Serialize, table: impl FnOnce() -> Table) -> io::Result<()> {
        if self.is_json() { self.json(value) } else { self.text(&table().render()) }
    }

    /// A text in a colour, on a terminal whose user has nothing against that.
    pub(crate) fn paint(self, text: &str, colour: Colour) -> String {
        if self.terminal && colour::is_wanted() { colour.paint(text) } else { text.to_owned() }
    }

    /// A moment: how long ago on a terminal, in full elsewhere.
    pub(crate) fn moment(self, at: DateTime<Utc>) -> String {
        if self.terminal { time::relative(at, Utc::now()) } else { time::full(at) }
    }

    /// Since when: how long on a terminal, in full elsewhere.
    pub(crate) fn since_or_dash(self, at: Option<DateTime<Utc>>) -> String {
        match at {
            None => "-".to_owned(),
            Some(at) if self.terminal => span::short((Utc::now() - at).to_std().unwrap_or_default()),
            Some(at) => time::full(at),
        }
    }

    /// A moment that may not have come.
    pub(crate) fn moment_or_dash(self, at: Option<DateTime<Utc>>) -> String {
        at.map_or_else(|| "-".to_owned(), |at| self.moment(at))
    }
}
