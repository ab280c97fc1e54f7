//! `bugle queue show`.

use super::{messages, missing};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table, clean};
use crate::span;
use bugle::Bugle;
use bugle::jobs::inspect::{QueueDetail, QueueRow};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::json;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Show a queue: how deep it is, how far it lags, who works on it; of messages, its partitions and options
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle queue show mail
  bugle queue show mail --rate 5s      is it keeping up? counts what comes and goes for five seconds")]
pub(crate) struct Args {
    /// The queue
    queue: String,
    /// Watch for this long, and say how many jobs come and go in a second; not for queues of messages
    #[arg(long, value_name = "TIME", value_parser = span::parse)]
    rate: Option<Duration>,
}

/// Jobs in a second.
#[derive(Debug, Serialize)]
struct Rate {
    /// Over how many seconds it was counted.
    seconds: f64,
    enqueued: f64,
    done: f64,
    dead: f64,
}

#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    queue: QueueDetail,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<Rate>,
}

pub(super) async fn run(args: &Args, bugle: &Bugle, output: Output) -> Result<Exit, Failure> {
    if let Some((row, partitions)) = bugle.broker().show_queue(&args.queue).await? {
        if args.rate.is_some() {
            return Err(Failure::user(format!(
                "queue {:?} holds messages: --rate counts jobs; leave it out",
                args.queue
            )));
        }
        if output.is_json() {
            let mut value = messages::as_json(&row);
            value["parts"] = json!(partitions);
            output.json(&value)?;
        } else {
            output.text(&messages::sheet(&row, &partitions, output))?;
        }
        return Ok(Exit::Ok);
    }
    let show = async || bugle.show_queue(&args.queue).await?.ok_or_else(|| missing(&args.queue));
    let first = show().await?;
    let answer = match args.rate {
        None => Answer { queue: first, rate: None },
        Some(watched) => {
            let begun = Instant::now();
            tokio::time::sleep(watched).await;
            let queue = show().await?;
            let rate = rate(&first.row, &queue.row, begun.elapsed());
            Answer { queue, rate: Some(rate) }
        }
    };
    if output.is_json() {
        output.json(&answer)?;
    } else {
        output.text(&sheet(&answer))?;
    }
    Ok(Exit::Ok)
}

fn rate(first: &QueueRow, last: &QueueRow, elapsed: Duration) -> Rate {
    let seconds = elapsed.as_secs_f64().max(0.001);
    // A purge or a retry lets a count fall: nothing came then.
    let per_second = |a: i64, b: i64| {
        let jobs = u32::try_from((b - a).max(0)).unwrap_or(u32::MAX);
        (f64::from(jobs) / seconds * 10.0).round() / 10.0
    };
    let known = |q: &QueueRow| q.scheduled + q.ready + q.leased + q.done + q.dead + q.cancelled;
    Rate {
        seconds: (seconds * 10.0).round() / 10.0,
        enqueued: per_second(known(first), known(last)),
        done: per_second(first.done, last.done),
        dead: per_second(first.dead, last.dead),
    }
}

/// Everything about one queue, for a person. Times are told by the database's clock.
fn sheet(answer: &Answer) -> String {
    let QueueDetail { row, more, workers } = &answer.queue;
    let mut lines = vec![("queue", row.name.clone())];
    if row.paused {
        let next = format!("yes: nothing is handed out until `bugle queue resume {}`", row.name);
        lines.push(("paused", next));
    }
    let poll = more.poll_ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis);
    let poll = poll.map_or_else(String::new, |poll| format!(", polled every {}", span::short(poll)));
    lines.push(("mode", format!("{}{poll}", row.mode)));
    let ready =
        row.oldest_ready.map(|at| format!(", the next in line has been due for {}", apart(at, more.now)));
    lines.push(("ready", format!("{}{}", row.ready, ready.unwrap_or_default())));
    let due = more.next_due.map(|at| {
        if at > more.now {
            format!(", the first is due in {}", apart(at, more.now))
        } else {
            format!(", the first has been due for {}", apart(at, more.now))
        }
    });
    lines.push(("scheduled", format!("{}{}", row.scheduled, due.unwrap_or_default())));
    lines.push(("leased", row.leased.to_string()));
    let dead = if row.dead > 0 { format!(": `bugle dead ls --queue {}`", row.name) } else { String::new() };
    lines.push(("dead", format!("{}{dead}", row.dead)));
    lines.push(("done", row.done.to_string()));
    lines.push(("cancelled", row.cancelled.to_string()));
    if let Some(rate) = &answer.rate {
        lines.push((
            "rate",
            format!(
                "{}/s enqueued, {}/s done, {}/s dead, over {} s",
                rate.enqueued, rate.done, rate.dead, rate.seconds
            ),
        ));
    }
    lines.push(("asleep", asleep(&answer.queue)));
    let mut text = String::new();
    for (name, value) in lines {
        let _ = writeln!(text, "{name:<10} {}", clean(&value));
    }
    if workers.is_empty() {
        text.push_str("\nno worker holds a job of it\n");
        return text;
    }
    let (left, right) = (|name| (name, Align::Left), |name| (name, Align::Right));
    let mut table = Table::new(&[
        left("worker"),
        right("jobs"),
        right("leases"),
        left("since"),
        left("first lease ends"),
    ]);
    for holder in workers {
        table.row([
            holder.worker.clone(),
            holder.jobs.to_string(),
            holder.leases.to_string(),
            format!("{} ago", apart(holder.since, more.now)),
            if holder.until > more.now {
                format!("in {}", apart(holder.until, more.now))
            } else {
                format!("ended {} ago", apart(holder.until, more.now))
            },
        ]);
    }
    text.push('\n');
    text.push_str(&table.render());
    text
}

/// Which nodes wait for it to be rung for.
fn asleep(queue: &QueueDetail) -> String {
    let more = &queue.more;
    match more.sleepers.as_slice() {
        [] => "no node".to_owned(),
        nodes if more.neighbours == 0 => nodes.join(", "),
        nodes => format!(
            "{} (bucket {} is shared with {} other queues)",
            nodes.join(", "),
            more.bucket,
            more.neighbours
        ),
    }
}

fn apart(a: DateTime<Utc>, b: DateTime<Utc>) -> String {
    span::short((a - b).abs().to_std().unwrap_or_default())
}
