//! I1: no loss.

use bugle_testkit::checker::Rule;
use bugle_testkit::history::{FaultKind, Op};

use super::script::{Place, Script};

#[test]
fn an_accepted_job_in_no_table_is_lost() {
    let mut s = Script::new();
    s.enqueue(7);
    s.places.clear();
    s.miscount = Some(|counters| counters.enqueued = 1);
    assert_eq!(s.report().broken_rules(), [Rule::I1, Rule::I14], "the counter still knows of it");
    s.miscount = None;
    s.is_red_by(Rule::I1);
    s.put(7, Place::Ready);
    s.is_green();
}

#[test]
fn a_job_lost_with_its_unknown_ack_is_lost() {
    let mut s = Script::new();
    s.miscount = None;
    s.enqueue(7);
    let held = s.claim("w1#1", 7, 10, 1);
    s.unknown(held, Op::Ack);
    s.places.remove(&7);
    s.is_red_by(Rule::I1);
    s.put(7, Place::Done);
    s.is_green();
}

#[test]
fn a_row_behind_the_cursor_without_a_lease_is_lost() {
    let mut s = Script::new();
    s.enqueue(7);
    s.put(7, Place::Orphan);
    s.is_red_by(Rule::I1);
    s.put(7, Place::Ready);
    s.is_green();
}

#[test]
fn a_job_done_without_an_ack_is_lost() {
    let mut s = Script::new();
    s.enqueue(7);
    s.put(7, Place::Done);
    s.is_red_by(Rule::I1);
    let held = s.claim("w1#1", 7, 10, 1);
    s.ack(held);
    s.is_green();
}

#[test]
fn a_job_cancelled_by_nobody_is_lost() {
    let mut s = Script::new();
    s.enqueue(7);
    s.put(7, Place::Cancelled);
    s.is_red_by(Rule::I1);
    s.cancel(7);
    s.is_green();
}

#[test]
fn a_job_dead_before_its_last_attempt_is_lost() {
    let mut s = Script::new();
    s.enqueue(7);
    let now = s.db_now();
    for (x, attempt) in [(10, 1), (20, 2)] {
        let held = s.claim("w1#1", 7, x, attempt);
        s.fail(held, now);
    }
    s.put(7, Place::Dead);
    s.is_red_by(Rule::I1);
    let mut unseen = s.clone();
    unseen.begin_claim("w2#1"); // the third attempt went to a claim that died with its worker
    unseen.fault(FaultKind::Killed, Some("w2#1"));
    unseen.is_green();
    let held = s.claim("w1#1", 7, 30, 3);
    s.fail(held, now);
    s.put(7, Place::Dead);
    s.is_green();
}
