//! `bugle enqueue`: writing jobs.

use super::wait;
use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::payloads::{Input, Lines};
use crate::place::Place;
use crate::{retry, span};
use bugle::jobs::enqueue::check_payload;
use bugle::jobs::{Backoff, Enqueue};
use bugle::limits::ATTEMPTS_MAX;
use bugle::name::{Key, Kind, QueueName};
use bugle::{Bugle, JobId, Priority};
use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use std::path::PathBuf;
use std::time::Duration;

/// Write a job, or many, and print the id
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle enqueue mail send_receipt '{\"order\": 42}'
  bugle enqueue mail send_receipt - < receipt.json
  bugle enqueue mail send_receipt '{\"order\": 42}' --key order-42     the same key again writes nothing
  bugle enqueue mail remind --delay 24h --priority low
  bugle enqueue mail remind --at 2030-01-31T09:00:00+01:00
  bugle enqueue mail remind --retry table:0s,30s,5m                  three attempts: at once, after 30 s, after 5 min
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
    /// How often it is tried before it is dead [default: 5, or as often as the table of --retry says]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..=i64::from(ATTEMPTS_MAX)))]
    max_attempts: Option<u16>,
    /// When it is tried again, instead of by the worker's rule: exponential:BASE..MAX, table:WAIT,WAIT,... or never (`bugle work --help`)
    #[arg(long, value_name = "RULE", value_parser = retry::parse_own, allow_hyphen_values = true, conflicts_with = "file")]
    retry: Option<Backoff>,
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

impl Args {
    /// Reads the one payload, or opens the file of many.
    pub(crate) fn input(&self) -> Result<Input, Failure> {
        Input::read(&self.payload, self.file.as_deref(), check_payload)
    }

    /// Is the job's end waited for?
    pub(crate) fn waits(&self) -> bool {
        self.wait
    }
}

/// What was typed may contradict itself.
fn check(args: &Args) -> Result<(), Failure> {
    if let (Some(Backoff::Table(waits)), Some(attempts)) = (&args.retry, args.max_attempts)
        && waits.len() != usize::from(attempts)
    {
        return Err(Failure::user(format!(
            "--retry gives {} attempts and --max-attempts {attempts}; leave out --max-attempts",
            waits.len()
        )));
    }
    Ok(())
}

/// Writes one job and waits for its end.
pub(crate) async fn run_and_wait(
    args: &Args,
    input: Input,
    global: &Global,
    output: Output,
) -> Result<Exit, Failure> {
    check(args)?;
    let Input::One(payload) = input else { return Err(Failure::user("--wait is for one job")) };
    let enqueue = async |bugle: &Bugle| Ok(vec![one(args, bugle, payload).send_handle().await?]);
    wait::for_all(global, args.timeout, output, enqueue).await
}

pub(crate) async fn run(args: &Args, input: Input, place: &Place, output: Output) -> Result<Exit, Failure> {
    check(args)?;
    let bugle = place.bugle(2).await?;
    match input {
        Input::One(payload) => {
            let id = one(args, &bugle, payload).send().await?;
            if output.is_json() {
                output.json(&serde_json::json!({ "id": id }))?;
            } else {
                output.line(&id.to_string())?;
            }
        }
        Input::Lines(lines) => {
            let ids = many(args, &bugle, lines).await?;
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
    let mut job =
        bugle.enqueue_raw(args.queue.as_str(), args.kind.as_str(), payload).priority(args.priority.into());
    if let Some(attempts) = args.max_attempts {
        job = job.max_attempts(attempts);
    }
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
    if let Some(rule) = &args.retry {
        job = job.retry(rule); // after the delay, which stands for the table's first wait
    }
    job
}

/// All of them in one transaction: a bad line or a cut connection in the middle leaves nothing behind.
async fn many(args: &Args, bugle: &Bugle, mut lines: Lines) -> Result<Vec<JobId>, Failure> {
    let progress = lines.progress();
    let mut tx = bugle.pool().begin().await?;
    let mut ids = Vec::new();
    loop {
        let batch;
        (batch, lines) = lines.batch().await.map_err(|failure| failure.after("nothing was written"))?;
        if batch.is_empty() {
            break;
        }
        let mut jobs = bugle
            .enqueue_many_raw(args.queue.as_str(), args.kind.as_str(), batch)
            .priority(args.priority.into());
        if let Some(attempts) = args.max_attempts {
            jobs = jobs.max_attempts(attempts);
        }
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

fn moment(text: &str) -> Result<DateTime<Utc>, String> {
    DateTime::parse_from_rfc3339(text)
        .map(|at| at.to_utc())
        .map_err(|error| format!("{error}; write it like 2030-01-31T09:00:00Z"))
}
