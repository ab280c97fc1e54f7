//! Nodes of workflows: those that start runs, and those that run steps.

use super::node::Config;
use anyhow::Context as _;
use bugle::flow::definition::{Definition, Step as NewStep};
use bugle::flow::{RunId, Step};
use bugle::jobs::Backoff;
use bugle::{Bugle, Done, Verdict};
use serde::{Deserialize, Serialize};
use sqlx::AssertSqlSafe;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The name of the one definition.
pub(super) const DEFINITION: &str = "diamond";
/// What the file ends with into which a starter writes what it asked for and was told.
pub(super) const STARTS: &str = "starts";
/// Connections of a node: for what its workers tell, and for what its handlers write.
pub(super) const CONNECTIONS: u32 = 4;

/// Callers of one starter.
const CALLERS: u32 = 4;
/// Workers of one node.
const WORKERS: u32 = 4;
/// Most runs that have not ended; beyond it a starter asks again for what it has, so that everything ends in time.
const OPEN_RUNS_MAX: i64 = 60;
/// More than a run of the matrix can use up: whatever dies, every run succeeds in the end.
const ATTEMPTS: u16 = 100;

/// Two ways from `a` to `d`, of which one is tried twice, and a third that Bugle goes itself.
pub(super) fn definition() -> anyhow::Result<Definition> {
    let brief = Backoff::Exponential {
        base: Duration::from_millis(10),
        max: Duration::from_millis(100),
        jitter: 0.5,
    };
    let task = |name: &str| NewStep::task(name).attempts(ATTEMPTS).backoff(brief.clone());
    Ok(Definition::builder(DEFINITION)
        .step(task("a"))
        .step(task("b").after("a"))
        .step(task("c").after("a"))
        .step(NewStep::sleep("nap", Duration::from_millis(20)).after("a"))
        .step(task("d").after("b").after("c").after("nap"))
        .build()?)
}

/// A line of a starter's file: a call that begins, or its answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// Asked for a run with this key.
    Ask(String),
    /// Was told that this is the one.
    Got(String, RunId),
}

/// A starter's file. Whole lines, each in one write: what is in it outlives its process.
struct Starts(File);

impl Starts {
    fn write(&self, line: &Line) -> anyhow::Result<()> {
        Ok((&self.0).write_all(format!("{}\n", serde_json::to_string(line)?).as_bytes())?)
    }
}

/// All files of starters in this folder.
pub(super) fn files_of_starters(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let files = std::fs::read_dir(folder)?.map(|file| Ok(file?.path()));
    let files: Vec<PathBuf> = files.collect::<anyhow::Result<_>>()?;
    Ok(files.into_iter().filter(|file| file.extension().is_some_and(|end| end == STARTS)).collect())
}

/// Starts runs until told to stop. A start whose answer was lost is asked for again, with the same key.
pub(super) async fn start(bugle: &Bugle, config: &Config, stop: &CancellationToken) -> anyhow::Result<()> {
    let folder = config.recorder.parent().context("the recorder has no folder")?;
    let file = folder.join(&config.who).with_extension(STARTS);
    let starts = Arc::new(Starts(OpenOptions::new().create(true).append(true).open(file)?));
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (flow, bugle, starts, stop) = (bugle.flow(), bugle.clone(), starts.clone(), stop.clone());
        let who = config.who.clone();
        callers.spawn(async move {
            let mut number = 0_u64;
            while !stop.is_cancelled() {
                if open_runs(&bugle).await.is_some_and(|open| open < OPEN_RUNS_MAX) {
                    number += 1;
                }
                let key = format!("{who}-{caller}-{number}");
                while !stop.is_cancelled() {
                    starts.write(&Line::Ask(key.clone()))?;
                    if let Ok(run) = flow.start(DEFINITION, &number).key(&key).send().await {
                        starts.write(&Line::Got(key.clone(), run.id()))?;
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            anyhow::Ok(())
        });
    }
    callers.join_all().await.into_iter().collect()
}

async fn open_runs(bugle: &Bugle) -> Option<i64> {
    let sql = bugle.schema().place_in("SELECT count(*) FROM bugle.run WHERE ended_at IS NULL");
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(bugle.pool()).await.ok()
}

/// Runs steps until told to stop; with `engine`, does also what Bugle has to do itself.
pub(super) async fn work(
    bugle: &Bugle,
    config: &Config,
    engine: bool,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let mut tasks = JoinSet::new();
    for number in 0..WORKERS {
        let flow = bugle.flow();
        let mut worker = flow
            .worker("steps")
            .concurrency(2)
            .lease(Duration::from_millis(config.lease_ms))
            .name(format!("{}-{number}", config.who));
        for name in ["a", "b", "c", "d"] {
            let bugle = bugle.clone();
            worker = worker.handle(name, move |step| {
                let bugle = bugle.clone();
                async move { run_step(&bugle, &step).await }
            });
        }
        tasks.spawn(worker.run(stop.clone()));
    }
    if engine {
        let (flow, stop) = (bugle.flow(), stop.clone());
        tasks.spawn(async move {
            while let Err(error) = flow.run_engine(stop.clone()).await {
                if stop.is_cancelled() {
                    return Err(error);
                }
                tokio::time::sleep(Duration::from_millis(50)).await; // the server may be down just now
            }
            Ok(())
        });
    }
    for ended in tasks.join_all().await {
        ended?;
    }
    Ok(())
}

/// Tells that it was here, takes its time, and ends with what its parents brought about.
async fn run_step(bugle: &Bugle, step: &Step) -> Verdict {
    use bugle::jobs::worker::IntoVerdict as _;
    let effect = bugle.schema().place_in(include_str!("flow_effect.sql"));
    let effect = sqlx::query(AssertSqlSafe(effect))
        .bind(step.run)
        .bind(&step.name)
        .bind(i32::from(step.attempt))
        .execute(bugle.pool());
    if let Err(error) = effect.await {
        return Verdict::fail("effect", error.to_string());
    }
    // Now and then longer than it takes to renew a lease.
    let time = if rand::random_range(0..20) == 0 { 200..900 } else { 0..20 };
    tokio::time::sleep(Duration::from_millis(rand::random_range(time))).await;
    if step.name == "b" && step.attempt == 1 {
        return Verdict::fail("first", "the first attempt of this step always fails");
    }
    match output(step) {
        Ok(sum) => Done(sum).into_verdict(),
        Err(error) => Verdict::dead("inputs", error.to_string()),
    }
}

/// One more than what goes in: whoever is given too little, or something else, is found by the sum of `d`.
fn output(step: &Step) -> Result<u64, serde_json::Error> {
    match step.name.as_str() {
        "a" => step.input::<u64>().map(|input| input + 1),
        "d" => Ok(step.output::<u64>("b")? + step.output::<u64>("c")? + 1),
        _ => step.output::<u64>("a").map(|before| before + 1),
    }
}
