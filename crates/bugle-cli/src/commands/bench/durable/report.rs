//! What the rounds gave, beside each other and beside what it should be.

use super::super::check::{Check, Target};
use super::super::figure::{Figure, Percentiles};
use super::phases::{DISPATCHERS, Round};
use crate::output::{Align, Table};
use serde::Serialize;

/// One figure of every contestant, in their order.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    figure: String,
    /// Of each contestant; none where it could not be measured.
    values: Vec<Option<Figure>>,
    /// Bugle's of each round, against the better of the others' of the same round.
    ratio: Option<Figure>,
}

#[derive(Debug, Serialize)]
pub(in super::super) struct Answer {
    contestants: Vec<&'static str>,
    rows: Vec<Row>,
}

/// What is better.
#[derive(Clone, Copy)]
enum Better {
    Less,
    More,
}

const IDLE: &str = "idle, statements/s";
const START_TO_TURN: &str = "start to first turn, p50 ms";
const STATEMENTS: &str = "statements of an instance";
const TIMER_P99: &str = "timer late, p99 ms";
const TIMER_MIN: &str = "timer late, least ms";
const LEASE: &str = "lease of a dead node, ms late";
const ABANDON: &str = "abandoned with a delay, ms late";

fn fan_outs(dispatchers: usize) -> String {
    format!("burst of fan-outs at {dispatchers}+{dispatchers}, instances/s")
}

fn no_ops(dispatchers: usize) -> String {
    format!("burst of no-ops at {dispatchers}+{dispatchers}, instances/s")
}

fn percentile(
    of: impl Fn(&Round) -> &Vec<f64>,
    which: impl Fn(&Percentiles) -> f64,
) -> impl Fn(&Round) -> Option<f64> {
    move |round| Percentiles::of(of(round)).as_ref().map(&which)
}

impl Answer {
    pub(super) fn of(contestants: Vec<&'static str>, rounds: &[Vec<Round>]) -> Self {
        let timers = timers(contestants.len(), rounds);
        let mut answer = Self { contestants, rows: Vec::new() };
        let mut add = |name: String, better, of: &dyn Fn(&Round) -> Option<f64>| {
            answer.rows.push(row(name, better, rounds, of));
        };
        add(IDLE.to_owned(), Better::Less, &|round| round.idle_per_s);
        add(START_TO_TURN.to_owned(), Better::Less, &percentile(|r| &r.start_to_turn, |p| p.p50));
        add(
            "start to first turn, p95 ms".to_owned(),
            Better::Less,
            &percentile(|r| &r.start_to_turn, |p| p.p95),
        );
        add("turn to activity, p50 ms".to_owned(), Better::Less, &percentile(|r| &r.turn_to_work, |p| p.p50));
        add("turn to activity, p95 ms".to_owned(), Better::Less, &percentile(|r| &r.turn_to_work, |p| p.p95));
        add("activity to turn, p50 ms".to_owned(), Better::Less, &percentile(|r| &r.work_to_turn, |p| p.p50));
        add("activity to turn, p95 ms".to_owned(), Better::Less, &percentile(|r| &r.work_to_turn, |p| p.p95));
        add(STATEMENTS.to_owned(), Better::Less, &|round| round.statements);
        add(LEASE.to_owned(), Better::Less, &|round| Some(round.lease));
        add(ABANDON.to_owned(), Better::Less, &|round| Some(round.abandon));
        for (nth, dispatchers) in DISPATCHERS.into_iter().enumerate() {
            add(fan_outs(dispatchers), Better::More, &|round| Some(round.fan_outs[nth]));
            add(no_ops(dispatchers), Better::More, &|round| Some(round.no_ops[nth]));
        }
        answer.rows.extend(timers);
        answer
    }

    /// Could statements be counted?
    pub(super) fn is_metered(&self) -> bool {
        self.find(IDLE).is_some_and(|row| row.values.iter().any(Option::is_some))
    }

    fn find(&self, figure: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.figure == figure)
    }
}

fn row(figure: String, better: Better, rounds: &[Vec<Round>], of: &dyn Fn(&Round) -> Option<f64>) -> Row {
    let contestants = rounds.first().map_or(0, Vec::len);
    let values = (0..contestants)
        .map(|place| Figure::of(&rounds.iter().filter_map(|round| of(&round[place])).collect::<Vec<_>>()))
        .collect();
    let ratios: Vec<f64> = rounds
        .iter()
        .filter_map(|round| {
            let others = round.get(1..)?.iter().filter_map(of);
            let best = match better {
                Better::Less => others.min_by(f64::total_cmp)?,
                Better::More => others.max_by(f64::total_cmp)?,
            };
            Some(of(round.first()?)? / best).filter(|ratio| ratio.is_finite()) // nothing against nothing is no ratio
        })
        .collect();
    Row { figure, values, ratio: Figure::of(&ratios) }
}

/// How late timers were, of all rounds together: one round has too few of them for a p99.
fn timers(contestants: usize, rounds: &[Vec<Round>]) -> Vec<Row> {
    let row = |name: &str, which: fn(&Percentiles) -> f64| {
        let values = (0..contestants).map(|place| {
            let all: Vec<f64> = rounds.iter().flat_map(|round| round[place].timers.clone()).collect();
            Figure::of(&[which(&Percentiles::of(&all)?)])
        });
        Row { figure: name.to_owned(), values: values.collect(), ratio: None }
    };
    vec![row("timer late, p50 ms", |p| p.p50), row(TIMER_P99, |p| p.p99), row(TIMER_MIN, |p| p.min)]
}

/// What must hold.
pub(in super::super) fn checks(answer: &Answer) -> Vec<Check> {
    let own = |figure: &str| answer.find(figure).and_then(|row| row.values.first().copied().flatten());
    let ratio = |figure: &str| answer.find(figure).and_then(|row| row.ratio);
    let mut checks: Vec<Check> = [
        (IDLE, Target::AtMost(0.3)),
        (STATEMENTS, Target::AtMost(9.0)),
        (TIMER_P99, Target::AtMost(15.0)),
        (TIMER_MIN, Target::AtLeast(0.0)),
        (LEASE, Target::AtMost(100.0)),
        (ABANDON, Target::AtMost(100.0)),
    ]
    .into_iter()
    .map(|(figure, target)| Check::new(format!("durable: {figure}"), own(figure), target))
    .collect();
    if answer.contestants.len() > 1 {
        let burst = fan_outs(DISPATCHERS[0]);
        checks.push(Check::new(
            "durable: start to first turn / the better other",
            ratio(START_TO_TURN),
            Target::AtMost(1.0),
        ));
        checks.push(Check::new(
            "durable: burst of fan-outs / the better other",
            ratio(&burst),
            Target::AtLeast(2.0),
        ));
    }
    checks
}

pub(super) fn tables(answer: &Answer) -> Vec<Table> {
    let mut columns = vec![("figure", Align::Left)];
    for name in &answer.contestants {
        columns.extend([(*name, Align::Right), ("min to max", Align::Right)]);
    }
    columns.extend([("ratio", Align::Right), ("min to max", Align::Right)]);
    let mut table = Table::new(&columns).uncut();
    for row in &answer.rows {
        let mut cells = vec![row.figure.clone()];
        for value in &row.values {
            cells.extend(Figure::cells(*value, 2));
        }
        cells.extend(Figure::cells(row.ratio, 2));
        table.row(cells);
    }
    vec![table]
}
