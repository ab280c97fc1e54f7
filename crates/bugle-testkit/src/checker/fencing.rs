//! I6 and I7: only the newest lease counts, and an accepted end is final.
//!
//! Judged by what the database must have done, not by what was recorded first: if a newer hand-out exists, the
//! older lease was over before it, so no ack under the older token can have been accepted, before or after. Only
//! a hand-out that is *older* in the database and merely answered late may follow an accepted ack in the history.

use super::facts::{Ending, Facts, HandOut, Job, Outcome};
use super::report::{Report, Rule};
use crate::history::Op;

pub(super) fn check(facts: &Facts<'_>, report: &mut Report) {
    for job in &facts.jobs {
        tokens_were_handed_out(job, report);
        for (at, held) in job.hand_outs.iter().enumerate() {
            check_lease(facts, job, held, &job.hand_outs[at + 1..], report);
        }
        check_cancels(job, report);
    }
}

fn tokens_were_handed_out(job: &Job<'_>, report: &mut Report) {
    for ending in &job.endings {
        let (Some(token), Some(answered)) = (ending.token, ending.accepted()) else { continue };
        if !job.hand_outs.iter().any(|hand_out| hand_out.token == token) {
            let what = format!("{:?} accepted under token {token}, which nobody was handed", ending.op);
            report.violation(Rule::I6, job.id, &[ending.invoked, answered], what);
        }
    }
}

fn check_lease(
    facts: &Facts<'_>,
    job: &Job<'_>,
    held: &HandOut<'_>,
    newer: &[HandOut<'_>],
    report: &mut Report,
) {
    let mut earlier: Option<(&Ending, u64)> = None;
    for ending in job.endings_under(held.token) {
        let Some(answered) = ending.accepted() else { continue };
        if let Some((first, first_answered)) = earlier {
            let rule = if first.op == Op::Ack && ending.op == Op::Ack { Rule::I7 } else { Rule::I6 };
            let what = format!("{:?} and {:?} both accepted under token {}", first.op, ending.op, held.token);
            report.violation(rule, job.id, &[first_answered, answered], what);
        }
        earlier = Some((ending, answered));
        check_ending(facts, job, held, newer, (ending, answered), report);
    }
    check_renewals(facts, job, held, newer, report);
}

fn check_ending(
    facts: &Facts<'_>,
    job: &Job<'_>,
    held: &HandOut<'_>,
    newer: &[HandOut<'_>],
    (ending, answered): (&Ending, u64),
    report: &mut Report,
) {
    // A newer hand-out that a crash undid leaves the older lease in force.
    let mut standing =
        newer.iter().filter(|newer| !facts.faults.may_be_lost((newer.invoked, newer.answered), answered));
    let culprit = match ending.op {
        Op::Ack => standing.next(),
        _ => standing.find(|newer| newer.answered < ending.invoked),
    };
    let Some(newer) = culprit else { return };
    let events = [newer.answered, ending.invoked, answered];
    if newer.invoked > answered {
        let what = format!("handed out to {} after its ack by {} was accepted", newer.who, held.who);
        report.violation(Rule::I7, job.id, &events, what);
    } else {
        let what = format!(
            "{:?} accepted under token {}, although token {} had been handed out",
            ending.op, held.token, newer.token
        );
        report.violation(Rule::I6, job.id, &events, what);
    }
}

/// A lease that was swept cannot be renewed. One whose job was given back lives on for its other jobs.
fn check_renewals(
    facts: &Facts<'_>,
    job: &Job<'_>,
    held: &HandOut<'_>,
    newer: &[HandOut<'_>],
    report: &mut Report,
) {
    let Some(newer) = newer.first() else { return };
    let given_back = job
        .endings_under(held.token)
        .any(|it| matches!(it.op, Op::Fail | Op::Release) && it.possible() && it.invoked < newer.answered);
    if given_back {
        return;
    }
    for renewal in facts.renewals.get(&held.token).into_iter().flatten() {
        let Some(answered) = renewal.answered.filter(|_| renewal.outcome == Outcome::Happened) else {
            continue;
        };
        if newer.answered < renewal.invoked
            && !facts.faults.may_be_lost((newer.invoked, newer.answered), answered)
        {
            let what = format!("token {} renewed after token {} was handed out", held.token, newer.token);
            report.violation(Rule::I6, job.id, &[newer.answered, renewal.invoked, answered], what);
        }
    }
}

fn check_cancels(job: &Job<'_>, report: &mut Report) {
    let Some((_, cancelled)) = job.accepted_of(Op::Cancel).next() else { return };
    for hand_out in job.hand_outs.iter().filter(|hand_out| hand_out.invoked > cancelled) {
        let what = format!("handed out to {} after its cancel was accepted", hand_out.who);
        report.violation(Rule::I7, job.id, &[cancelled, hand_out.answered], what);
    }
    for ending in &job.endings {
        let Some(answered) = ending.accepted() else { continue };
        // An ack and a cancel exclude each other in any order; a fail or release may come first.
        let contradicts = match ending.op {
            Op::Ack => true,
            Op::Fail | Op::Release => ending.invoked > cancelled,
            _ => false,
        };
        if contradicts {
            let what = format!("{:?} accepted, and a cancel too", ending.op);
            report.violation(Rule::I7, job.id, &[cancelled, answered], what);
        }
    }
}
