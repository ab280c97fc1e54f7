//! `bugle job show`.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, clean};
use bugle::jobs::inspect::JobDetail;
use bugle::{Bugle, JobId};
use std::fmt::Write as _;

/// Show a job with its payload, its failed attempts and who holds it
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  bugle job show 42")]
pub(crate) struct Args {
    /// The job's number, as enqueue or `bugle job ls` prints it
    id: JobId,
}

pub(super) async fn run(args: &Args, bugle: &Bugle, output: Output) -> Result<Exit, Failure> {
    let Some(job) = bugle.show_job(args.id).await? else {
        return Err(super::missing(args.id, bugle));
    };
    if output.is_json() {
        output.json(&job)?;
    } else {
        output.text(&sheet(&job, output))?;
    }
    Ok(Exit::Ok)
}

/// Everything about one job, for a person.
fn sheet(job: &JobDetail, output: Output) -> String {
    let row = &job.row;
    let lane = ["urgent", "high", "normal", "low"].get(usize::try_from(row.priority).unwrap_or(2));
    let mut lines = vec![
        ("job", row.id.to_string()),
        ("queue", row.queue.clone()),
        ("kind", row.kind.clone()),
        ("state", row.state.clone()),
        ("priority", (*lane.unwrap_or(&"normal")).to_owned()),
        ("attempt", format!("{} of {}", row.attempt, row.max_attempts)),
        ("enqueued", output.moment(row.enqueued_at)),
    ];
    lines.extend(row.due_at.map(|at| ("due", output.moment(at))));
    lines.extend(row.finished_at.map(|at| ("ended", output.moment(at))));
    lines.extend(job.ended_by.clone().map(|worker| ("ended by", worker)));
    lines.extend(row.key.clone().map(|key| ("key", key)));
    if let (Some(worker), Some(since), Some(until)) = (&job.worker, job.claimed_at, job.lease_until) {
        let text = format!("{worker}, since {}, lease ends {}", output.moment(since), output.moment(until));
        lines.push(("held by", text));
    }
    let mut text = String::new();
    for (name, value) in lines {
        let _ = writeln!(text, "{name:<10}{}", clean(&value));
    }
    for (name, value) in [("payload", Some(&job.payload)), ("result", job.result.as_ref())] {
        let Some(value) = value else { continue };
        let json = serde_json::to_string_pretty(value).unwrap_or_default();
        let _ = writeln!(text, "{name:<10}{}", json.replace('\n', "\n          "));
    }
    for failed in &job.failures {
        let _ = writeln!(
            text,
            "\nattempt {} failed {} on {}: {}",
            failed.attempt,
            output.moment(failed.failed_at),
            clean(&failed.worker),
            clean(&failed.code)
        );
        for line in failed.message.lines() {
            let _ = writeln!(text, "  {}", clean(line));
        }
    }
    text
}
