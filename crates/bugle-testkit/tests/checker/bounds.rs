//! I11: attempts, pick-up, drain.

use bugle_testkit::checker::Rule;
use bugle_testkit::history::{FaultKind, Item};

use super::script::{LEASE_MS, Script, hand_out};

#[test]
fn an_attempt_beyond_the_last_is_red() {
    let mut s = Script::new();
    s.enqueue_as(7, Item { max_attempts: Some(2), ..Item::default() });
    for (x, attempt) in [(10, 1), (20, 2)] {
        s.claim("w1#1", 7, x, attempt);
        s.wait_ms(LEASE_MS);
    }
    s.is_green();
    s.claim("w1#1", 7, 30, 3);
    s.is_red_by(Rule::I11);
}

/// A claim waits, a job comes, and the claim gets it so many milliseconds later.
fn picked_up_after(ms: i64) -> Script {
    let mut s = Script::new();
    let open = s.begin_claim("w1#1");
    s.enqueue(7);
    s.wait_ms(ms);
    s.end_claim(&open, "w1#1", hand_out(7, 10, 1));
    s
}

#[test]
fn a_slow_pick_up_in_calm_is_red() {
    picked_up_after(1999).is_green();
    picked_up_after(2001).is_red_by(Rule::I11);
}

#[test]
fn a_slow_pick_up_is_excused_by_a_fault_near_it() {
    let mut s = Script::new();
    let open = s.begin_claim("w1#1");
    s.enqueue(7);
    let cut = s.begin_fault(FaultKind::Cut, None);
    s.wait_ms(9000);
    s.end_fault(&cut);
    s.wait_ms(1500);
    let mut long_after = s.clone();
    s.end_claim(&open, "w1#1", hand_out(7, 10, 1));
    s.is_green();
    long_after.wait_ms(2600); // the grace is over, and the poll interval too
    long_after.end_claim(&open, "w1#1", hand_out(7, 10, 1));
    long_after.is_red_by(Rule::I11);
}

#[test]
fn a_clock_that_jumps_excuses_no_slow_pick_up() {
    let mut s = Script::new();
    let open = s.begin_claim("w1#1");
    s.enqueue(7);
    s.fault(FaultKind::ClockJumped, Some("w1#1"));
    s.wait_ms(2001);
    s.end_claim(&open, "w1#1", hand_out(7, 10, 1));
    s.is_red_by(Rule::I11);
}

#[test]
fn a_job_that_waits_while_nobody_asks_is_not_slow() {
    let mut s = Script::new();
    s.enqueue(7);
    s.wait_ms(60_000);
    s.claim("w1#1", 7, 10, 1);
    s.is_green();
}

#[test]
fn a_claim_that_leaves_empty_handed_beside_a_ready_job_is_red() {
    let mut s = Script::new();
    s.enqueue(7);
    let open = s.begin_claim("w1#1");
    s.wait_ms(5000);
    s.end_claim_empty(&open);
    s.claim("w1#1", 7, 10, 1);
    s.is_red_by(Rule::I11);
}

#[test]
fn a_scheduled_job_is_late_only_after_its_due_date() {
    for (late_ms, green) in [(1900, true), (2100, false)] {
        let mut s = Script::new();
        let due = s.in_ms(10_000);
        s.enqueue_as(7, Item { due: Some(due), ..Item::default() });
        let open = s.begin_claim("w1#1");
        s.wait_ms(10_000 + late_ms);
        s.end_claim(&open, "w1#1", hand_out(7, 10, 1));
        if green { s.is_green() } else { s.is_red_by(Rule::I11) }
    }
}

#[test]
fn an_expired_lease_is_swept_and_picked_up_in_time() {
    for (late_ms, green) in [(2900, true), (3100, false)] {
        let mut s = Script::new();
        s.enqueue(7);
        s.claim("w1#1", 7, 10, 1);
        let open = s.begin_claim("w2#1");
        s.wait_ms(LEASE_MS + late_ms);
        s.end_claim(&open, "w2#1", hand_out(7, 20, 2));
        if green { s.is_green() } else { s.is_red_by(Rule::I11) }
    }
}

#[test]
fn a_released_job_is_picked_up_in_time() {
    for (late_ms, green) in [(1900, true), (2100, false)] {
        let mut s = Script::new();
        s.enqueue(7);
        let held = s.claim("w1#1", 7, 10, 1);
        let open = s.begin_claim("w2#1");
        s.release(held);
        s.wait_ms(late_ms);
        s.end_claim(&open, "w2#1", hand_out(7, 20, 1));
        if green { s.is_green() } else { s.is_red_by(Rule::I11) }
    }
}

#[test]
fn a_drain_that_takes_too_long_after_healing_is_red() {
    for (late_ms, green) in [(-100, true), (100, false)] {
        let mut s = Script::new();
        s.enqueue(7);
        s.fault(FaultKind::Heal, None);
        s.wait_ms(LEASE_MS + 1000 + 5000 + late_ms);
        let held = s.claim("w1#1", 7, 10, 1);
        s.ack(held);
        if green { s.is_green() } else { s.is_red_by(Rule::I11) }
    }
}

#[test]
fn a_job_still_there_after_the_time_to_drain_is_red() {
    let mut s = Script::new();
    s.enqueue(7);
    s.fault(FaultKind::Heal, None);
    let mut stopped_early = s.clone();
    stopped_early.enqueue(8);
    stopped_early.is_green();
    assert_eq!(stopped_early.report().counts.undrained, 1, "nobody can tell");
    s.wait_ms(LEASE_MS + 6100);
    s.enqueue(8);
    s.is_red_by(Rule::I11);
}

#[test]
fn a_job_not_due_when_the_system_healed_has_its_time_from_then_on() {
    let mut s = Script::new();
    let due = s.in_ms(100_000);
    s.enqueue_as(7, Item { due: Some(due), ..Item::default() });
    s.fault(FaultKind::Heal, None);
    s.wait_ms(110_000);
    let held = s.claim("w1#1", 7, 10, 1);
    s.ack(held);
    s.is_green();
}

#[test]
fn a_row_ready_after_its_last_attempt_is_red() {
    let mut s = Script::new();
    s.enqueue(7);
    s.rows = (2, 0);
    s.is_green();
    s.rows = (3, 0);
    s.is_red_by(Rule::I11);
}

#[test]
fn the_worst_of_a_backlog_is_found() {
    let mut s = Script::new();
    s.enqueue(6);
    s.enqueue(7);
    s.wait_ms(3000);
    s.claim("w1#1", 6, 10, 1);
    s.is_green();
    let open = s.begin_claim("w1#1");
    s.wait_ms(5000);
    s.end_claim_empty(&open);
    s.claim("w1#1", 7, 11, 1);
    s.is_red_by(Rule::I11);
    assert_eq!(s.report().violations[0].job, Some(7));
}

#[test]
fn a_job_that_an_unseen_claim_held_meanwhile_was_not_ready() {
    let mut s = Script::new();
    s.enqueue(7);
    s.claim("w1#1", 7, 10, 1);
    let open = s.begin_claim("w2#1");
    s.wait_ms(LEASE_MS);
    s.begin_claim("w3#1"); // holds attempt 2, and is never heard of again
    s.wait_ms(LEASE_MS);
    s.end_claim(&open, "w2#1", hand_out(7, 30, 3));
    s.is_green();
}

#[test]
fn a_job_given_back_after_healing_has_its_time_from_then_on() {
    let mut s = Script::new();
    s.enqueue(7);
    s.fault(FaultKind::Heal, None);
    s.wait_ms(LEASE_MS);
    let held = s.claim("w1#1", 7, 10, 1);
    s.release(held);
    s.wait_ms(LEASE_MS);
    let held = s.claim("w1#1", 7, 20, 1);
    s.ack(held);
    s.is_green();
}
