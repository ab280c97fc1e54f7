//! What the rounds gave, beside what it should be.

use super::super::check::{self, Check, Target};
use super::super::figure::{Figure, Percentiles, of_rounds};
use super::super::ratio::{Ratio, Row, table as ratio_table};
use super::rounds::{Measured, Round, Side};
use crate::output::{Align, Table};
use serde::Serialize;

/// How long something took, in milliseconds.
#[derive(Debug, Serialize)]
struct Times {
    what: String,
    p50: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

impl Times {
    fn of(what: String, milliseconds: &[f64]) -> Self {
        let found = Percentiles::of(milliseconds);
        let of = |which: fn(&Percentiles) -> f64| found.as_ref().map(which);
        Self { what, p50: of(|p| p.p50), p99: of(|p| p.p99), max: of(|p| p.max) }
    }
}

#[derive(Serialize)]
pub(in super::super) struct Answer {
    rates: Vec<Row>,
    times: Vec<Times>,
    held_windows_per_s: Vec<f64>,
    statements_per_s: Option<f64>,
    checks: Vec<Check>,
}

impl Answer {
    pub(super) fn of(measured: &Measured) -> Self {
        let rates = rates(&measured.rounds);
        let times = times(&measured.rounds);
        let mut checks: Vec<Check> = rates.iter().filter_map(Row::check).collect();
        checks.extend(more_checks(measured));
        Self {
            rates,
            times,
            held_windows_per_s: measured.held_windows_per_s.clone(),
            statements_per_s: measured.idle.statements_per_s,
            checks,
        }
    }

    /// Could statements be counted?
    pub(super) fn is_metered(&self) -> bool {
        self.statements_per_s.is_some()
    }

    /// What must hold.
    pub(in super::super) fn into_checks(self) -> Vec<Check> {
        self.checks
    }
}

fn rates(rounds: &[Round]) -> Vec<Row> {
    let row = |figure, target, side: fn(&Round) -> &Side| {
        let mut ratio = Ratio::new(figure, target);
        for round in rounds {
            let side = side(round);
            ratio.add(side.floor_per_s, side.done.per_s());
        }
        ratio.row()
    };
    vec![
        row("push 1, 50 connections", Some(0.35), |round| &round.push_1),
        row("push 100, 20 connections", Some(0.15), |round| &round.push_100),
        row("pop 100 + ack, 20 connections", Some(0.5), |round| &round.pop_ack),
        row("pop 100 autoAck, 20 connections", None, |round| &round.pop_auto),
    ]
}

fn times(rounds: &[Round]) -> Vec<Times> {
    let requests = |what: &str, side: fn(&Round) -> &Side| {
        let all: Vec<f64> =
            rounds.iter().flat_map(|round| side(round).done.requests.iter().copied()).collect();
        Times::of(what.to_owned(), &all)
    };
    let mut times = vec![
        requests("push 1", |round| &round.push_1),
        requests("push 100", |round| &round.push_100),
        requests("pop 100 + ack", |round| &round.pop_ack),
        requests("pop 100 autoAck", |round| &round.pop_auto),
    ];
    times.extend(woken(rounds).into_iter().map(|(what, _, all)| Times::of(what, &all)));
    times
}

/// Each number of waiters in each layout: its name, the number, and the latencies of all rounds.
fn woken(rounds: &[Round]) -> Vec<(String, usize, Vec<f64>)> {
    let Some(first) = rounds.first() else { return Vec::new() };
    let of =
        |place: usize| rounds.iter().flat_map(move |round| round.woken[place].milliseconds.iter().copied());
    let row = |(place, woken): (usize, &super::rounds::Woken)| {
        let what = format!("push to waiting pop, {} on {}", woken.waiters, woken.layout.name());
        (what, woken.waiters, of(place).collect())
    };
    first.woken.iter().enumerate().map(row).collect()
}

fn more_checks(measured: &Measured) -> Vec<Check> {
    let (idle, windows) = (&measured.idle, &measured.held_windows_per_s);
    let one = |value: f64| Figure::of(&[value]);
    let best = windows.iter().take(3).copied().fold(f64::NAN, f64::max);
    let last = windows.last().map(|last| last / best);
    let p50 = of_rounds(&measured.rounds, |round| {
        Percentiles::of(&round.push_1.done.requests).map_or(f64::NAN, |p| p.p50)
    });
    let mut checks = vec![
        Check::new("push 1 at 50 connections, p50 ms", p50, Target::AtMost(6.0)),
        Check::new(
            "held snapshot: last window / best of the first three",
            last.and_then(one),
            Target::AtLeast(0.85),
        ),
        Check::new(
            format!("idle statements/s, {} waiting", idle.waiters),
            idle.statements_per_s.and_then(one),
            Target::AtMost(0.5),
        ),
        Check::new(
            format!("memory of each of {} waiting sockets, KiB", idle.waiters),
            one(idle.bytes_each / 1024.0),
            Target::AtMost(20.0),
        ),
        Check::new(
            format!("memory of each of {} waiting streams, KiB", idle.streams),
            one(idle.stream_bytes_each / 1024.0),
            Target::AtMost(20.0),
        ),
    ];
    let losses = &measured.losses;
    let number = |count: usize| one(super::super::figure::number(count));
    let by = format!("of {} by {} producers on one partition", losses.pushed, super::losses::PRODUCERS);
    checks.push(Check::new(format!("lost {by}"), number(losses.lost), Target::AtMost(0.0)));
    checks.push(Check::new(format!("out of order {by}"), number(losses.out_of_order), Target::AtMost(0.0)));
    for (what, waiters, all) in woken(&measured.rounds) {
        if waiters < 1_000 {
            continue; // the others are for comparison
        }
        let found = Percentiles::of(&all);
        checks.push(Check::new(
            format!("{what}, p50 ms"),
            found.and_then(|p| one(p.p50)),
            Target::AtMost(5.0),
        ));
        checks.push(Check::new(
            format!("{what}, p99 ms"),
            found.and_then(|p| one(p.p99)),
            Target::AtMost(25.0),
        ));
    }
    let backlog = measured.backlog.per_s();
    let drained = of_rounds(&measured.rounds, |round| round.pop_ack.done.per_s()).map(|f| f.median);
    let kept = drained.and_then(|drained| one(backlog / drained));
    checks.push(Check::new("pop 100 + ack of a large backlog / of a small one", kept, Target::AtLeast(0.8)));
    checks
}

pub(super) fn tables(answer: &Answer) -> Vec<Table> {
    let right = |name| (name, Align::Right);
    let mut times =
        Table::new(&[("milliseconds", Align::Left), right("p50"), right("p99"), right("max")]).uncut();
    let cell = |value: Option<f64>| value.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.2}"));
    for row in &answer.times {
        times.row([row.what.clone(), cell(row.p50), cell(row.p99), cell(row.max)]);
    }
    let mut windows = Table::new(&[("held snapshot, messages/s of each window", Align::Left)]).uncut();
    let rates: Vec<String> = answer.held_windows_per_s.iter().map(|rate| format!("{rate:.0}")).collect();
    windows.row([rates.join("  ")]);
    vec![ratio_table(&answer.rates), times, windows, check::table(&answer.checks)]
}
