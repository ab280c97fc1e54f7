//! I8: jobs that share an order key run one at a time, and start in the order in which they were enqueued.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::chain::may_be_over;
use super::facts::{Enqueue, Facts, HandOut, Job};
use super::limits::Limits;
use super::report::{Report, Rule};
use super::snapshot::{State, States};

pub(super) fn check(facts: &Facts<'_>, states: &States, limits: &Limits, report: &mut Report) {
    let mut keys: BTreeMap<(&str, &str), Vec<(&Job<'_>, &Enqueue<'_>)>> = BTreeMap::new();
    for job in &facts.jobs {
        let Some(enqueue) = facts.accepted(job) else { continue };
        if let Some(order_key) = enqueue.order_key {
            keys.entry((enqueue.queue, order_key)).or_default().push((job, enqueue));
        }
    }
    for ((_, key), jobs) in keys {
        start_in_order(facts, key, &jobs, states, report);
        one_at_a_time(facts, key, &jobs, limits, report);
    }
}

/// "A before B" means that A was answered before B was invoked. Ids say nothing: commits overtake each other.
fn start_in_order(
    facts: &Facts<'_>,
    key: &str,
    jobs: &[(&Job<'_>, &Enqueue<'_>)],
    states: &States,
    report: &mut Report,
) {
    let mut starts: Vec<_> =
        jobs.iter().filter_map(|(job, enqueue)| Some((start(facts, job, states)?, *job, *enqueue))).collect();
    starts.sort_by_key(|(start, _, _)| *start);
    // From the last start backwards: `overtaken` is the job that was answered first among those started later.
    let mut overtaken: Option<(u64, i64)> = None;
    for (start, job, enqueue) in starts.into_iter().rev() {
        let started = start != DateTime::<Utc>::MAX_UTC;
        let enqueued = facts.enqueued_from(enqueue);
        if let Some((answered, other)) = overtaken.filter(|(n, _)| started && *n < enqueued) {
            let what = format!("started before job {other}, which was enqueued earlier under {key:?}");
            report.violation(Rule::I8, job.id, &[answered, enqueued], what);
        }
        if let Some(answered) = enqueue.answered {
            let this = (answered, job.id);
            overtaken = Some(overtaken.map_or(this, |first| first.min(this)));
        }
    }
}

/// When the job was first handed out, at the end of time if never; `None` if it cannot be known: a claim that
/// nobody saw answered may have started it, or it ended without any.
fn start(facts: &Facts<'_>, job: &Job<'_>, states: &States) -> Option<DateTime<Utc>> {
    match job.hand_outs.first() {
        Some(first) if first.attempt == 1 => Some(first.db_now),
        Some(_) => None,
        None => {
            let waits = |state: &State| matches!(state, State::Ready | State::Scheduled);
            let waiting = states.get(&job.id).is_some_and(|places| places.iter().all(waits));
            let unseen = facts.silent_between(job.queue, 0, u64::MAX);
            (waiting && unseen == 0).then_some(DateTime::<Utc>::MAX_UTC)
        }
    }
}

fn one_at_a_time(
    facts: &Facts<'_>,
    key: &str,
    jobs: &[(&Job<'_>, &Enqueue<'_>)],
    limits: &Limits,
    report: &mut Report,
) {
    let mut spans: Vec<(&Job<'_>, &HandOut<'_>)> =
        jobs.iter().flat_map(|(job, _)| job.hand_outs.iter().map(move |it| (*job, it))).collect();
    spans.sort_by_key(|(_, hand_out)| (hand_out.db_now, hand_out.answered));
    for pair in spans.windows(2) {
        let ((job, held), (other, next)) = (pair[0], pair[1]);
        // The same job twice is I5's business.
        if job.id != other.id && !may_be_over(facts, job, held, (next.answered, next.db_now), limits) {
            let what = format!("handed out while job {} of the same order key {key:?} was held", job.id);
            report.violation(Rule::I8, other.id, &[held.answered, next.answered], what);
        }
    }
}
