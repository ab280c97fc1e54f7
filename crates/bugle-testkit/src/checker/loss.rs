//! I1: an accepted job is not lost.

use super::facts::{Facts, Job};
use super::report::{Report, Rule};
use super::snapshot::{State, States};
use crate::history::Op;

pub(super) fn check(facts: &Facts<'_>, states: &States, report: &mut Report) {
    for job in &facts.jobs {
        // A job that was only asked about, a cancel of some number say, is no job.
        if job.accepted.is_none() && job.hand_outs.is_empty() {
            continue;
        }
        let places = states.get(&job.id).map_or(&[][..], Vec::as_slice);
        if let Some(what) = lost(facts, job, places) {
            let accepted = facts.accepted(job).and_then(|enqueue| enqueue.answered);
            let last = job.hand_outs.last().map(|hand_out| hand_out.answered);
            let events: Vec<u64> = accepted.into_iter().chain(last).collect();
            report.violation(Rule::I1, job.id, &events, what);
        }
    }
}

fn lost(facts: &Facts<'_>, job: &Job<'_>, places: &[State]) -> Option<String> {
    let ended = job.accepted_of(Op::Ack).chain(job.accepted_of(Op::Cancel)).next().is_some();
    if places.is_empty() && !ended {
        return Some("accepted, not ended, and in no table".into());
    }
    if places.contains(&State::Orphan) {
        return Some("its row is behind the claim cursor and no lease covers it".into());
    }
    if places.contains(&State::Done) && !job.possibly(Op::Ack) {
        return Some("done, although nobody acked it".into());
    }
    if places.contains(&State::Cancelled) && !job.possibly(Op::Cancel) {
        return Some("cancelled, although nobody asked".into());
    }
    if places.contains(&State::Dead) { died_too_soon(facts, job) } else { None }
}

/// A job dies of its last attempt only; claims that nobody saw answered may have used some.
fn died_too_soon(facts: &Facts<'_>, job: &Job<'_>) -> Option<String> {
    let max = facts.max_attempts(job)?;
    let (used, since) = job.hand_outs.last().map_or((0, 0), |last| (last.attempt, last.invoked));
    let unseen = facts.silent_between(job.queue, since, u64::MAX);
    let missing = usize::try_from(max - used).unwrap_or(0);
    (missing > unseen).then(|| format!("dead after attempt {used} of {max}, with {unseen} unseen claims"))
}
