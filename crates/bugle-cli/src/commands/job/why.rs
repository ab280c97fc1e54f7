//! `bugle job why`: one sentence that says what a job waits for, or how it ended.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, clean};
use crate::span;
use bugle::jobs::inspect::{AHEAD_MAX, Reason, Why};
use bugle::{Bugle, JobId};
use chrono::{DateTime, SecondsFormat, Utc};

/// Say in a sentence why a job is where it is, and what to do about it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle job why 42
  bugle job why 42 --output json | jq -r .reason

Reasons: paused, no_worker, behind, next, not_due, backing_off, leased, lease_ended, done, dead, cancelled.
A worker is seen when it holds a lease, or when its node sleeps for the queue; one that only polls and is idle is not.")]
pub(crate) struct Args {
    /// The job's number, as enqueue or `bugle job ls` prints it
    id: JobId,
}

/// Of an error message this much is in the sentence; `bugle job show` has the rest.
const MESSAGE_CHARACTERS_MAX: usize = 200;

pub(super) async fn run(args: &Args, bugle: &Bugle, output: Output) -> Result<Exit, Failure> {
    let why = bugle.why(args.id).await?.ok_or_else(|| super::missing(args.id, bugle))?;
    let sentence = sentence(&why);
    if output.is_json() {
        let mut answer = serde_json::json!({
            "id": why.job.row.id,
            "state": why.job.row.state,
            "reason": why.reason,
            "why": sentence,
            "queue": why.job.row.queue,
            "paused": why.queue.row.paused,
            "due_at": why.job.row.due_at,
            "worker": why.job.worker,
            "lease_until": why.job.lease_until,
            "last_failure": why.last_failure(),
            "sleepers": why.queue.more.sleepers,
            "workers": why.queue.workers,
        });
        if let Some(ahead) = why.ahead {
            answer["ahead"] = ahead.into();
            answer["ahead_is_at_least"] = (ahead >= AHEAD_MAX).into();
        }
        output.json(&answer)?;
    } else {
        output.line(&clean(&sentence))?;
    }
    Ok(Exit::Ok)
}

/// For somebody who was woken at night: what is so, and the next step if there is one.
fn sentence(why: &Why) -> String {
    let row = &why.job.row;
    let (id, queue) = (row.id, &row.queue);
    match why.reason {
        Reason::Paused => format!(
            "job {id} {}, but queue {queue} is paused; `bugle queue resume {queue}` hands it out",
            in_line(why)
        ),
        Reason::NoWorker => format!(
            "job {id} {}, but nobody is seen who works on queue {queue}: no lease runs and {}; start a worker for it, \
             such as `bugle work --queue {queue} --exec ...`",
            in_line(why),
            nobody_asleep(why)
        ),
        Reason::Behind | Reason::Next => format!("job {id} {}; {}", in_line(why), at_work(why)),
        Reason::NotDue => {
            format!("job {id} is scheduled: due {}{}", coming(row.due_at, why), and_paused(why))
        }
        Reason::BackingOff => format!(
            "job {id} backs off: {}; attempt {} of {} is due {}{}",
            failed(why),
            row.attempt + 1,
            row.max_attempts,
            coming(row.due_at, why),
            and_paused(why)
        ),
        Reason::Leased => leased(why),
        Reason::LeaseEnded => format!(
            "job {id} was leased by worker {}, which let its lease end {} and has not acked; the next look at queue {queue} takes it back{}",
            why.job.worker.as_deref().unwrap_or("?"),
            gone(why.job.lease_until, why),
            if why.queue.more.sleepers.is_empty() {
                ", and no node is seen that would look: start a worker"
            } else {
                ""
            }
        ),
        Reason::Done => {
            format!("job {id} was done {}, by attempt {}", gone(row.finished_at, why), row.attempt)
        }
        Reason::Cancelled => format!("job {id} was cancelled {}", gone(row.finished_at, why)),
        Reason::Dead => {
            let how = if row.attempt < row.max_attempts {
                format!("given up at attempt {} of {}", row.attempt, row.max_attempts)
            } else {
                format!("out of attempts ({})", row.max_attempts)
            };
            format!(
                "job {id} died {}, {how}: {}; `bugle job retry {id}` tries it again",
                gone(row.finished_at, why),
                failed(why)
            )
        }
        _ => format!("job {id} is {}", row.state),
    }
}

/// `has been ready for 3s`, and where it stands.
fn in_line(why: &Why) -> String {
    let waited = why.job.row.due_at.map_or_else(|| "some time".to_owned(), |due| apart(due, why.now()));
    match why.ahead {
        None if why.last_failure().is_some() => {
            format!("has been due for {waited} ({}) and comes into line with the next look", failed(why))
        }
        None => format!("has been due for {waited} and comes into line with the next look"),
        Some(0) => format!("has been ready for {waited} and is next in line"),
        Some(1) => format!("has been ready for {waited}, behind 1 other"),
        Some(AHEAD_MAX..) => {
            format!("has been ready for {waited}, behind at least {} others", thousands(AHEAD_MAX))
        }
        Some(n) => format!("has been ready for {waited}, behind {} others", thousands(n)),
    }
}

/// Who could take it.
fn at_work(why: &Why) -> String {
    let workers: Vec<_> = why.queue.workers.iter().filter(|holder| holder.alive).collect();
    let jobs: i64 = workers.iter().map(|holder| holder.jobs).sum();
    match (workers.as_slice(), why.queue.more.sleepers.as_slice()) {
        ([], sleepers) => format!("{} sleeps for its queue and has been rung", list(sleepers)),
        ([one], _) => format!("worker {} is at work on {}", one.worker, of_jobs(jobs)),
        (many, _) => format!("{} workers are at work on {}", many.len(), of_jobs(jobs)),
    }
}

fn leased(why: &Why) -> String {
    let row = &why.job.row;
    let (Some(worker), Some(since), Some(until)) = (&why.job.worker, why.job.claimed_at, why.job.lease_until)
    else {
        return format!("job {} is leased, and its lease is just being closed; ask again", row.id);
    };
    format!(
        "job {} has been leased by worker {worker} for {}: attempt {} of {}; the lease ends {} unless it is renewed",
        row.id,
        apart(since, why.now()),
        row.attempt + 1,
        row.max_attempts,
        coming(Some(until), why)
    )
}

/// What went wrong last.
fn failed(why: &Why) -> String {
    let row = &why.job.row;
    let Some(last) = why.last_failure() else {
        return "its errors are no longer kept".to_owned();
    };
    let no_handler = if last.code == "no_handler" {
        format!(" (no worker for kind {}: start one that has a handler for it)", row.kind)
    } else {
        String::new()
    };
    let line = last.message.lines().next().unwrap_or_default();
    let cut: String = line.chars().take(MESSAGE_CHARACTERS_MAX).collect();
    let dots = if cut.len() < last.message.len() { "…" } else { "" };
    format!(
        "attempt {} failed {} on worker {} with {}: {cut}{dots}{no_handler}",
        last.attempt,
        gone(Some(last.failed_at), why),
        last.worker,
        last.code
    )
}

fn nobody_asleep(why: &Why) -> String {
    match why.queue.more.sleepers.as_slice() {
        [] => "no node sleeps for it".to_owned(),
        others => format!("{} sleeps for another queue of its bucket", list(others)),
    }
}

fn and_paused(why: &Why) -> String {
    if why.queue.row.paused { format!("; its queue {} is paused", why.job.row.queue) } else { String::new() }
}

fn list(nodes: &[String]) -> String {
    match nodes {
        [] => "no node".to_owned(),
        [one] => format!("node {one}"),
        [one, others @ ..] => format!("node {one} (with {} more)", others.len()),
    }
}

fn of_jobs(jobs: i64) -> String {
    if jobs == 1 { "1 job of it".to_owned() } else { format!("{} jobs of it", thousands(jobs)) }
}

/// `in 5m (2030-01-31T09:00:00Z)`.
fn coming(at: Option<DateTime<Utc>>, why: &Why) -> String {
    at.map_or_else(
        || "some time".to_owned(),
        |at| format!("in {} ({})", apart(at, why.now()), at.to_rfc3339_opts(SecondsFormat::Secs, true)),
    )
}

/// `3s ago`.
fn gone(at: Option<DateTime<Utc>>, why: &Why) -> String {
    at.map_or_else(|| "some time ago".to_owned(), |at| format!("{} ago", apart(at, why.now())))
}

/// By the database's clock on both sides.
fn apart(a: DateTime<Utc>, b: DateTime<Utc>) -> String {
    span::short((a - b).abs().to_std().unwrap_or_default())
}

/// `10,000`.
fn thousands(n: i64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [0, 999, 1_000, 10_000, 1_234_567].map(thousands),
            ["0", "999", "1,000", "10,000", "1,234,567"]
        );
    }
}
