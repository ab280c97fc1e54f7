//! Payloads as they are typed, piped in, or read from a file.

use crate::failure::Failure;
use bugle::Error;
use bugle::jobs::enqueue::check_payload;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::value::RawValue;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

/// Payloads in one statement.
const BATCH: usize = 1_000;

/// Refuses a payload that is too large.
type Check = fn(Box<RawValue>) -> Result<Box<RawValue>, Error>;

/// The payloads, read or about to be.
pub(crate) enum Input {
    One(Box<RawValue>),
    Lines(Lines),
}

impl Input {
    /// Reads the one payload (`-`: from standard input), or opens the file of many.
    pub(crate) fn read(payload: &str, file: Option<&Path>, check: Check) -> Result<Self, Failure> {
        let Some(path) = file else {
            let text = if payload == "-" { read_all()? } else { payload.to_owned() };
            return Ok(Self::One(parse("payload", &text, check)?));
        };
        if path == Path::new("-") {
            return Ok(Self::Lines(Lines::new(Box::new(BufReader::new(io::stdin())), None, check)));
        }
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes, file) = opened.map_err(|error| {
            Failure::user(format!(
                "file {} cannot be read: {error}; name a file with one JSON value a line",
                path.display()
            ))
        })?;
        Ok(Self::Lines(Lines::new(Box::new(BufReader::new(file)), Some(bytes), check)))
    }
}

/// One JSON value: as it was typed, of a file (`@FILE`), or from standard input (`-`). What it is for is part of every complaint.
pub(crate) fn value(what: &str, typed: &str) -> Result<Box<RawValue>, Failure> {
    let text = match typed.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(file).map_err(|error| {
            Failure::user(format!("{what} cannot be read from {file}: {error}; name a file of JSON in UTF-8"))
        })?,
        None if typed == "-" => read_all()?,
        None => typed.to_owned(),
    };
    parse(what, &text, check_payload)
}

/// A file of payloads, read line by line.
pub(crate) struct Lines {
    source: Box<dyn BufRead + Send>,
    number: u64,
    check: Check,
    progress: ProgressBar,
}

impl Lines {
    fn new(source: Box<dyn BufRead + Send>, bytes: Option<u64>, check: Check) -> Self {
        Self { source, number: 0, check, progress: progress_bar(bytes) }
    }

    /// How far it is read; on standard error, and only when that is a terminal.
    pub(crate) fn progress(&self) -> ProgressBar {
        self.progress.clone()
    }

    /// The next payloads; none at the end. Read elsewhere: a pipe may be silent for long, and Ctrl-C must be heard meanwhile.
    pub(crate) async fn batch(mut self) -> Result<(Vec<Box<RawValue>>, Self), Failure> {
        let read = tokio::task::spawn_blocking(move || self.read().map(|batch| (batch, self))).await;
        read.map_err(|e| Failure::system("read the payloads", &e.into()))?
    }

    fn read(&mut self) -> Result<Vec<Box<RawValue>>, Failure> {
        let mut batch = Vec::with_capacity(BATCH);
        let mut line = String::new();
        while batch.len() < BATCH {
            line.clear();
            self.number += 1;
            let number = self.number;
            let read = self
                .source
                .read_line(&mut line)
                .map_err(|error| Failure::user(format!("line {number} cannot be read: {error}")))?;
            if read == 0 {
                break;
            }
            self.progress.inc(u64::try_from(read).unwrap_or_default());
            if !line.trim().is_empty() {
                batch.push(parse(&format!("payload of line {number}"), &line, self.check)?);
            }
        }
        Ok(batch)
    }
}

fn progress_bar(bytes: Option<u64>) -> ProgressBar {
    let Some(bytes) = bytes else { return ProgressBar::new_spinner() };
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}  {eta} left");
    ProgressBar::new(bytes).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn read_all() -> Result<String, Failure> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map_err(|error| {
        Failure::user(format!("payload cannot be read from standard input: {error}; give it JSON in UTF-8"))
    })?;
    Ok(text)
}

fn parse(what: &str, text: &str, check: Check) -> Result<Box<RawValue>, Failure> {
    let raw: Box<RawValue> = serde_json::from_str(text.trim()).map_err(|error| {
        Failure::user(format!(
            "{what} is no JSON: {error}; give it a JSON value (a text needs its quotes: '\"text\"')"
        ))
    })?;
    check(raw).map_err(|error| Failure::user(error.to_string().replacen("payload", what, 1)))
}
