//! The parts of a round.

use super::super::clock::between;
use super::super::figure::{number, rate};
use super::super::meter::Meter;
use super::super::scene::wire::{Kind, Late, Order, TIMER};
use super::contestant::{Client, Contestant, Course, Node};
use crate::failure::Failure;
use indicatif::ProgressBar;
use std::time::{Duration, Instant};

/// A node sleeps after this.
const SETTLE: Duration = Duration::from_secs(2);
/// Between two parts of a round.
const PAUSE: Duration = Duration::from_millis(300);
const LATENCY_EVERY: Duration = Duration::from_millis(100);
const TIMER_EVERY: Duration = Duration::from_millis(20);
const CALLERS: usize = 8;
const AFTER: Duration = Duration::from_secs(2);
/// Dispatchers of each kind: those of everything, and those of the second pair of bursts.
pub(super) const DISPATCHERS: [usize; 2] = [4, 8];

/// How much of each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    idle: Duration,
    instances: usize,
    fan_outs: usize,
    no_ops: usize,
    after: Duration,
}

impl Plan {
    pub(super) fn full(idle: u64, instances: usize) -> Self {
        Self { idle: Duration::from_secs(idle), instances, fan_outs: 200, no_ops: 300, after: AFTER }
    }

    pub(super) fn quick() -> Self {
        let (idle, after) = (Duration::from_secs(1), Duration::from_millis(500));
        Self { idle, instances: 5, fan_outs: 10, no_ops: 10, after }
    }
}

/// What a round gave for one contestant; times in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) idle_per_s: Option<f64>,
    pub(super) start_to_turn: Vec<f64>,
    pub(super) turn_to_work: Vec<f64>,
    pub(super) work_to_turn: Vec<f64>,
    pub(super) statements: Option<f64>,
    pub(super) timers: Vec<f64>,
    /// Instances a second, for each number of dispatchers.
    pub(super) fan_outs: [f64; 2],
    pub(super) no_ops: [f64; 2],
    pub(super) lease: f64,
    pub(super) abandon: f64,
}

/// All rounds; in each one for each contestant.
pub(super) async fn rounds(
    count: usize,
    plan: Plan,
    meter: Option<&Meter>,
    contestants: &[Contestant],
    bar: &ProgressBar,
) -> Result<Vec<Vec<Round>>, Failure> {
    let mut all = Vec::new();
    for n in 0..count {
        let mut rounds = idle(plan, meter, contestants).await?;
        bar.inc(1);
        for turn in 0..contestants.len() {
            let place = (turn + n) % contestants.len(); // another one begins each round
            let stage = Stage { plan, meter, contestant: &contestants[place], prefix: format!("r{n}") };
            Box::pin(stage.measure(&mut rounds[place])).await?;
            bar.inc(1);
        }
        all.push(rounds);
    }
    Ok(all)
}

/// All are idle side by side.
async fn idle(plan: Plan, meter: Option<&Meter>, contestants: &[Contestant]) -> Result<Vec<Round>, Failure> {
    let mut rounds: Vec<Round> = contestants.iter().map(|_| Round::default()).collect();
    let Some(meter) = meter else { return Ok(rounds) };
    let mut nodes = Vec::new();
    for contestant in contestants {
        nodes.push(contestant.node(DISPATCHERS[0]).await?);
    }
    tokio::time::sleep(SETTLE).await;
    let mut before = Vec::new();
    for contestant in contestants {
        before.push((meter.read(contestant.database()).await?, Instant::now()));
    }
    tokio::time::sleep(plan.idle).await;
    for ((contestant, round), (before, begun)) in contestants.iter().zip(&mut rounds).zip(before) {
        let (statements, _) = meter.read(contestant.database()).await?.since(before);
        round.idle_per_s = Some(rate(statements, begun.elapsed()));
    }
    for node in nodes {
        node.end().await;
    }
    Ok(rounds)
}

/// One contestant, alone.
struct Stage<'a> {
    plan: Plan,
    meter: Option<&'a Meter>,
    contestant: &'a Contestant,
    prefix: String,
}

impl Stage<'_> {
    async fn measure(&self, round: &mut Round) -> Result<(), Failure> {
        let mut client = self.contestant.client().await?;
        for (nth, dispatchers) in DISPATCHERS.into_iter().enumerate() {
            let mut node = self.contestant.node(dispatchers).await?;
            node.warm_up(&mut client, format!("{}-warm-{dispatchers}", self.prefix)).await?;
            tokio::time::sleep(SETTLE).await;
            if nth == 0 {
                self.latency(&mut client, &mut node, round).await?;
                self.timers(&mut client, &mut node, round).await?;
            }
            let (prefix, Plan { fan_outs, no_ops, .. }) =
                (format!("{}-{dispatchers}", self.prefix), self.plan);
            round.fan_outs[nth] = burst(&mut client, &mut node, Kind::FanOut, &prefix, fan_outs).await?;
            round.no_ops[nth] = burst(&mut client, &mut node, Kind::NoOp, &prefix, no_ops).await?;
            node.end().await;
        }
        let probe = Order::Probe { prefix: format!("{}-probe", self.prefix), after: self.plan.after };
        let late: Late = client.ask(&probe).await?;
        (round.lease, round.abandon) = (late.lease_ms, late.abandon_ms);
        client.end().await;
        Ok(())
    }

    async fn latency(&self, client: &mut Client, node: &mut Node, round: &mut Round) -> Result<(), Failure> {
        let before = match self.meter {
            Some(meter) => Some(meter.read(self.contestant.database()).await?),
            None => None,
        };
        let order = Order::Pace {
            kind: Kind::One,
            prefix: format!("{}-one", self.prefix),
            count: self.plan.instances,
            every: LATENCY_EVERY,
        };
        let sent = client.start(&order).await?;
        for Course { sent_ns, seen } in node.courses(sent).await? {
            round.start_to_turn.push(ms(between(sent_ns, seen.turn_ns)));
            round.turn_to_work.push(ms(between(seen.turn_ns, seen.work_ns)));
            round.work_to_turn.push(ms(between(seen.work_ns, seen.end_ns)));
        }
        tokio::time::sleep(PAUSE).await; // the last ack
        if let (Some(meter), Some(before)) = (self.meter, before) {
            let (statements, _) = meter.read(self.contestant.database()).await?.since(before);
            round.statements = Some(number(statements) / number(self.plan.instances));
        }
        Ok(())
    }

    async fn timers(&self, client: &mut Client, node: &mut Node, round: &mut Round) -> Result<(), Failure> {
        let (prefix, count) = (format!("{}-timer", self.prefix), self.plan.instances);
        let order = Order::Pace { kind: Kind::Timer, prefix, count, every: TIMER_EVERY };
        let sent = client.start(&order).await?;
        for Course { seen, .. } in node.courses(sent).await? {
            round.timers.push(ms(between(seen.turn_ns, seen.end_ns)) - ms(TIMER));
        }
        Ok(())
    }
}

/// So many as fast as it goes: instances a second.
async fn burst(
    client: &mut Client,
    node: &mut Node,
    kind: Kind,
    prefix: &str,
    count: usize,
) -> Result<f64, Failure> {
    tokio::time::sleep(PAUSE).await;
    let prefix = format!("{prefix}-{}", kind.name());
    let sent = client.start(&Order::Burst { kind, prefix, count, callers: CALLERS }).await?;
    let courses = node.courses(sent).await?;
    let begun = courses.iter().map(|course| course.sent_ns).min().unwrap_or_default();
    let ended = courses.iter().map(|course| course.seen.end_ns).max().unwrap_or_default();
    Ok(rate(count, between(begun, ended)))
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
