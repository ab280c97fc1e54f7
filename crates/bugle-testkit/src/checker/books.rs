//! I14: the books balance.

use std::collections::HashSet;

use super::facts::{Facts, Job, Outcome};
use super::report::{Report, Rule};
use super::snapshot::{QueueSnapshot, Snapshot, State, States};
use crate::history::Op;

pub(super) fn check(facts: &Facts<'_>, snapshot: &Snapshot, states: &States, report: &mut Report) {
    for (id, places) in states.iter().filter(|(_, places)| places.len() > 1) {
        report.violation(Rule::I14, *id, &[], format!("in several places at once: {places:?}"));
    }
    for job in &facts.jobs {
        ends_are_booked(job, states, report);
    }
    for (name, queue) in &snapshot.queues {
        counters_equal_rows(name, queue, report);
        all_are_counted(facts, name, queue, report);
    }
}

/// What was acked is done; what was cancelled is cancelled. An orphan is I1's, a job in two places is told above.
fn ends_are_booked(job: &Job<'_>, states: &States, report: &mut Report) {
    let acked = job.accepted_of(Op::Ack).next().map(|(_, n)| n);
    let cancelled = job.accepted_of(Op::Cancel).next().map(|(_, n)| n);
    let (expected, n) = match (acked, cancelled) {
        (Some(n), None) => (State::Done, n),
        (None, Some(n)) => (State::Cancelled, n),
        _ => return,
    };
    let found = match states.get(&job.id).map(Vec::as_slice) {
        None => "in no table".to_owned(),
        Some([state]) if *state != expected && *state != State::Orphan => format!("{state:?}"),
        Some(_) => return,
    };
    report.violation(Rule::I14, job.id, &[n], format!("should be {expected:?}, is {found}"));
}

fn count<T>(rows: &[T]) -> u64 {
    u64::try_from(rows.len()).unwrap_or(u64::MAX)
}

fn counters_equal_rows(name: &str, queue: &QueueSnapshot, report: &mut Report) {
    let Some(counters) = &queue.counters else { return };
    let all = count(&queue.places().collect::<Vec<_>>());
    let books = [
        ("enqueued", counters.enqueued, all),
        ("ready", counters.ready, count(&queue.ready)),
        ("scheduled", counters.scheduled, count(&queue.scheduled)),
        // Nothing tells an orphan from a leased row but the missing lease: a counter may well include it.
        ("leased", counters.leased, count(&queue.leased)),
        ("done", counters.done, count(&queue.done)),
        ("dead", counters.dead, count(&queue.dead)),
        ("cancelled", counters.cancelled, count(&queue.cancelled)),
    ];
    for (what, counted, rows) in books {
        let orphans = if what == "leased" { count(&queue.orphans) } else { 0 };
        if counted != rows && counted != rows + orphans {
            let what = format!("queue {name:?} counts {counted} {what}, its tables hold {rows}");
            report.violation(Rule::I14, None, &[], what);
        }
    }
}

/// As many jobs as were accepted, and at most one more for each enqueue without an answer.
fn all_are_counted(facts: &Facts<'_>, name: &str, queue: &QueueSnapshot, report: &mut Report) {
    let Some(counters) = &queue.counters else { return };
    let here = || facts.enqueues.iter().filter(|enqueue| enqueue.queue == name);
    let accepted: HashSet<i64> = here().filter_map(|enqueue| enqueue.job).collect();
    let unanswered = here().filter(|enqueue| enqueue.outcome == Outcome::Maybe).count();
    let least = u64::try_from(accepted.len()).unwrap_or(u64::MAX);
    let most = least.saturating_add(u64::try_from(unanswered).unwrap_or(u64::MAX));
    if !(least..=most).contains(&counters.enqueued) {
        let what = format!(
            "queue {name:?} counts {} jobs enqueued, its clients saw {least} to {most}",
            counters.enqueued
        );
        report.violation(Rule::I14, None, &[], what);
    }
}
