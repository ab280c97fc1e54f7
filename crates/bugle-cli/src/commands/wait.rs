//! Waiting for jobs that have not ended: `bugle job wait` and `bugle enqueue --wait`.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, clean};
use crate::span;
use bugle::{End, Ending, Error, Handle, JobId};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::time::Duration;

/// How often what a person sees on the terminal turns.
const TURN: Duration = Duration::from_millis(120);

/// What came of one wait.
struct Waited {
    id: JobId,
    /// None: it has not ended in time.
    end: Option<End<Value>>,
}

/// Waits for all of them and tells of each when it ends. Of several codes the one that is most of a fault is the command's.
pub(super) async fn for_all(
    handles: Vec<Handle>,
    timeout: Option<Duration>,
    output: Output,
) -> Result<Exit, Failure> {
    let progress = progress_bar();
    let mut waits: FuturesUnordered<_> = handles.iter().map(|handle| wait(handle, timeout)).collect();
    let mut worst = Exit::Ok;
    while !waits.is_empty() {
        progress.set_message(message(&handles, waits.len()));
        let Some(waited) = waits.next().await else { break };
        let waited = waited?;
        let line = if output.is_json() { waited.as_json().to_string() } else { waited.sentence(timeout) };
        progress.suspend(|| output.line(&line))?;
        worst = [Exit::Dead, Exit::Cancelled, Exit::TimedOut]
            .into_iter()
            .find(|exit| [worst, waited.exit()].contains(exit))
            .unwrap_or(Exit::Ok);
    }
    progress.finish_and_clear();
    Ok(worst)
}

async fn wait(handle: &Handle, timeout: Option<Duration>) -> Result<Waited, Error> {
    let end = match timeout {
        Some(timeout) => handle.wait_within(timeout).await?,
        None => Some(handle.wait().await?),
    };
    Ok(Waited { id: handle.id(), end })
}

fn message(handles: &[Handle], open: usize) -> String {
    match handles {
        [only] => format!("waiting for job {}", only.id()),
        all => format!("waiting for {open} of {} jobs", all.len()),
    }
}

/// On standard error, and only when that is a terminal.
fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg}, {elapsed}");
    let bar = ProgressBar::new_spinner();
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(TURN);
    bar
}

impl Waited {
    fn exit(&self) -> Exit {
        match self.end.as_ref().map(|end| &end.how) {
            None => Exit::TimedOut,
            Some(Ending::Done(_)) => Exit::Ok,
            Some(Ending::Dead { .. }) => Exit::Dead,
            Some(Ending::Cancelled) => Exit::Cancelled,
        }
    }

    /// For a program: state null when it has not ended in time.
    fn as_json(&self) -> Value {
        let Some(end) = &self.end else { return json!({ "id": self.id, "state": null }) };
        let mut value = json!({
            "id": end.id,
            "state": end.state().as_str(),
            "attempt": end.attempt,
            "ended_at": end.ended_at,
            "worker": end.worker,
        });
        match &end.how {
            Ending::Done(result) => value["result"] = result.clone(),
            Ending::Dead { code, message } => value["error"] = json!({ "code": code, "message": message }),
            Ending::Cancelled => {}
        }
        value
    }

    /// For a person.
    fn sentence(&self, timeout: Option<Duration>) -> String {
        let id = self.id;
        let Some(end) = &self.end else {
            let time = timeout.map(span::short).unwrap_or_default();
            return format!("job {id} has not ended within {time}; ask why with `bugle job why {id}`");
        };
        match &end.how {
            Ending::Done(Value::Null) => format!("job {id} is done"),
            Ending::Done(result) => format!("job {id} is done: {result}"),
            Ending::Cancelled => format!("job {id} was cancelled"),
            Ending::Dead { code, message } => {
                let error: Vec<String> = code.iter().chain(message).map(|part| clean(part)).collect();
                let error = if error.is_empty() { String::new() } else { format!(": {}", error.join(": ")) };
                format!(
                    "job {id} is dead after attempt {}{error}; try it again with `bugle job retry {id}`",
                    end.attempt
                )
            }
        }
    }
}
