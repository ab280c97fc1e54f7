//! I11, two of three: no attempt beyond the last, and a healed system drains. The third is `pick_up`.

use super::facts::{Facts, Job, Outcome};
use super::limits::{Limits, ns};
use super::report::{Report, Rule};
use super::snapshot::{State, States};
use crate::history::Op;

pub(super) fn check(facts: &Facts<'_>, states: &States, limits: &Limits, report: &mut Report) {
    for job in &facts.jobs {
        attempts_are_bounded(facts, job, report);
    }
    let Some((healed_n, healed_t)) = facts.faults.healed else { return };
    let allowed = ns(limits.lease) + ns(limits.sweep_interval) + ns(limits.drain_grace);
    for job in &facts.jobs {
        let before = facts.accepted(job).and_then(|it| it.answered).is_some_and(|n| n < healed_n);
        if before {
            let deadline = drain_begins(facts, job, healed_t).saturating_add(allowed);
            is_drained(facts, job, (healed_n, deadline), states, report);
        }
    }
}

fn attempts_are_bounded(facts: &Facts<'_>, job: &Job<'_>, report: &mut Report) {
    let Some(max) = facts.max_attempts(job) else { return };
    for hand_out in job.hand_outs.iter().filter(|hand_out| hand_out.attempt > max) {
        let what = format!("attempt {} of at most {max}", hand_out.attempt);
        report.violation(Rule::I11, job.id, &[hand_out.answered], what);
    }
}

/// A job that was not due yet, or failed after the repair, has its time from then on.
fn drain_begins(facts: &Facts<'_>, job: &Job<'_>, healed_t: i64) -> i64 {
    let due = facts.accepted(job).and_then(|enqueue| enqueue.due);
    let given_back = job.endings.iter().filter(|it| it.op != Op::Ack && it.outcome == Outcome::Happened);
    let again = given_back.flat_map(|it| [Some(it.answered_t), it.due.and_then(|due| facts.t_of(due))]);
    let starts = again.chain([due.and_then(|due| facts.t_of(due))]).flatten();
    starts.fold(healed_t, i64::max)
}

fn is_drained(
    facts: &Facts<'_>,
    job: &Job<'_>,
    (healed_n, deadline): (u64, i64),
    states: &States,
    report: &mut Report,
) {
    if let Some((ack, answered)) = job.accepted_of(Op::Ack).next() {
        if ack.answered_t > deadline {
            let late_ms = (ack.answered_t - deadline) / 1_000_000;
            let what = format!("finished {late_ms} ms later than a healed system may take");
            report.violation(Rule::I11, job.id, &[healed_n, answered], what);
        }
        return;
    }
    let waiting = |state: &State| matches!(state, State::Ready | State::Leased);
    if !states.get(&job.id).is_some_and(|places| places.iter().any(waiting)) {
        return;
    }
    if facts.last_t > deadline {
        report.violation(Rule::I11, job.id, &[healed_n], "still there after a healed system's time to drain");
    } else {
        report.counts.undrained += 1;
    }
}
