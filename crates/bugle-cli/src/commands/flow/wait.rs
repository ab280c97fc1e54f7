//! Waiting for the ends of runs: `bugle flow wait` and `bugle flow start --wait`.

use crate::args::Global;
use crate::commands::stay_on_place;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, clean};
use crate::place::Place;
use crate::span;
use bugle::flow::inspect::FailedStep;
use bugle::flow::{Flow, Run, RunId, RunState};
use bugle::pg::embedded::Stay;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// Wait until runs have ended, and tell what came of each
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle flow wait 42
  bugle flow wait 42 43 --timeout 5m
  bugle flow wait 42 --output json | jq .outputs

One line a run, in the order in which they end. Waiting asks nothing of the database: it is told of each end. Outputs are
those of the steps that no other comes after.

Exit codes:
  0 all succeeded   4 there is no such run   5 one failed   6 one was cancelled   7 one has not ended in time")]
pub(super) struct Args {
    /// The runs' numbers, as start or `bugle flow ls` prints them
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<RunId>,
    /// No longer than this, such as 30s or 5m
    #[arg(long, value_name = "TIME", value_parser = span::parse, allow_hyphen_values = true)]
    timeout: Option<Duration>,
}

pub(super) async fn run(args: &Args, global: &Global, output: Output) -> Result<Exit, Failure> {
    let all = async |flow: &Flow| {
        for run in &args.runs {
            if flow.show(*run).await?.is_none() {
                return Err(Failure::nothing(format!(
                    "there is no run {run} in namespace {}; look with `bugle flow ls` (ended runs are kept for some days)",
                    global.namespace
                )));
            }
        }
        Ok(args.runs.clone())
    };
    for_all(global, args.timeout, output, all).await
}

/// Runs that are waited for.
struct Waiting {
    open: Vec<RunId>,
    timeout: Option<Duration>,
    /// When the time is up; it begins with the wait.
    until: Option<Instant>,
    worst: Exit,
    output: Output,
}

/// Waits for all runs that `begin` names, or starts, and tells of each when it ends.
///
/// On a private server a wait must not keep out the worker that it waits for: it leaves the place to one that stays, and goes on as
/// his guest.
pub(super) async fn for_all(
    global: &Global,
    timeout: Option<Duration>,
    output: Output,
    begin: impl AsyncFnOnce(&Flow) -> Result<Vec<RunId>, Failure>,
) -> Result<Exit, Failure> {
    let mut begin = Some(begin);
    let mut waiting = Waiting { open: Vec::new(), timeout, until: None, worst: Exit::Ok, output };
    loop {
        let ended = stay_on_place(global, Stay::Waiting, async |place| {
            let flow = place.bugle(2).await?.flow();
            if let Some(begin) = begin.take() {
                waiting.open = begin(&flow).await?;
            }
            waiting.on(place, &flow).await
        })
        .await?;
        if ended {
            return Ok(waiting.worst);
        }
        tracing::info!("leaving the private PostgreSQL to another command, to join it there");
    }
}

impl Waiting {
    /// Waits on one place. False: it is to be left, and they are to be waited for on the next one.
    async fn on(&mut self, place: &Place, flow: &Flow) -> Result<bool, Failure> {
        if self.until.is_none() {
            self.until = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        }
        let waited = tokio::select! {
            waited = self.wait(flow) => waited,
            left = place.is_to_be_left() => return left.map(|()| false),
        };
        match waited {
            Err(failure) if place.is_left_with(&failure).await => Ok(false),
            waited => waited.map(|()| true),
        }
    }

    async fn wait(&mut self, flow: &Flow) -> Result<(), Failure> {
        let until = self.until;
        let mut waits: FuturesUnordered<_> = self
            .open
            .iter()
            .map(|id| {
                let (id, handle) = (*id, flow.handle(*id));
                async move {
                    let run = match until {
                        Some(until) => {
                            handle.wait_within(until.saturating_duration_since(Instant::now())).await?
                        }
                        None => Some(handle.wait().await?),
                    };
                    Ok::<_, Failure>((id, run))
                }
            })
            .collect();
        while let Some(waited) = waits.next().await {
            let (id, run) = waited?;
            let exit = self.tell(id, run, flow).await?;
            self.worst = [Exit::Dead, Exit::Cancelled, Exit::TimedOut]
                .into_iter()
                .find(|worse| [self.worst, exit].contains(worse))
                .unwrap_or(Exit::Ok);
            self.open.retain(|open| *open != id);
        }
        Ok(())
    }

    /// Tells what came of one of them; none: it has not ended in time.
    async fn tell(&self, id: RunId, run: Option<Run>, flow: &Flow) -> Result<Exit, Failure> {
        let failed = match &run {
            Some(run) if run.state == RunState::Failed => flow
                .show_dead(id)
                .await?
                .and_then(|dead| dead.failed.into_iter().find(|step| !step.is_seen_to)),
            _ => None,
        };
        let line = if self.output.is_json() {
            as_json(id, run.as_ref(), failed.as_ref(), flow).await?.to_string()
        } else {
            self.sentence(id, run.as_ref(), failed.as_ref())
        };
        self.output.line(&line)?;
        Ok(match run.map(|run| run.state) {
            None => Exit::TimedOut,
            Some(RunState::Failed) => Exit::Dead,
            Some(RunState::Cancelled) => Exit::Cancelled,
            Some(_) => Exit::Ok,
        })
    }

    fn sentence(&self, id: RunId, run: Option<&Run>, failed: Option<&FailedStep>) -> String {
        let Some(run) = run else {
            let time = self.timeout.map(span::short).unwrap_or_default();
            return format!("run {id} has not ended within {time}; ask why with `bugle flow why {id}`");
        };
        let took =
            run.ended_at.map(|ended| span::short((ended - run.created_at).to_std().unwrap_or_default()));
        let took = took.unwrap_or_default();
        match run.state {
            RunState::Cancelled => format!("run {id} was cancelled after {took}"),
            RunState::Failed => {
                let why = failed.map_or_else(
                    || "it did not end within its deadline".to_owned(),
                    |step| {
                        let parts = [step.code.as_deref(), step.message.as_deref()];
                        let error: Vec<_> = parts.into_iter().flatten().map(clean).collect();
                        format!("step {}: {}", step.step, error.join(": "))
                    },
                );
                format!("run {id} failed after {took}: {why}; see more with `bugle flow dead {id}`")
            }
            _ => format!("run {id} succeeded after {took}"),
        }
    }
}

/// For a program: state null when it has not ended in time.
async fn as_json(
    id: RunId,
    run: Option<&Run>,
    failed: Option<&FailedStep>,
    flow: &Flow,
) -> Result<Value, Failure> {
    let Some(run) = run else { return Ok(json!({ "id": id, "state": null })) };
    let mut value = json!({
        "id": id,
        "definition": run.definition,
        "version": run.version,
        "state": run.state,
        "ended_at": run.ended_at,
        "outputs": outputs(run, flow).await?,
    });
    if run.state == RunState::Failed {
        value["error"] = match failed {
            Some(step) => json!({
                "step": step.step,
                "element": step.element,
                "code": step.code,
                "message": step.message,
            }),
            None => json!({ "code": "deadline", "message": "the run did not end within its deadline" }),
        };
    }
    Ok(value)
}

/// Of the steps that no other comes after.
async fn outputs(run: &Run, flow: &Flow) -> Result<Map<String, Value>, Failure> {
    let mut outputs = Map::new();
    let detail = flow.show_run(run.id).await?;
    for step in detail.into_iter().flat_map(|detail| detail.steps).filter(|step| step.is_last) {
        if let Some(output) = step.row.output {
            outputs.insert(step.row.name, serde_json::from_str(output.0.get()).unwrap_or_default());
        }
    }
    Ok(outputs)
}
