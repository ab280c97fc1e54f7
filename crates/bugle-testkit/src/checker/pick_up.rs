//! I11, the third: a ready job does not wait while a claim waits for it.

use std::collections::HashMap;

use super::facts::{Facts, HandOut, Job, Outcome, Wait};
use super::faults::longest_calm;
use super::limits::{Limits, ns};
use super::report::{Report, Rule};
use crate::history::Op;

/// From when a job was ready until it was handed out.
struct Ready {
    from: i64,
    to: i64,
    job: i64,
    answered: u64,
}

pub(super) fn check(facts: &Facts<'_>, limits: &Limits, report: &mut Report) {
    let allowed = ns(limits.poll_interval).saturating_add(ns(limits.pick_up_grace));
    let troubled = facts.faults.troubled(ns(limits.fault_grace));
    let mut slow: HashMap<&str, Vec<Ready>> = HashMap::new();
    for job in &facts.jobs {
        let ready = ready_times(facts, job, limits).filter(|ready| ready.to - ready.from > allowed);
        slow.entry(job.queue).or_default().extend(ready);
    }
    let slow: HashMap<&str, Backlog> =
        slow.into_iter().map(|(queue, ready)| (queue, Backlog::new(ready))).collect();
    // Only a claim that waited long can have waited too long, and one worker has few of those.
    for wait in facts.waits.iter().filter(|wait| wait.answered_t - wait.invoked_t > allowed) {
        let Some(backlog) = slow.get(wait.queue) else { continue };
        let missed = backlog.longest_missed(wait, &troubled);
        if let Some((missed, waited)) = missed.filter(|(_, waited)| *waited > allowed) {
            let (ms, allowed_ms) = (waited / 1_000_000, allowed / 1_000_000);
            let what =
                format!("ready for {ms} ms while a claim waited, {allowed_ms} ms allowed, no fault near");
            report.violation(Rule::I11, missed.job, &[missed.answered, wait.answered], what);
        }
    }
}

/// The jobs of a queue that waited long.
struct Backlog {
    /// Sorted by `from`.
    ready: Vec<Ready>,
    /// For each of them, which one among it and its predecessors waited until the latest time: of all jobs ready
    /// before a claim came, that one is the worst, so the others need no look.
    latest: Vec<usize>,
}

impl Backlog {
    fn new(mut ready: Vec<Ready>) -> Self {
        ready.sort_by_key(|ready| ready.from);
        let mut latest: Vec<usize> = Vec::with_capacity(ready.len());
        for at in 0..ready.len() {
            let best = latest.last().copied().filter(|best| ready[*best].to >= ready[at].to);
            latest.push(best.unwrap_or(at));
        }
        Self { ready, latest }
    }

    /// The job that this claim should have been given first, and how long both waited in calm.
    fn longest_missed(&self, wait: &Wait<'_>, troubled: &[(i64, i64)]) -> Option<(&Ready, i64)> {
        let before = self.ready.partition_point(|ready| ready.from <= wait.invoked_t);
        let during = self.ready.partition_point(|ready| ready.from < wait.answered_t);
        let both_waited = |ready: &Ready| {
            let (from, to) = (ready.from.max(wait.invoked_t), ready.to.min(wait.answered_t));
            if to > from { longest_calm(troubled, from, to) } else { 0 }
        };
        let worst_before = before.checked_sub(1).map(|last| &self.ready[self.latest[last]]);
        let candidates = worst_before.into_iter().chain(&self.ready[before..during.max(before)]);
        candidates.map(|ready| (ready, both_waited(ready))).max_by_key(|(_, waited)| *waited)
    }
}

fn ready_times<'a>(
    facts: &'a Facts<'_>,
    job: &'a Job<'_>,
    limits: &'a Limits,
) -> impl Iterator<Item = Ready> + 'a {
    // Under an order key a job also waits for its predecessor.
    let ordered = facts.accepted(job).is_some_and(|enqueue| enqueue.order_key.is_some());
    let judged = if ordered { &[][..] } else { &job.hand_outs[..] };
    judged.iter().enumerate().filter_map(move |(at, next)| {
        let from = match at.checked_sub(1) {
            None => ready_at_first(facts, job, next),
            Some(before) => ready_again(facts, job, &judged[before], next, limits),
        };
        Some(Ready { from: from?, to: next.answered_t, job: job.id, answered: next.answered })
    })
}

fn ready_at_first(facts: &Facts<'_>, job: &Job<'_>, next: &HandOut<'_>) -> Option<i64> {
    let enqueue = facts.accepted(job).filter(|_| next.attempt == 1)?;
    if facts.enqueued_from(enqueue) < enqueue.invoked {
        return None; // made by an earlier enqueue, perhaps, with another due date
    }
    match enqueue.due {
        Some(due) => Some(facts.t_of(due)?.max(enqueue.answered_t)),
        None => Some(enqueue.answered_t),
    }
}

/// `None` where the history does not say for sure: unknown endings, unseen claims, a crash in between.
fn ready_again(
    facts: &Facts<'_>,
    job: &Job<'_>,
    held: &HandOut<'_>,
    next: &HandOut<'_>,
    limits: &Limits,
) -> Option<i64> {
    let mut renewals = facts.renewals.get(&held.token).into_iter().flatten();
    if facts.faults.may_be_lost((held.invoked, held.answered), next.answered)
        || renewals.any(|renewal| renewal.outcome == Outcome::Maybe)
    {
        return None;
    }
    let mut possible = job.endings_under(held.token).filter(|ending| ending.possible());
    let Some(ending) = possible.next() else {
        let expired = facts.t_of(facts.lease_until(held, next.answered))?;
        return (next.attempt == held.attempt + 1).then(|| expired.saturating_add(ns(limits.sweep_interval)));
    };
    if possible.next().is_some() || ending.outcome != Outcome::Happened {
        return None;
    }
    match (ending.op, ending.due, next.attempt - held.attempt) {
        (Op::Release, None, 0) => Some(ending.answered_t),
        (Op::Release, Some(due), 0) | (Op::Fail, Some(due), 1) => {
            Some(facts.t_of(due)?.max(ending.answered_t))
        }
        _ => None,
    }
}
