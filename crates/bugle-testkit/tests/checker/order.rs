//! I8: per order key, one at a time and in order.

use bugle_testkit::checker::Rule;
use bugle_testkit::history::{FaultKind, Item, Op, Phase};

use super::script::{LEASE_MS, Script};

fn ordered() -> Item {
    Item { order_key: Some("o".into()), ..Item::default() }
}

fn two_in_order() -> Script {
    let mut s = Script::new();
    s.enqueue_as(6, ordered());
    s.enqueue_as(7, ordered());
    s
}

#[test]
fn a_later_job_that_starts_first_is_red() {
    let mut s = two_in_order();
    let mut right = s.clone();
    let seven = s.claim("w1#1", 7, 11, 1);
    s.ack(seven);
    s.is_red_by(Rule::I8);
    let six = s.claim("w1#1", 6, 10, 1);
    s.ack(six);
    s.is_red_by(Rule::I8);

    let six = right.claim("w1#1", 6, 10, 1);
    right.ack(six);
    right.claim("w1#1", 7, 11, 1);
    right.is_green();
}

#[test]
fn jobs_enqueued_at_the_same_time_may_start_in_any_order() {
    let mut s = Script::new();
    let six = s.begin_enqueue(ordered());
    let seven = s.begin_enqueue(ordered());
    s.end_enqueue(&six, 6);
    s.end_enqueue(&seven, 7);
    let seven = s.claim("w1#1", 7, 11, 1);
    s.ack(seven);
    s.claim("w1#1", 6, 10, 1);
    s.is_green();
}

#[test]
fn a_cancelled_job_holds_nobody_up() {
    let mut s = two_in_order();
    s.cancel(6);
    s.claim("w1#1", 7, 11, 1);
    s.is_green();
}

#[test]
fn two_jobs_of_one_order_key_at_a_time_are_red() {
    let mut s = two_in_order();
    s.claim("w1#1", 6, 10, 1);
    let mut expired = s.clone();
    let mut dead = s.clone();
    s.claim("w2#1", 7, 11, 1);
    s.is_red_by(Rule::I8);
    expired.wait_ms(LEASE_MS);
    expired.claim("w2#1", 7, 11, 1);
    expired.is_green();
    dead.fault(FaultKind::Killed, Some("w1#1"));
    dead.claim("w2#1", 7, 11, 1);
    dead.is_green();
}

#[test]
fn other_keys_and_jobs_without_a_key_do_not_mind() {
    let mut s = Script::new();
    s.enqueue_as(5, Item { order_key: Some("p".into()), ..Item::default() });
    s.enqueue(6);
    s.enqueue_as(7, ordered());
    s.claim("w1#1", 7, 10, 1);
    s.claim("w1#1", 6, 11, 1);
    s.claim("w1#1", 5, 12, 1);
    s.is_green();
}

#[test]
fn a_job_made_by_an_unanswered_enqueue_of_its_key_has_its_place_from_then_on() {
    let keyed = || Item { key: Some("k".into()), ..ordered() };
    let mut s = Script::new();
    s.enqueue_unknown(keyed()); // made job 7
    s.enqueue_as(6, ordered());
    s.enqueue_as(7, keyed());
    let seven = s.claim("w1#1", 7, 10, 1);
    s.ack(seven);
    s.claim("w1#1", 6, 11, 1);
    s.is_green();
}

#[test]
fn two_jobs_that_nobody_started_overtook_nobody() {
    let mut s = Script::new();
    let cancel = s.begin("producer#1", Op::Cancel, vec![Item::job(7)]); // a wild guess: first mention of 7
    s.answer(&cancel, Phase::Refused, Vec::new());
    s.enqueue_as(6, ordered());
    s.enqueue_as(7, ordered());
    s.is_green();
}
