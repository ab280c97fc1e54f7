//! I4, I5, I10: each hand-out follows from the one before it.

use bugle_testkit::checker::Rule;
use bugle_testkit::history::{FaultKind, Op, Phase};
use chrono::Duration;

use super::script::{Held, LEASE_MS, Script, hand_out};

/// A job in the hands of a first worker.
fn held() -> (Script, Held) {
    let (s, held) = Script::claimed();
    (s, held)
}

#[test]
fn the_same_x_handed_out_twice_is_red() {
    let (mut s, held) = held();
    s.release(held);
    let mut grown = s.clone();
    s.claim("w2#1", 7, 10, 1);
    s.is_red_by(Rule::I4);
    grown.claim("w2#1", 7, 11, 1);
    grown.is_green();
}

#[test]
fn an_x_that_shrinks_is_red() {
    let (mut s, held) = held();
    s.release(held);
    s.claim("w2#1", 7, 9, 1);
    s.is_red_by(Rule::I4);
}

#[test]
fn a_token_used_for_two_hand_outs_of_a_job_is_red() {
    let (mut s, held) = held();
    s.release(held);
    let open = s.begin_claim("w2#1");
    s.end_claim(&open, "w2#1", hand_out(7, 20, 1).token(held.token));
    s.is_red_by(Rule::I4);
}

#[test]
fn a_server_crash_may_undo_a_hand_out_so_that_the_same_x_comes_again() {
    for kind in [FaultKind::ServerCrash, FaultKind::BackendKilled] {
        let (mut s, _) = held();
        s.fault(kind, None);
        s.claim("w2#1", 7, 10, 1);
        s.is_green();
    }
    let (mut s, _) = held();
    s.fault(FaultKind::BackendTerminated, None);
    s.claim("w2#1", 7, 10, 1);
    s.is_red_by(Rule::I4);
}

#[test]
fn a_crash_before_the_hand_out_excuses_nothing() {
    let mut s = Script::new();
    s.fault(FaultKind::ServerCrash, None);
    s.enqueue(7);
    let held = s.claim("w1#1", 7, 10, 1);
    s.release(held);
    s.claim("w2#1", 7, 10, 1);
    s.is_red_by(Rule::I4);
}

#[test]
fn a_hand_out_that_an_ack_has_flushed_survives_the_crash() {
    let mut s = Script::new();
    s.enqueue(6);
    s.enqueue(7);
    let six = s.claim("w1#1", 6, 10, 1);
    let mut flushed = s.clone();
    // Acked before the claim was even sent: proves nothing about the claim.
    s.ack(six);
    s.claim("w1#1", 7, 11, 1);
    s.fault(FaultKind::ServerCrash, None);
    s.claim("w2#1", 7, 11, 1);
    s.is_green();
    flushed.claim("w1#1", 7, 11, 1);
    flushed.ack(six);
    flushed.fault(FaultKind::ServerCrash, None);
    flushed.claim("w2#1", 7, 11, 1);
    flushed.is_red_by(Rule::I4);
}

#[test]
fn a_crash_may_undo_a_sweep_together_with_the_hand_out() {
    let (mut s, first) = held();
    s.wait_ms(LEASE_MS);
    s.claim("w2#1", 7, 50, 2);
    s.fault(FaultKind::ServerCrash, None);
    let mut acked = s.clone();
    s.claim("w3#1", 7, 40, 2); // swept again, under a transaction number used a second time
    s.is_green();
    acked.ack(first); // or not swept yet: the first lease is back in force
    acked.is_green();
}

#[test]
fn spans_that_overlap_by_one_millisecond_are_red() {
    for (overlap_ms, green) in [(1, false), (0, true)] {
        let (mut s, _) = held();
        let until = s.in_ms(LEASE_MS - 1); // the claim was answered one millisecond ago
        s.wait_ms(LEASE_MS);
        let open = s.begin_claim("w2#1");
        s.end_claim_at(&open, "w2#1", hand_out(7, 20, 2), until - Duration::milliseconds(overlap_ms));
        if green { s.is_green() } else { s.is_red_by(Rule::I5) }
    }
}

#[test]
fn a_renewed_lease_is_held_until_its_new_end() {
    let (mut s, held) = held();
    s.wait_ms(LEASE_MS - 1000);
    s.renew(held);
    s.wait_ms(2000);
    let mut later = s.clone();
    s.claim("w2#1", 7, 20, 2);
    s.is_red_by(Rule::I5);
    later.wait_ms(LEASE_MS);
    later.claim("w2#1", 7, 20, 2);
    later.is_green();
}

#[test]
fn an_unknown_renewal_may_not_have_happened() {
    let (mut s, held) = held();
    s.wait_ms(LEASE_MS - 1000);
    s.unknown(held, Op::Renew);
    s.wait_ms(2000);
    s.claim("w2#1", 7, 20, 2);
    s.is_green();
}

#[test]
fn a_redelivery_before_expiry_needs_a_fail_a_release_or_a_death() {
    let (mut s, first) = held();
    let mut unknown = s.clone();
    let mut refused = s.clone();
    let mut dead = s.clone();
    s.claim("w2#1", 7, 20, 2);
    s.is_red_by(Rule::I5);

    unknown.unknown(first, Op::Fail);
    unknown.claim("w2#1", 7, 20, 2);
    unknown.is_green();

    let open = refused.begin_on(first, Op::Fail);
    refused.end_on(&open, first, Phase::Refused);
    refused.claim("w2#1", 7, 20, 2);
    refused.is_red_by(Rule::I5);

    dead.fault(FaultKind::Killed, Some("w1#1"));
    dead.claim("w2#1", 7, 20, 2);
    dead.is_green();
    dead.limits.death_ends_lease = false;
    dead.is_red_by(Rule::I5);
}

#[test]
fn an_attempt_counted_like_an_expiry_without_expiry_or_death_is_red() {
    let (mut s, first) = held();
    s.release(first);
    let mut kept = s.clone();
    let mut dead = s.clone();
    s.claim("w2#1", 7, 20, 2);
    s.is_red_by(Rule::I10);
    kept.claim("w2#1", 7, 20, 1);
    kept.is_green();
    dead.fault(FaultKind::Killed, Some("w1#1"));
    dead.claim("w2#1", 7, 20, 2);
    dead.is_green();
}

#[test]
fn a_fail_or_an_expiry_that_counts_no_attempt_is_red() {
    let (mut failed, first) = held();
    let now = failed.db_now();
    failed.fail(first, now);
    failed.claim("w2#1", 7, 20, 1);
    failed.is_red_by(Rule::I10);

    let (mut expired, _) = held();
    expired.wait_ms(LEASE_MS);
    expired.claim("w2#1", 7, 20, 1);
    expired.is_red_by(Rule::I10);
}

#[test]
fn an_attempt_that_goes_back_is_red() {
    let (mut s, _) = held();
    s.wait_ms(LEASE_MS);
    s.claim("w2#1", 7, 20, 2);
    s.wait_ms(LEASE_MS);
    s.claim("w1#1", 7, 30, 1);
    s.is_red_by(Rule::I10);
}

#[test]
fn a_skipped_attempt_needs_a_claim_that_nobody_saw_answered() {
    let (mut s, _) = held();
    let mut unseen = s.clone();
    s.wait_ms(2 * LEASE_MS);
    s.claim("w2#1", 7, 30, 3);
    s.is_red_by(Rule::I10);
    unseen.wait_ms(LEASE_MS);
    unseen.begin_claim("w3#1");
    unseen.fault(FaultKind::Killed, Some("w3#1"));
    unseen.wait_ms(LEASE_MS);
    unseen.claim("w2#1", 7, 30, 3);
    unseen.is_green();
}

#[test]
fn a_first_hand_out_is_attempt_one() {
    let mut s = Script::new();
    s.enqueue(7);
    s.claim("w1#1", 7, 10, 2);
    s.is_red_by(Rule::I10);
}

#[test]
fn a_ready_row_with_an_x_already_handed_out_is_red() {
    let (mut s, first) = held();
    s.release(first);
    s.rows = (0, 10);
    s.is_red_by(Rule::I4);
    s.rows = (0, 20);
    s.is_green();
    s.rows = (0, 10);
    s.fault(FaultKind::ServerCrash, None);
    s.is_green(); // the claim was undone, and the row is as it was
}

#[test]
fn a_crash_after_both_hand_outs_excuses_nothing() {
    let (mut s, first) = held();
    s.release(first);
    s.claim("w2#1", 7, 10, 1);
    s.fault(FaultKind::ServerCrash, None);
    s.is_red_by(Rule::I4);
}

#[test]
fn a_release_that_was_asked_for_too_late_is_no_cause() {
    let (mut s, first) = held();
    let mut asked = s.clone();
    s.claim("w2#1", 7, 20, 1);
    s.unknown(first, Op::Release);
    s.is_red_by(Rule::I5);
    asked.unknown(first, Op::Release);
    asked.claim("w2#1", 7, 20, 1);
    asked.is_green();
}

#[test]
fn a_claim_given_up_before_the_hand_out_explains_no_attempt() {
    let mut s = Script::new();
    s.enqueue(7);
    let open = s.begin_claim("w3#1");
    let mut open_for_long = s.clone();
    s.answer(&open, Phase::Unknown, Vec::new());
    for script in [&mut s, &mut open_for_long] {
        script.claim("w1#1", 7, 10, 1);
        script.wait_ms(2 * LEASE_MS);
        script.claim("w2#1", 7, 30, 3);
    }
    s.is_red_by(Rule::I10);
    open_for_long.is_green();
}
