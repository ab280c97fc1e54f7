//! The figures of `bugle bench flow`.

use super::super::check::{Check, Target};
use super::super::figure::{Figure, Percentiles, median, number, rate};
use super::phases::{AT_ONCE, Idle, MODES, Round, Stages};
use super::shapes::{BURST, SHAPES};
use crate::output::{Align, Table};
use bugle::Mode;
use serde::Serialize;

#[derive(Serialize)]
pub(in super::super) struct Answer {
    modes: Vec<OfMode>,
    /// Steps a second of a burst, hybrid beside polling, of the same round.
    burst_ratio: Option<Figure>,
    /// The length of a linear run, polling beside hybrid, of the same round.
    length_ratio: Option<Figure>,
    idle: Option<OfIdle>,
}

#[derive(Serialize)]
struct OfMode {
    mode: &'static str,
    shapes: Vec<OfShape>,
    /// From a settlement to the claim that it allows, of all shapes and rounds.
    change_to_claim_p50_ms: f64,
    change_to_claim_p99_ms: f64,
    statements_per_step: Option<Figure>,
    burst_steps_per_s: Option<Figure>,
    burst_runs_per_s: Option<Figure>,
}

#[derive(Serialize)]
struct OfShape {
    shape: &'static str,
    runs: usize,
    run_p50_ms: f64,
    run_p99_ms: f64,
    stage_p50_ms: f64,
}

#[derive(Serialize)]
struct OfIdle {
    namespaces: usize,
    seconds: f64,
    looks_beyond_the_heartbeat: u64,
    /// Of these, by reason.
    reasons: Vec<(String, u64)>,
    heartbeats: u64,
    statements: Option<usize>,
    run_ms: f64,
}

impl Answer {
    pub(super) fn of(rounds: &[Round], idle: Option<Idle>) -> Self {
        let of = |mode| rounds.iter().filter(move |round| round.mode == mode);
        let ratio = |of_round: fn(&Round) -> f64| {
            let pairs = of(Mode::Hybrid).zip(of(Mode::PollingOnly));
            Figure::of(&pairs.map(|(push, poll)| of_round(push) / of_round(poll)).collect::<Vec<_>>())
        };
        Self {
            modes: MODES
                .into_iter()
                .filter_map(|mode| OfMode::of(mode, &of(mode).collect::<Vec<_>>()))
                .collect(),
            burst_ratio: ratio(steps_per_s),
            length_ratio: ratio(|round| 1.0 / linear_ms(round)),
            idle: idle.map(|idle| OfIdle {
                namespaces: idle.namespaces,
                seconds: idle.watched.as_secs_f64(),
                looks_beyond_the_heartbeat: idle.looks_beyond.iter().map(|(_, n)| n).sum(),
                reasons: idle.looks_beyond,
                heartbeats: idle.heartbeats,
                statements: idle.statements,
                run_ms: idle.run.as_secs_f64() * 1e3,
            }),
        }
    }

    pub(super) fn is_metered(&self) -> bool {
        self.modes.iter().all(|mode| mode.statements_per_step.is_some())
    }
}

/// The median of a round's bursts.
fn steps_per_s(round: &Round) -> f64 {
    let rates: Vec<f64> = round.bursts.iter().map(|time| rate(AT_ONCE * BURST.steps, *time)).collect();
    median(&rates)
}

fn linear_ms(round: &Round) -> f64 {
    round.stages.first().map_or(f64::NAN, |stages| median(&stages.lengths))
}

impl OfMode {
    fn of(mode: Mode, rounds: &[&Round]) -> Option<Self> {
        let all = |n: usize, which: fn(&Stages) -> &Vec<f64>| -> Vec<f64> {
            rounds.iter().filter_map(|round| round.stages.get(n)).flat_map(which).copied().collect()
        };
        let mut gaps = Vec::new();
        let mut shapes = Vec::new();
        for (n, shape) in SHAPES.iter().enumerate() {
            let lengths = all(n, |stages| &stages.lengths);
            gaps.extend(all(n, |stages| &stages.gaps));
            let found = Percentiles::of(&lengths)?;
            shapes.push(OfShape {
                shape: shape.name,
                runs: lengths.len(),
                run_p50_ms: found.p50,
                run_p99_ms: found.p99,
                stage_p50_ms: found.p50 / number(shape.stages),
            });
        }
        let gaps = Percentiles::of(&gaps)?;
        let statements: Vec<f64> = rounds.iter().filter_map(|round| round.statements).collect();
        let bursts: Vec<f64> = rounds.iter().map(|round| steps_per_s(round)).collect();
        let runs: Vec<f64> = bursts.iter().map(|steps| steps / number(BURST.steps)).collect();
        Some(Self {
            mode: mode.as_str(),
            shapes,
            change_to_claim_p50_ms: gaps.p50,
            change_to_claim_p99_ms: gaps.p99,
            statements_per_step: Figure::of(&statements),
            burst_steps_per_s: Figure::of(&bursts),
            burst_runs_per_s: Figure::of(&runs),
        })
    }
}

pub(super) fn tables(answer: &Answer) -> Vec<Table> {
    let mut tables = vec![stages(answer), costs(answer)];
    tables.extend(answer.idle.as_ref().map(idle));
    tables
}

fn stages(answer: &Answer) -> Table {
    let right = |name| (name, Align::Right);
    let columns = [
        ("mode", Align::Left),
        ("workflow", Align::Left),
        right("runs"),
        right("run p50 ms"),
        right("p99"),
        right("a stage p50 ms"),
    ];
    let mut table = Table::new(&columns).uncut();
    for mode in &answer.modes {
        for shape in &mode.shapes {
            table.row([
                mode.mode.to_owned(),
                shape.shape.to_owned(),
                shape.runs.to_string(),
                format!("{:.1}", shape.run_p50_ms),
                format!("{:.1}", shape.run_p99_ms),
                format!("{:.2}", shape.stage_p50_ms),
            ]);
        }
    }
    table
}

fn costs(answer: &Answer) -> Table {
    let right = |name| (name, Align::Right);
    let columns = [
        ("mode", Align::Left),
        right("change to claim p50 ms"),
        right("p99"),
        right("statements/step"),
        right("min to max"),
        right("burst steps/s"),
        right("min to max"),
        right("runs/s"),
    ];
    let mut table = Table::new(&columns).uncut();
    for mode in &answer.modes {
        let [statements, of_rounds] = Figure::cells(mode.statements_per_step, 2);
        let [steps, of_bursts] = Figure::cells(mode.burst_steps_per_s, 0);
        let [runs, _] = Figure::cells(mode.burst_runs_per_s, 0);
        table.row([
            mode.mode.to_owned(),
            format!("{:.2}", mode.change_to_claim_p50_ms),
            format!("{:.2}", mode.change_to_claim_p99_ms),
            statements,
            of_rounds,
            steps,
            of_bursts,
            runs,
        ]);
    }
    table
}

fn idle(idle: &OfIdle) -> Table {
    let right = |name| (name, Align::Right);
    let columns = [
        right("idle namespaces"),
        right("seconds"),
        right("looks beyond the heartbeat"),
        right("heartbeats"),
        right("statements"),
        right("run after it ms"),
    ];
    let mut table = Table::new(&columns).uncut();
    table.row([
        idle.namespaces.to_string(),
        format!("{:.0}", idle.seconds),
        idle.looks_beyond_the_heartbeat.to_string(),
        idle.heartbeats.to_string(),
        idle.statements.map_or_else(|| "n/a".to_owned(), |n| n.to_string()),
        format!("{:.1}", idle.run_ms),
    ]);
    table
}

pub(super) fn checks(answer: &Answer) -> Vec<Check> {
    let one = |value: f64| Figure::of(&[value]);
    let mut checks = Vec::new();
    if let Some(hybrid) = answer.modes.first() {
        let (p50, p99) = (hybrid.change_to_claim_p50_ms, hybrid.change_to_claim_p99_ms);
        checks.push(Check::new("flow: state change to claim, p50 ms", one(p50), Target::AtMost(3.0)));
        checks.push(Check::new("flow: state change to claim, p99 ms", one(p99), Target::AtMost(10.0)));
        for shape in &hybrid.shapes {
            let name = format!("flow, {}: a stage, p50 ms", shape.shape);
            checks.push(Check::new(name, one(shape.stage_p50_ms), Target::AtMost(6.0)));
        }
        let statements = hybrid.statements_per_step;
        checks.push(Check::new("flow: statements for each step", statements, Target::AtMost(3.0)));
    }
    let times = answer.burst_ratio;
    checks.push(Check::new("flow: steps/s of a burst beside polling", times, Target::AtLeast(10.0)));
    let times = answer.length_ratio;
    checks.push(Check::new("flow: linear runs beside polling", times, Target::AtLeast(10.0)));
    let looks = answer.idle.as_ref().map(|idle| idle.looks_beyond_the_heartbeat);
    let looks = looks.and_then(|looks| u32::try_from(looks).ok()).and_then(|looks| one(f64::from(looks)));
    checks.push(Check::new("flow: idle looks beyond the heartbeat", looks, Target::AtMost(0.0)));
    checks
}
