//! I4 and I11, as far as the final rows tell: what is ready must be fit to be handed out.

use super::facts::Facts;
use super::report::{Report, Rule};
use super::snapshot::{Row, Snapshot};

pub(super) fn check(facts: &Facts<'_>, snapshot: &Snapshot, report: &mut Report) {
    for row in snapshot.queues.values().flat_map(|queue| &queue.ready) {
        check_row(facts, row, report);
    }
}

fn check_row(facts: &Facts<'_>, row: &Row, report: &mut Report) {
    let Some(job) = facts.by_id.get(&row.id).map(|slot| &facts.jobs[*slot]) else { return };
    if let Some(max) = facts.max_attempts(job).filter(|max| row.attempt >= *max) {
        let what = format!("ready, with {} of {max} attempts used up", row.attempt);
        report.violation(Rule::I11, job.id, &[], what);
    }
    // 0 stands for a row without a key of its own.
    let newest = job.hand_outs.last().filter(|newest| row.x != 0 && row.x <= newest.x);
    if let Some(newest) =
        newest.filter(|newest| !facts.faults.may_be_lost((newest.invoked, newest.answered), u64::MAX))
    {
        let what = format!("ready with x {}, but handed out with x {} already", row.x, newest.x);
        report.violation(Rule::I4, job.id, &[newest.answered], what);
    }
}
