//! What is measured in a round, and of an idle node.

use super::super::child::Child;
use super::super::figure::number;
use super::super::ground::Ground;
use super::super::meter::Meter;
use super::super::wire::{Looks, Order, Part};
use super::shapes::{BURST, IDLE, SHAPES, Shape};
use crate::failure::Failure;
use crate::place::Place;
use bugle::flow::{Definition, For, RunHandle, RunState};
use bugle::name::NamespaceName;
use bugle::{Bugle, Mode};
use futures_util::future::try_join_all;
use indicatif::ProgressBar;
use std::time::{Duration, Instant};

pub(super) const MODES: [Mode; 3] = [Mode::Hybrid, Mode::EventDrivenOnly, Mode::PollingOnly];
/// As the systems poll that push replaces.
const POLL: Duration = Duration::from_secs(1);
const SLOTS: u32 = 8;
/// Runs of a burst.
pub(super) const AT_ONCE: usize = 100;
/// Where the mode polls, a run takes seconds.
const POLLED_RUNS: usize = 2;
/// The longest that a run may take.
const PATIENCE: Duration = Duration::from_mins(3);
/// Nodes have heard of another mode after this.
const SWITCH: Duration = Duration::from_secs(1);

#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) rounds: usize,
    pub(super) runs: usize,
    pub(super) waves: usize,
    pub(super) idle: Duration,
    pub(super) settle: Duration,
    pub(super) namespaces: usize,
}

/// What a round gave in one mode.
pub(super) struct Round {
    pub(super) mode: Mode,
    /// For each shape: milliseconds of each run, and between settlements and claims.
    pub(super) stages: Vec<Stages>,
    /// For each step; none where they cannot be counted.
    pub(super) statements: Option<f64>,
    /// Of each burst.
    pub(super) bursts: Vec<Duration>,
}

pub(super) struct Stages {
    pub(super) lengths: Vec<f64>,
    pub(super) gaps: Vec<f64>,
}

/// What an idle node did.
pub(super) struct Idle {
    pub(super) namespaces: usize,
    pub(super) watched: Duration,
    /// Reasons to look but the heartbeat, and how often.
    pub(super) looks_beyond: Vec<(String, u64)>,
    pub(super) heartbeats: u64,
    pub(super) statements: Option<usize>,
    /// Of the run after it, from its start to its end.
    pub(super) run: Duration,
}

pub(super) async fn rounds(
    plan: Plan,
    place: &Place,
    meter: Option<&Meter>,
    bar: &ProgressBar,
) -> Result<Vec<Round>, Failure> {
    let ground = Ground::with_tables(place, "flow").await?;
    let measured = rounds_on(plan, &ground, meter, bar).await;
    let dropped = ground.drop().await;
    let rounds = measured?;
    dropped.map(|()| rounds)
}

async fn rounds_on(
    plan: Plan,
    ground: &Ground,
    meter: Option<&Meter>,
    bar: &ProgressBar,
) -> Result<Vec<Round>, Failure> {
    let bugle = ground.bugle(16).await?;
    for shape in SHAPES.iter().chain([&BURST]) {
        define(&bugle, shape.yaml).await?;
    }
    let part = |sets: &[&str]| Part::Flow {
        sets: sets.iter().map(|&set| set.to_owned()).collect(),
        slots: SLOTS,
        namespaces: 1,
    };
    let nodes = [ground.start(part(&["left", "burst"])).await?, ground.start(part(&["right"])).await?];
    let mut measured = Vec::new();
    for _ in 0..plan.rounds {
        for mode in MODES {
            let poll = (mode == Mode::PollingOnly).then_some(POLL);
            bugle.flow().set_mode(Some(mode), poll, For::Namespace).await?;
            tokio::time::sleep(SWITCH).await;
            measured.push(round(plan, mode, ground, &bugle, meter).await?);
            bar.inc(1);
        }
    }
    for node in nodes {
        node.end().await;
    }
    bugle.close().await;
    Ok(measured)
}

async fn define(bugle: &Bugle, yaml: &str) -> Result<(), Failure> {
    let definition = Definition::parse_yaml(yaml).map_err(|faults| Failure::server(faults.to_string()))?;
    bugle.flow().define(&definition).await?;
    Ok(())
}

async fn round(
    plan: Plan,
    mode: Mode,
    ground: &Ground,
    bugle: &Bugle,
    meter: Option<&Meter>,
) -> Result<Round, Failure> {
    let polls = mode == Mode::PollingOnly;
    let runs = if polls { POLLED_RUNS } else { plan.runs };
    run_one(bugle, "linear").await?; // plans are made, caches are warm
    let mut stages = Vec::new();
    let mut statements = None;
    for (n, shape) in SHAPES.iter().enumerate() {
        let before = read(meter, ground).await?;
        let ids = one_after_the_other(bugle, shape, runs).await?;
        let after = read(meter, ground).await?;
        if n == 0 {
            statements = before.zip(after).map(|(before, after)| per_step(after - before, runs, shape));
        }
        stages.push(Stages {
            lengths: milliseconds(ground, include_str!("../sql/flow_lengths.sql"), &ids).await?,
            gaps: milliseconds(ground, include_str!("../sql/flow_gaps.sql"), &ids).await?,
        });
    }
    let mut bursts = Vec::new();
    for _ in 0..if polls { 1 } else { plan.waves } {
        bursts.push(burst(bugle).await?);
    }
    Ok(Round { mode, stages, statements, bursts })
}

/// Statements of the database so far.
async fn read(meter: Option<&Meter>, ground: &Ground) -> Result<Option<i64>, Failure> {
    match meter {
        Some(meter) => Ok(Some(meter.read(ground.database()).await?.statements)),
        None => Ok(None),
    }
}

/// Whoever starts a run and waits for it sends four: the start, where its end will be told, one look for the end, and the run itself.
fn per_step(statements: i64, runs: usize, shape: &Shape) -> f64 {
    let (all, runs) = (f64::from(i32::try_from(statements).unwrap_or(i32::MAX)), number(runs));
    (all - 4.0 * runs) / (runs * number(shape.steps))
}

async fn one_after_the_other(bugle: &Bugle, shape: &Shape, runs: usize) -> Result<Vec<i64>, Failure> {
    let name = shape.yaml.trim_start().lines().next().and_then(|line| line.strip_prefix("name: "));
    let name = name.ok_or_else(|| Failure::server("a workflow of the benchmark has no name"))?;
    let mut ids = Vec::with_capacity(runs);
    for _ in 0..runs {
        ids.push(run_one(bugle, name).await?);
    }
    Ok(ids)
}

async fn run_one(bugle: &Bugle, name: &str) -> Result<i64, Failure> {
    let run = bugle.flow().start(name, &()).send().await?;
    ends_well(&run).await?;
    Ok(run.id().0)
}

async fn ends_well(run: &RunHandle) -> Result<(), Failure> {
    match run.wait_within(PATIENCE).await? {
        Some(ended) if ended.state == RunState::Succeeded => Ok(()),
        Some(ended) => {
            Err(Failure::server(format!("a run of the benchmark ended as {}", ended.state.as_str())))
        }
        None => Err(Failure::server(format!("a run of the benchmark did not end within {PATIENCE:?}"))),
    }
}

async fn milliseconds(ground: &Ground, sql: &'static str, runs: &[i64]) -> Result<Vec<f64>, Failure> {
    Ok(sqlx::query_scalar(sql).bind(runs).fetch_all(ground.pool()).await?)
}

/// From before the first start to the end of the last.
async fn burst(bugle: &Bugle) -> Result<Duration, Failure> {
    let begun = Instant::now();
    let runs = (0..AT_ONCE).map(|_| async {
        let run = bugle.flow().start("burst", &()).send().await?;
        ends_well(&run).await
    });
    try_join_all(runs).await?;
    Ok(begun.elapsed())
}

pub(super) async fn idle(plan: Plan, place: &Place, meter: Option<&Meter>) -> Result<Idle, Failure> {
    let ground = Ground::with_tables(place, "flow_idle").await?;
    let measured = idle_on(plan, &ground, meter).await;
    let dropped = ground.drop().await;
    let idle = measured?;
    dropped.map(|()| idle)
}

/// What has been counted since.
fn new_ones(before: &Looks, after: std::collections::BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let since = |why: &str, n: u64| n - before.beyond.get(why).copied().unwrap_or(0);
    after.into_iter().map(|(why, n)| (why.clone(), since(&why, n))).filter(|(_, n)| *n > 0).collect()
}

async fn idle_on(plan: Plan, ground: &Ground, meter: Option<&Meter>) -> Result<Idle, Failure> {
    let bugle = ground.bugle(4).await?;
    let mut last = bugle.clone();
    for n in 0..plan.namespaces {
        let name = NamespaceName::parse(&format!("space {n}"))?;
        bugle.create_namespace(&name).await?;
        last = bugle.in_namespace(&name).await?;
        define(&last, IDLE).await?;
    }
    let part = Part::Flow { sets: vec!["steps".to_owned()], slots: SLOTS, namespaces: plan.namespaces };
    let mut node: Child = ground.start(part).await?;
    tokio::time::sleep(plan.settle).await;
    let (before, looks): (_, Looks) = (read(meter, ground).await?, node.ask(&Order::Looks).await?);
    tokio::time::sleep(plan.idle).await;
    let (after, looked): (_, Looks) = (read(meter, ground).await?, node.ask(&Order::Looks).await?);
    let begun = Instant::now();
    run_one(&last, "idle").await?;
    let run = begun.elapsed();
    node.end().await;
    bugle.close().await;
    Ok(Idle {
        namespaces: plan.namespaces,
        watched: plan.idle,
        looks_beyond: new_ones(&looks, looked.beyond),
        heartbeats: looked.heartbeats - looks.heartbeats,
        statements: before.zip(after).map(|(before, after)| usize::try_from(after - before).unwrap_or(0)),
        run,
    })
}
