//! Who holds what: M4, M5 and M6.

use super::facts::{Claim, Facts, History, Lane};
use crate::checker::report::{Report, Rule};
use crate::history::Op;

pub(super) fn check(facts: &Facts<'_>, report: &mut Report) {
    for (lane, history) in &facts.lanes {
        one_holder(*lane, history, facts, report);
        fencing(*lane, history, facts, report);
        never_back(*lane, history, report);
    }
}

/// A claim that begins before the one before it has ended needs somebody who ended that one, or a crash that undid it.
fn one_holder((group, partition): Lane<'_>, history: &History<'_>, facts: &Facts<'_>, report: &mut Report) {
    let mut held: Option<&Claim<'_>> = None;
    for claim in &history.claims {
        if let Some(before) = held
            && claim.from < before.until
            && !is_given_up(before, claim, history)
            && !facts.faults.may_be_lost((before.invoked, before.answered), claim.answered)
        {
            let what =
                format!("{} was handed {partition} of {group} while {} held it", claim.who, before.who);
            report.violation(Rule::M4, claim.last(), &[before.answered, claim.answered], what);
        }
        held = Some(claim);
    }
}

/// Whether the holder of `held` may have ended it before `next` was answered.
fn is_given_up(held: &Claim<'_>, next: &Claim<'_>, history: &History<'_>) -> bool {
    history.endings.iter().any(|ending| {
        let frees = ending.op != Op::Ack || ending.seq >= held.last();
        ending.token == held.token && ending.possible() && frees && ending.invoked < next.answered
    })
}

/// Once a newer claim was answered, nothing is accepted under an older token.
fn fencing((group, partition): Lane<'_>, history: &History<'_>, facts: &Facts<'_>, report: &mut Report) {
    for ending in &history.endings {
        let Some(answered) = ending.accepted() else { continue };
        let Some(own) = history.claims.iter().position(|claim| claim.token == ending.token) else {
            report.violation(
                Rule::I0,
                ending.seq,
                &[ending.invoked],
                "an ending under a token that nobody was given",
            );
            continue;
        };
        let newer = history.claims[own + 1..].iter().find(|claim| {
            claim.answered < ending.invoked
                && !facts.faults.may_be_lost((claim.invoked, claim.answered), answered)
        });
        if let Some(newer) = newer {
            let what =
                format!("{:?} of {partition} for {group} accepted although {} has it", ending.op, newer.who);
            report.violation(Rule::M5, ending.seq, &[newer.answered, ending.invoked, answered], what);
        }
    }
}

/// What was acked is not handed out by a pop that began afterwards.
fn never_back((group, partition): Lane<'_>, history: &History<'_>, report: &mut Report) {
    let mut acks: Vec<(u64, i64)> = history
        .endings
        .iter()
        .filter(|ending| ending.op == Op::Ack)
        .filter_map(|ending| Some((ending.accepted()?, ending.seq)))
        .collect();
    acks.sort_unstable();
    let mut pops: Vec<&Claim<'_>> = history.claims.iter().collect();
    pops.sort_by_key(|claim| claim.invoked);
    let (mut next, mut furthest) = (0, (0, i64::MIN));
    for claim in pops {
        while let Some((n, seq)) = acks.get(next).filter(|(n, _)| *n < claim.invoked) {
            if *seq > furthest.1 {
                furthest = (*n, *seq);
            }
            next += 1;
        }
        if let Some((seq, _)) = claim.messages.iter().find(|(seq, _)| *seq <= furthest.1) {
            let what = format!("{} was handed it of {partition} although {group} had acked it", claim.who);
            report.violation(Rule::M6, *seq, &[furthest.0, claim.answered], what);
        }
    }
}
