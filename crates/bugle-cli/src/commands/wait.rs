//! Waiting for jobs that have not ended: `bugle job wait` and `bugle enqueue --wait`.

use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, clean};
use crate::place::Place;
use crate::span;
use bugle::pg::embedded::Stay;
use bugle::{Bugle, End, Ending, Error, Handle, JobId};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How often what a person sees on the terminal turns.
const TURN: Duration = Duration::from_millis(120);

/// What came of one wait.
struct Waited {
    id: JobId,
    /// None: it has not ended in time.
    end: Option<End<Value>>,
}

/// Jobs that are waited for.
struct Waiting {
    open: Vec<JobId>,
    timeout: Option<Duration>,
    /// When the time is up; it begins with the wait.
    until: Option<Instant>,
    /// Of several codes the one that is most of a fault is the command's.
    worst: Exit,
    output: Output,
    progress: ProgressBar,
}

/// Waits for all jobs that `begin` names, or writes, and tells of each when it ends.
///
/// On a private server a wait must not keep out the worker that it waits for: it leaves the place to one that stays, and goes on as
/// his guest.
pub(super) async fn for_all(
    global: &Global,
    timeout: Option<Duration>,
    output: Output,
    begin: impl AsyncFnOnce(&Bugle) -> Result<Vec<Handle>, Failure>,
) -> Result<Exit, Failure> {
    let mut begin = Some(begin);
    let mut waiting =
        Waiting { open: Vec::new(), timeout, until: None, worst: Exit::Ok, output, progress: progress_bar() };
    loop {
        let ended = super::stay_on_place(global, Stay::Waiting, async |place| {
            let bugle = place.bugle(2).await?;
            let handles = match begin.take() {
                Some(begin) => begin(&bugle).await?,
                None => waiting.open.iter().map(|id| bugle.handle(*id)).collect(),
            };
            waiting.on(place, &handles).await
        })
        .await?;
        if ended {
            waiting.progress.finish_and_clear();
            return Ok(waiting.worst);
        }
        tracing::info!("leaving the private PostgreSQL to another command, to join it there");
    }
}

impl Waiting {
    /// Waits on one place. False: it is to be left, and they are to be waited for on the next one.
    async fn on(&mut self, place: &Place, handles: &[Handle]) -> Result<bool, Failure> {
        self.open = handles.iter().map(Handle::id).collect();
        if self.until.is_none() {
            self.until = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        }
        let waited = tokio::select! {
            waited = self.wait(handles) => waited,
            left = place.is_to_be_left() => return left.map(|()| false),
        };
        match waited {
            Err(failure) if place.is_left_with(&failure).await => Ok(false),
            waited => waited.map(|()| true),
        }
    }

    async fn wait(&mut self, handles: &[Handle]) -> Result<(), Failure> {
        let until = self.until;
        let mut waits: FuturesUnordered<_> = handles.iter().map(|handle| wait(handle, until)).collect();
        while !waits.is_empty() {
            self.progress.set_message(message(handles, waits.len()));
            let Some(waited) = waits.next().await else { break };
            let waited = waited?;
            let line = if self.output.is_json() {
                waited.as_json().to_string()
            } else {
                waited.sentence(self.timeout)
            };
            self.progress.suspend(|| self.output.line(&line))?;
            self.worst = [Exit::Dead, Exit::Cancelled, Exit::TimedOut]
                .into_iter()
                .find(|exit| [self.worst, waited.exit()].contains(exit))
                .unwrap_or(Exit::Ok);
            if let Some(place) = self.open.iter().position(|id| *id == waited.id) {
                self.open.remove(place);
            }
        }
        Ok(())
    }
}

async fn wait(handle: &Handle, until: Option<Instant>) -> Result<Waited, Error> {
    let end = match until {
        Some(until) => handle.wait_within(until.saturating_duration_since(Instant::now())).await?,
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
