//! What is measured, in its order.

use super::super::floor::Floor;
use super::super::ground::Ground;
use super::super::hold::Flow;
use super::super::meter::Meter;
use super::super::progress;
use super::load::{self, Acks, Done, POP};
use super::losses::{self, Losses};
use super::server::Server;
use super::waiters::{Layout, Waiters};
use super::{held, streams};
use crate::failure::Failure;
use std::time::{Duration, Instant};

/// Connections that push one message at a time; as many sessions are the floor's.
const PUSHERS: usize = 50;
/// Connections that push 100 at a time, or pop.
const CALLERS: usize = 20;
const LAYOUTS: [Layout; 2] = [Layout::OneQueue, Layout::OwnPartition];
const PAUSE: Duration = Duration::from_millis(20);
/// What the server must be told to let so many streams wait.
const INTENTIONS: &str = "intentions_max=200000";

/// How much of everything.
pub(super) struct Plan {
    length: Duration,
    drained: usize,
    waiters: &'static [usize],
    /// So many who wait, in so many queues.
    capacity: &'static [(usize, usize)],
    pushes: usize,
    idle_waiters: usize,
    idle: Duration,
    streams: usize,
    backlog: usize,
    one_partition: usize,
    flow: Flow,
}

impl Plan {
    pub(super) const FULL: Self = Self {
        length: Duration::from_secs(5),
        drained: 100_000,
        waiters: &[1, 100, 1_000, 10_000],
        capacity: &[(100, 50), (500, 200), (1_000, 500), (5_000, 2_000)],
        pushes: 100,
        idle_waiters: 10_000,
        idle: Duration::from_secs(30),
        streams: 100_000,
        backlog: 1_000_000,
        one_partition: 150_000,
        flow: Flow { window: Duration::from_secs(10), windows: 6 },
    };
    pub(super) const QUICK: Self = Self {
        length: Duration::from_millis(300),
        drained: 2_000,
        waiters: &[1, 20],
        capacity: &[(20, 5)],
        pushes: 5,
        idle_waiters: 50,
        idle: Duration::from_secs(1),
        streams: 200,
        backlog: 5_000,
        one_partition: 1_600,
        flow: Flow { window: Duration::from_millis(200), windows: 4 },
    };
}

/// A side over HTTP, and the rate of its floor.
pub(super) struct Side {
    pub(super) floor_per_s: f64,
    pub(super) done: Done,
}

/// Latencies of pushes to so many who wait.
pub(super) struct Woken {
    pub(super) waiters: usize,
    pub(super) layout: Layout,
    pub(super) milliseconds: Vec<f64>,
}

pub(super) struct Round {
    pub(super) push_1: Side,
    pub(super) push_100: Side,
    pub(super) pop_ack: Side,
    pub(super) pop_auto: Side,
    pub(super) woken: Vec<Woken>,
}

/// What those who wait cost.
pub(super) struct Idle {
    pub(super) waiters: usize,
    /// None where statements cannot be counted.
    pub(super) statements_per_s: Option<f64>,
    pub(super) bytes_each: f64,
    pub(super) streams: usize,
    pub(super) stream_bytes_each: f64,
}

pub(super) struct Measured {
    pub(super) rounds: Vec<Round>,
    pub(super) idle: Idle,
    pub(super) backlog: Done,
    pub(super) losses: Losses,
    pub(super) held_windows_per_s: Vec<f64>,
}

pub(super) async fn all(
    rounds: usize,
    plan: &Plan,
    ground: &Ground,
    meter: Option<&Meter>,
) -> Result<Measured, Failure> {
    let bar = progress::bar(rounds + 4);
    let server = Server::start(ground, &[]).await?;
    let mut measured = Vec::new();
    for number in 0..rounds {
        measured.push(round(plan, ground, &server, number).await?);
        bar.inc(1);
    }
    let backlog = backlog(plan, &server).await?;
    bar.inc(1);
    let losses = losses::run(server.address(), "one-partition", plan.one_partition).await?;
    bar.inc(1);
    let held_windows_per_s = held::run(ground, server.address(), "held", plan.flow).await?;
    bar.inc(1);
    server.stop().await;
    let idle = idle(plan, ground, meter).await?;
    bar.finish_and_clear();
    Ok(Measured { rounds: measured, idle, backlog, losses, held_windows_per_s })
}

async fn round(plan: &Plan, ground: &Ground, server: &Server, number: usize) -> Result<Round, Failure> {
    let (floor, address) = (Floor { ground }, server.address());
    let queue = |of: &str| format!("{of}-{number}");
    floor.clear().await?;
    let floor_per_s = floor.insert_single(PUSHERS, plan.length).await?;
    ground.checkpoint().await?;
    let done = load::push(address, PUSHERS, &queue("single"), 1, plan.length).await?;
    let push_1 = Side { floor_per_s, done };

    floor.clear().await?;
    let floor_per_s = floor.insert_many(CALLERS, POP, plan.length).await?;
    ground.checkpoint().await?;
    let done = load::push(address, CALLERS, &queue("many"), POP, plan.length).await?;
    let push_100 = Side { floor_per_s, done };

    floor.clear().await?;
    floor.insert(plan.drained).await?;
    let floor_per_s = floor.drain(i64::try_from(POP).unwrap_or(i64::MAX)).await?;
    load::fill(address, &queue("drain"), plan.drained).await?;
    ground.checkpoint().await?;
    let pop =
        async |group, acks| load::pop(address, CALLERS, (&queue("drain"), group), acks, plan.drained).await;
    let pop_ack = Side { floor_per_s, done: pop("own", Acks::Own).await? };
    let pop_auto = Side { floor_per_s, done: pop("auto", Acks::Auto).await? };

    let mut woken = Vec::new();
    for layout in LAYOUTS {
        for &waiters in plan.waiters {
            let queue = queue(&format!("wait-{waiters}-{layout:?}"));
            woken.push(wake(plan, server, &queue, layout, waiters).await?);
        }
    }
    for &(waiters, queues) in plan.capacity {
        let queue = queue(&format!("capacity-{waiters}"));
        woken.push(wake(plan, server, &queue, Layout::Queues(queues), waiters).await?);
    }
    Ok(Round { push_1, push_100, pop_ack, pop_auto, woken })
}

async fn wake(
    plan: &Plan,
    server: &Server,
    queue: &str,
    layout: Layout,
    waiters: usize,
) -> Result<Woken, Failure> {
    let clock = Instant::now();
    let mut waiting = Waiters::start(server.address(), queue, layout, waiters, clock).await?;
    let milliseconds = waiting.latencies(server.address(), plan.pushes, PAUSE, clock).await;
    waiting.end().await;
    Ok(Woken { waiters, layout, milliseconds: milliseconds? })
}

async fn backlog(plan: &Plan, server: &Server) -> Result<Done, Failure> {
    load::fill(server.address(), "backlog", plan.backlog).await?;
    let first = plan.drained.min(plan.backlog);
    load::pop(server.address(), CALLERS, ("backlog", "own"), Acks::Own, first).await
}

/// On servers of their own: what came before would be in their memory.
async fn idle(plan: &Plan, ground: &Ground, meter: Option<&Meter>) -> Result<Idle, Failure> {
    let server = Server::start(ground, &[]).await?;
    load::fill(server.address(), "warm", POP).await?;
    let before = server.resident_bytes().await?;
    let waiting =
        Waiters::start(server.address(), "idle", Layout::OneQueue, plan.idle_waiters, Instant::now()).await?;
    let bytes_each = each(server.resident_bytes().await?, before, plan.idle_waiters);
    let read = async || match meter {
        Some(meter) => meter.read(ground.database()).await.map(Some),
        None => Ok(None),
    };
    let earlier = read().await?;
    tokio::time::sleep(plan.idle).await;
    let statements_per_s = read()
        .await?
        .zip(earlier)
        .map(|(now, earlier)| super::super::figure::rate(now.since(earlier).0, plan.idle));
    waiting.end().await;
    server.stop().await;

    let server = Server::start(ground, &["--wake", INTENTIONS]).await?;
    load::fill(server.address(), "warm", POP).await?;
    let before = server.resident_bytes().await?;
    let waiting = streams::wait(server.address(), "idle", plan.streams).await?;
    let stream_bytes_each = each(server.resident_bytes().await?, before, plan.streams);
    drop(waiting);
    server.stop().await;
    Ok(Idle {
        waiters: plan.idle_waiters,
        statements_per_s,
        bytes_each,
        streams: plan.streams,
        stream_bytes_each,
    })
}

/// What each of so many takes of what there is more than before.
fn each(now: u64, before: u64, count: usize) -> f64 {
    let more = u32::try_from(now.saturating_sub(before) / 1024).unwrap_or(u32::MAX);
    f64::from(more) * 1024.0 / super::super::figure::number(count)
}
