//! `bugle enqueue`: writing jobs.

use super::wait;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;
use crate::span;
use bugle::jobs::Enqueue;
use bugle::jobs::enqueue::check_payload;
use bugle::limits::ATTEMPTS_MAX;
use bugle::name::{Key, Kind, QueueName};
use bugle::{Bugle, JobId, Priority};
use chrono::{DateTime, Utc};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::value::RawValue;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Jobs in one statement.
const BATCH: usize = 1_000;

/// Write a job, or many, and print the id
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle enqueue mail send_receipt '{\"order\": 42}'
  bugle enqueue mail send_receipt - < receipt.json
  bugle enqueue mail send_receipt '{\"order\": 42}' --key order-42     the same key again writes nothing
  bugle enqueue mail remind --delay 24h --priority low
  bugle enqueue mail remind --at 2030-01-31T09:00:00+01:00
  bugle enqueue mail send_receipt '{\"order\": 42}' --wait             until it has ended, and what came of it
  bugle enqueue import row --file rows.jsonl                         one job a line: all of them, or none
  jq -c '.[]' orders.json | bugle enqueue import row --file -        the same from a pipe

With --wait the exit code is 0 when the job is done, 5 when it is dead, 6 when it was cancelled, and 7 when it has not ended in
time; it is enqueued all the same.")]
pub(crate) struct Args {
    /// The queue; made when it is not there
    #[arg(value_parser = QueueName::parse)]
    queue: QueueName,
    /// What sort of job it is: chooses the handler
    #[arg(value_parser = Kind::parse)]
    kind: Kind,
    /// The payload, any JSON; `-` reads it from standard input
    #[arg(default_value = "null", allow_negative_numbers = true, conflicts_with = "file")]
    payload: String,
    /// Not before this long from now, such as 30s or 1h30m
    #[arg(long, value_name = "TIME", value_parser = span::parse, allow_hyphen_values = true, conflicts_with = "due_at")]
    delay: Option<Duration>,
    /// Not before this moment, such as 2030-01-31T09:00:00Z; at once when it is past
    #[arg(long, visible_alias = "at", value_name = "MOMENT", value_parser = moment)]
    due_at: Option<DateTime<Utc>>,
    /// Which jobs it goes before
    #[arg(long, value_enum, default_value_t = Lane::Normal)]
    priority: Lane,
    /// Same key, same job: within the window a second one is not written, and the first one's id is printed
    #[arg(long, value_parser = Key::parse, conflicts_with = "file")]
    key: Option<Key>,
    /// How long the key stands for this job, also after its end [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = span::parse, requires = "key", allow_hyphen_values = true)]
    key_window: Option<Duration>,
    /// How often it is tried before it is dead
    #[arg(long, value_name = "N", default_value_t = 5, allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..=i64::from(ATTEMPTS_MAX)))]
    max_attempts: u16,
    /// Read many payloads, one JSON value a line (`-` is standard input), and write them in one transaction
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Wait until the job has ended, and print what came of it
    #[arg(long, conflicts_with = "file")]
    wait: bool,
    /// Wait no longer than this, such as 30s or 5m
    #[arg(long, value_name = "TIME", value_parser = span::parse, requires = "wait", allow_hyphen_values = true)]
    timeout: Option<Duration>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Lane {
    Urgent,
    High,
    Normal,
    Low,
}

impl From<Lane> for Priority {
    fn from(lane: Lane) -> Self {
        match lane {
            Lane::Urgent => Self::Urgent,
            Lane::High => Self::High,
            Lane::Normal => Self::Normal,
            Lane::Low => Self::Low,
        }
    }
}

/// The payloads, read or about to be.
pub(crate) enum Input {
    One(Box<RawValue>),
    Lines { lines: Box<dyn BufRead + Send>, bytes: Option<u64> },
}

impl Input {
    /// Reads the one payload, or opens the file of many.
    pub(crate) fn read(args: &Args) -> Result<Self, Failure> {
        let Some(path) = &args.file else {
            let text = if args.payload == "-" { read_all()? } else { args.payload.clone() };
            return Ok(Self::One(parse("payload", &text)?));
        };
        if path == Path::new("-") {
            return Ok(Self::Lines { lines: Box::new(BufReader::new(io::stdin())), bytes: None });
        }
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes, file) = opened.map_err(|error| {
            Failure::user(format!(
                "file {} cannot be read: {error}; name a file with one JSON value a line",
                path.display()
            ))
        })?;
        Ok(Self::Lines { lines: Box::new(BufReader::new(file)), bytes: Some(bytes) })
    }
}

pub(crate) async fn run(args: &Args, input: Input, place: &Place, output: Output) -> Result<Exit, Failure> {
    let bugle = place.bugle(2).await?;
    match input {
        Input::One(payload) if args.wait => {
            let handle = one(args, &bugle, payload).send_handle().await?;
            return wait::for_all(vec![handle], args.timeout, output).await;
        }
        Input::One(payload) => {
            let id = one(args, &bugle, payload).send().await?;
            if output.is_json() {
                output.json(&serde_json::json!({ "id": id }))?;
            } else {
                output.line(&id.to_string())?;
            }
        }
        Input::Lines { lines, bytes } => {
            let ids = many(args, &bugle, lines, bytes).await?;
            if output.is_json() {
                output.json(&serde_json::json!({ "count": ids.len(), "ids": ids }))?;
            } else {
                let lines: Vec<String> = ids.iter().map(ToString::to_string).collect();
                output.line(&lines.join("\n"))?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn one<'b>(args: &Args, bugle: &'b Bugle, payload: Box<RawValue>) -> Enqueue<'b> {
    let mut job = bugle
        .enqueue_raw(args.queue.as_str(), args.kind.as_str(), payload)
        .priority(args.priority.into())
        .max_attempts(args.max_attempts);
    if let Some(delay) = args.delay {
        job = job.delay(delay);
    }
    if let Some(due_at) = args.due_at {
        job = job.due_at(due_at);
    }
    if let Some(key) = &args.key {
        job = job.key(key.as_str());
    }
    if let Some(window) = args.key_window {
        job = job.key_window(window);
    }
    job
}

/// All of them in one transaction: a bad line or a cut connection in the middle leaves nothing behind.
async fn many(
    args: &Args,
    bugle: &Bugle,
    lines: Box<dyn BufRead + Send>,
    bytes: Option<u64>,
) -> Result<Vec<JobId>, Failure> {
    let progress = progress_bar(bytes);
    let mut lines = Lines { source: lines, number: 0, progress: progress.clone() };
    let mut tx = bugle.pool().begin().await?;
    let mut ids = Vec::new();
    loop {
        // Elsewhere, because a pipe may be silent for long and Ctrl-C must be heard meanwhile.
        let read = tokio::task::spawn_blocking(move || lines.batch().map(|batch| (batch, lines))).await;
        let batch;
        (batch, lines) = read.map_err(|e| Failure::system("read the payloads", &e.into()))??;
        if batch.is_empty() {
            break;
        }
        let mut jobs = bugle
            .enqueue_many_raw(args.queue.as_str(), args.kind.as_str(), batch)
            .priority(args.priority.into())
            .max_attempts(args.max_attempts);
        if let Some(delay) = args.delay {
            jobs = jobs.delay(delay);
        }
        if let Some(due_at) = args.due_at {
            jobs = jobs.due_at(due_at);
        }
        ids.extend(
            jobs.on(&mut *tx).await.map_err(|error| Failure::from(error).after("nothing was written"))?,
        );
        progress.set_message(format!("{} jobs", ids.len()));
    }
    if ids.is_empty() {
        return Err(Failure::nothing("the file holds no payload; nothing was written"));
    }
    tx.commit().await.map_err(|error| {
        Failure::unknown(format!("it is unknown whether the {} jobs were written: {error}; look with `bugle queue ls` before trying again", ids.len()))
    })?;
    progress.finish_and_clear();
    Ok(ids)
}

/// A file of payloads, read line by line.
struct Lines {
    source: Box<dyn BufRead + Send>,
    number: u64,
    progress: ProgressBar,
}

impl Lines {
    /// The next payloads; none at the end.
    fn batch(&mut self) -> Result<Vec<Box<RawValue>>, Failure> {
        let mut batch = Vec::with_capacity(BATCH);
        let mut line = String::new();
        while batch.len() < BATCH {
            line.clear();
            self.number += 1;
            let number = self.number;
            let read = self.source.read_line(&mut line).map_err(|error| {
                Failure::user(format!("line {number} cannot be read: {error}; nothing was written"))
            })?;
            if read == 0 {
                break;
            }
            self.progress.inc(u64::try_from(read).unwrap_or_default());
            if !line.trim().is_empty() {
                let what = format!("payload of line {number}");
                batch.push(parse(&what, &line).map_err(|failure| failure.after("nothing was written"))?);
            }
        }
        Ok(batch)
    }
}

/// On standard error, and only when that is a terminal.
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

fn parse(what: &str, text: &str) -> Result<Box<RawValue>, Failure> {
    let raw: Box<RawValue> = serde_json::from_str(text.trim()).map_err(|error| {
        Failure::user(format!(
            "{what} is no JSON: {error}; give it a JSON value (a text needs its quotes: '\"text\"')"
        ))
    })?;
    check_payload(raw).map_err(|error| Failure::user(error.to_string().replacen("payload", what, 1)))
}

fn moment(text: &str) -> Result<DateTime<Utc>, String> {
    DateTime::parse_from_rfc3339(text)
        .map(|at| at.to_utc())
        .map_err(|error| format!("{error}; write it like 2030-01-31T09:00:00Z"))
}
