//! I2 and I3: where jobs come from.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::facts::{Enqueue, Facts, HandOut, Job, Outcome};
use super::report::{Report, Rule};
use super::snapshot::Snapshot;

pub(super) fn check(facts: &Facts<'_>, snapshot: &Snapshot, report: &mut Report) {
    one_job_per_key(facts, report);
    enqueued_before_handed_out(facts, report);
    marks_are_known(facts, report);
    strangers_are_few(facts, snapshot, report);
}

type Key<'a> = (&'a str, &'a str);

fn one_job_per_key(facts: &Facts<'_>, report: &mut Report) {
    let mut seen: HashMap<Key<'_>, (i64, u64)> = HashMap::new();
    let answered = facts.enqueues.iter().filter_map(|it| Some(((it.queue, it.key?), it.job?, it.answered?)));
    let handed_out = facts.jobs.iter().flat_map(|job| {
        let keyed = job.hand_outs.iter().filter_map(|it| Some((it.key?, it.answered)));
        keyed.map(|(key, n)| ((job.queue, key), job.id, n))
    });
    for (key, id, n) in answered.chain(handed_out) {
        let (first, first_n) = *seen.entry(key).or_insert((id, n));
        if first != id {
            let what = format!("key {:?} already made job {first}", key.1);
            report.violation(Rule::I3, id, &[first_n, n], what);
        }
    }
}

fn enqueued_before_handed_out(facts: &Facts<'_>, report: &mut Report) {
    for job in &facts.jobs {
        let Some(accepted) = facts.accepted(job) else { continue };
        let invoked = facts.enqueued_from(accepted);
        for hand_out in job.hand_outs.iter().filter(|hand_out| hand_out.answered < invoked) {
            let what = "handed out before it was enqueued";
            report.violation(Rule::I2, job.id, &[hand_out.answered, invoked], what);
        }
    }
}

/// Follows the numbers in the payloads: each comes from an enqueue that was not refused, and from one job only.
fn marks_are_known(facts: &Facts<'_>, report: &mut Report) {
    let mut marks: HashMap<u64, (&Enqueue<'_>, Option<i64>)> = HashMap::new();
    for enqueue in &facts.enqueues {
        if let Some(mark) = enqueue.mark {
            // Under a key the answer may name a job that another enqueue, with another mark, has made.
            let job = enqueue.job.filter(|_| enqueue.key.is_none());
            let known = marks.entry(mark).or_insert((enqueue, job));
            // A retry with the same payload does not undo what its first sending may have done.
            if known.0.outcome == Outcome::Refused {
                *known = (enqueue, job);
            }
        }
    }
    for job in &facts.jobs {
        for hand_out in &job.hand_outs {
            let Some(mark) = hand_out.mark else { continue };
            let verdict = match marks.get_mut(&mark) {
                Some((enqueue, first)) => mark_fits(job, hand_out, enqueue, first),
                None => Err("was never enqueued".into()),
            };
            if let Err(what) = verdict {
                report.violation(Rule::I2, job.id, &[hand_out.answered], format!("mark {mark}: {what}"));
            }
        }
    }
}

fn mark_fits(
    job: &Job<'_>,
    hand_out: &HandOut<'_>,
    enqueue: &Enqueue<'_>,
    first: &mut Option<i64>,
) -> Result<(), String> {
    if enqueue.outcome == Outcome::Refused {
        return Err(format!("its enqueue was refused (event {})", enqueue.invoked));
    }
    if enqueue.invoked > hand_out.answered {
        return Err(format!("handed out before it was enqueued (event {})", enqueue.invoked));
    }
    let first = *first.get_or_insert(job.id);
    if first != job.id && enqueue.key.is_none() {
        return Err(format!("one enqueue (event {}) made job {first} too", enqueue.invoked));
    }
    Ok(())
}

/// Jobs that no answer names must come from enqueues whose answer is missing: at most one each.
fn strangers_are_few(facts: &Facts<'_>, snapshot: &Snapshot, report: &mut Report) {
    let accepted: HashSet<i64> = facts.enqueues.iter().filter_map(|enqueue| enqueue.job).collect();
    let mut strangers: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    for job in facts.jobs.iter().filter(|job| !job.hand_outs.is_empty() && !accepted.contains(&job.id)) {
        strangers.entry(job.queue).or_default().insert(job.id);
    }
    for (queue, state) in &snapshot.queues {
        let unnamed = state.places().map(|(id, _)| id).filter(|id| !accepted.contains(id));
        for id in unnamed {
            strangers.entry(queue).or_default().insert(id);
        }
    }
    for (queue, ids) in strangers {
        let unanswered = facts.enqueues.iter().filter(|it| it.queue == queue && it.outcome == Outcome::Maybe);
        let (keyed, plain): (Vec<_>, Vec<_>) = unanswered.partition(|enqueue| enqueue.key.is_some());
        let keys: HashSet<_> = keyed.into_iter().map(|enqueue| enqueue.key).collect();
        let possible = plain.len() + keys.len();
        if ids.len() > possible {
            let some: Vec<_> = ids.iter().take(10).collect();
            let what = format!(
                "queue {queue:?} has {} jobs that no answer names, {possible} enqueues without answer; {some:?}",
                ids.len()
            );
            report.violation(Rule::I2, ids.first().copied(), &[], what);
        }
    }
}
