//! I9: no job is handed out before it is due, by the database's clock.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use super::facts::{Facts, HandOut, Job, Outcome};
use super::report::{Report, Rule};

pub(super) fn check(facts: &Facts<'_>, report: &mut Report) {
    let due_by_key = due_by_key(facts);
    for job in &facts.jobs {
        let enqueued = facts.accepted(job).and_then(|enqueue| match enqueue.key {
            Some(key) => due_by_key.get(&(enqueue.queue, key)).copied().flatten(),
            None => enqueue.due,
        });
        if let Some(due) = enqueued {
            for hand_out in &job.hand_outs {
                is_due(job, hand_out, due, report);
            }
        }
        for pair in job.hand_outs.windows(2) {
            let given_back = job.endings_under(pair[0].token).filter(|it| it.accepted().is_some());
            for due in given_back.filter_map(|ending| ending.due) {
                is_due(job, &pair[1], due, report);
            }
        }
    }
}

fn is_due(job: &Job<'_>, hand_out: &HandOut<'_>, due: DateTime<Utc>, report: &mut Report) {
    if hand_out.db_now < due {
        let early = due - hand_out.db_now;
        report.violation(Rule::I9, job.id, &[hand_out.answered], format!("handed out {early} early"));
    }
}

/// Which of several enqueues under one key made the job is not known: the earliest due date counts.
fn due_by_key<'h>(facts: &Facts<'h>) -> HashMap<(&'h str, &'h str), Option<DateTime<Utc>>> {
    let mut dues: HashMap<_, Option<DateTime<Utc>>> = HashMap::new();
    for enqueue in facts.enqueues.iter().filter(|it| it.outcome != Outcome::Refused) {
        let Some(key) = enqueue.key else { continue };
        let due = dues.entry((enqueue.queue, key)).or_insert(enqueue.due);
        *due = (*due).min(enqueue.due); // `None`, due at once, is the least
    }
    dues
}
