//! I6 and I7: only the newest lease counts; ended is ended.

use bugle_testkit::checker::Rule;
use bugle_testkit::history::{FaultKind, Op, Phase};

use super::script::{Held, LEASE_MS, Place, Script};

/// A job whose first lease ran out and that a second worker holds.
fn taken_over() -> (Script, Held, Held) {
    let mut s = Script::new();
    s.enqueue(7);
    let old = s.claim("w1#1", 7, 10, 1);
    s.wait_ms(LEASE_MS);
    let new = s.claim("w2#1", 7, 20, 2);
    (s, old, new)
}

#[test]
fn an_ack_accepted_under_the_old_token_is_red() {
    let (mut s, old, new) = taken_over();
    let mut refused = s.clone();
    s.ack(old);
    s.is_red_by(Rule::I6);
    refused.ack_refused(old);
    refused.ack(new);
    refused.is_green();
}

#[test]
fn an_old_ack_under_way_while_the_job_is_handed_out_again_is_refused_too() {
    let mut s = Script::new();
    s.enqueue(7);
    let old = s.claim("w1#1", 7, 10, 1);
    s.wait_ms(LEASE_MS);
    let ack = s.begin_on(old, Op::Ack);
    s.claim("w2#1", 7, 20, 2);
    let mut refused = s.clone();
    s.end_on(&ack, old, Phase::Ok);
    s.is_red_by(Rule::I6);
    refused.end_on(&ack, old, Phase::Refused);
    refused.is_green();
}

#[test]
fn a_late_ack_is_accepted_as_long_as_nobody_else_has_the_job() {
    let (mut s, held) = Script::claimed();
    s.wait_ms(10 * LEASE_MS);
    s.ack(held);
    s.is_green();
}

#[test]
fn fail_release_and_renew_under_the_old_token_are_red() {
    for op in [Op::Fail, Op::Release] {
        let (mut s, old, _) = taken_over();
        let open = s.begin_on(old, op);
        let mut refused = s.clone();
        s.end_on(&open, old, Phase::Ok);
        s.is_red_by(Rule::I6);
        refused.end_on(&open, old, Phase::Refused);
        refused.is_green();
    }
    let (mut s, old, _) = taken_over();
    s.renew(old);
    s.is_red_by(Rule::I6);
}

#[test]
fn a_lease_may_be_renewed_for_its_other_jobs_after_one_was_given_back() {
    let mut s = Script::new();
    s.enqueue(7);
    let old = s.claim("w1#1", 7, 10, 1);
    s.release(old);
    s.claim("w2#1", 7, 20, 1);
    s.renew(old);
    s.is_green();
}

#[test]
fn after_a_crash_the_lost_lease_acks_nothing_once_the_job_is_handed_out_again() {
    let mut s = Script::new();
    s.enqueue(7);
    let old = s.claim("w1#1", 7, 10, 1);
    s.fault(FaultKind::ServerCrash, None);
    let new = s.claim("w2#1", 7, 10, 1);
    let mut refused = s.clone();
    s.ack(old);
    s.is_red_by(Rule::I6);
    refused.ack_refused(old);
    refused.ack(new);
    refused.is_green();
}

#[test]
fn an_ack_under_a_token_that_nobody_was_handed_is_red() {
    let (mut s, held) = Script::claimed();
    let mut right = s.clone();
    s.ack(Held { token: 999, ..held });
    s.is_red_by(Rule::I6);
    right.ack(held);
    right.is_green();
}

#[test]
fn a_lease_that_gave_its_job_back_acks_nothing() {
    let (mut s, held) = Script::claimed();
    s.release(held);
    let mut refused = s.clone();
    s.ack(held);
    s.is_red_by(Rule::I6);
    refused.ack_refused(held);
    refused.is_green();
}

#[test]
fn a_job_handed_out_after_its_ack_was_answered_is_red() {
    let (mut s, held) = Script::claimed();
    s.ack(held);
    s.is_green();
    s.claim("w2#1", 7, 20, 2);
    s.put(7, Place::Done);
    s.is_red_by(Rule::I7);
}

#[test]
fn a_job_finished_twice_is_red() {
    let (mut s, held) = Script::claimed();
    s.ack(held);
    let mut refused = s.clone();
    s.ack(held);
    s.is_red_by(Rule::I7);
    refused.ack_refused(held);
    refused.is_green();
}

#[test]
fn a_job_handed_out_after_its_cancel_was_answered_is_red() {
    let mut s = Script::new();
    s.enqueue(7);
    let early = s.begin_claim("w1#1");
    s.cancel(7);
    let mut concurrent = s.clone();
    s.claim("w2#1", 7, 10, 1);
    s.put(7, Place::Cancelled);
    s.is_red_by(Rule::I7);
    let held = concurrent.end_claim(&early, "w1#1", super::script::hand_out(7, 10, 1));
    concurrent.put(7, Place::Cancelled);
    concurrent.ack_refused(held);
    concurrent.is_green();
}

#[test]
fn an_ack_accepted_beside_a_cancel_is_red() {
    let (mut s, held) = Script::claimed();
    s.cancel(7);
    s.ack(held);
    s.is_red_by(Rule::I7);
}

#[test]
fn a_fail_or_release_accepted_after_a_cancel_is_red() {
    for op in [Op::Fail, Op::Release] {
        let mut s = Script::new();
        s.enqueue(7);
        let held = s.claim("w1#1", 7, 10, 1);
        let mut before = s.clone();
        s.cancel(7);
        let open = s.begin_on(held, op);
        s.end_on(&open, held, Phase::Ok);
        s.is_red_by(Rule::I7);
        let open = before.begin_on(held, op);
        before.end_on(&open, held, Phase::Ok);
        before.cancel(7);
        before.is_green();
    }
}
