//! Histories that look odd and are legal.

use bugle_testkit::history::{FaultKind, Item, Op, Phase};

use super::script::{LEASE_MS, Place, Script, hand_out};

#[test]
fn an_empty_history_is_green() {
    Script::new().is_green();
}

/// One story with everything in it.
fn everything() -> Script {
    let mut s = Script::new();
    let key = || Item { key: Some("k".into()), mark: Some(1), ..Item::default() };
    s.enqueue(1);
    s.enqueue_unknown(key());
    s.enqueue_as(2, Item { mark: Some(2), ..key() });
    s.enqueue_unknown(Item { mark: Some(3), ..Item::default() }); // becomes job 3
    s.enqueue_unknown(Item { mark: Some(4), ..Item::default() }); // never happened
    let due = s.in_ms(500);
    s.enqueue_as(5, Item { due: Some(due), ..Item::default() });
    s.enqueue_as(6, Item { order_key: Some("o".into()), ..Item::default() });
    s.enqueue_as(7, Item { order_key: Some("o".into()), ..Item::default() });
    s.enqueue(8);
    s.enqueue(9);

    let one = s.claim("w1#1", 1, 10, 1); // released, failed, expired after a renewal, finished
    s.release(one);
    let one = s.claim("w1#1", 1, 20, 1);
    let retry = s.in_ms(100);
    s.fail(one, retry);
    s.wait_ms(100);
    let one = s.claim("w1#1", 1, 30, 2);
    s.renew(one);
    let open = s.begin_claim("w2#1");
    let two = s.end_claim(&open, "w2#1", Item { key: Some("k".into()), mark: Some(1), ..hand_out(2, 11, 1) });
    s.unknown(two, Op::Ack); // happened
    s.put(2, Place::Done);
    let open = s.begin_claim("w2#1");
    let three = s.end_claim(&open, "w2#1", Item { mark: Some(3), ..hand_out(3, 12, 1) });
    let six = s.claim("w2#1", 6, 13, 1);
    s.ack(six);
    let seven = s.claim("w2#1", 7, 14, 1);
    s.cancel(7);
    s.ack_refused(seven);
    s.wait_ms(500);
    let five = s.claim("w2#1", 5, 15, 1);

    let crash = s.begin_fault(FaultKind::ServerCrash, None); // undoes the hand-out of 5, not that of 3
    s.unknown(five, Op::Release); // did not happen
    s.end_fault(&crash);
    let five_again = s.claim("w2#2", 5, 15, 1);
    s.ack_refused(five);
    s.ack(five_again);

    s.begin_claim("w3#1"); // killed before it was answered: holds 8
    s.fault(FaultKind::Killed, Some("w3#1"));
    s.wait_ms(LEASE_MS + 10);
    let one_again = s.claim("w2#2", 1, 40, 3);
    s.ack_refused(one);
    s.ack(one_again);
    s.ack(three); // its lease is long over, but nobody took the job
    let eight = s.claim("w2#2", 8, 41, 2);
    s.ack(eight);
    let nine = s.claim("w2#2", 9, 16, 1);
    let now = s.db_now();
    s.fail(nine, now);
    let nine = s.claim("w2#2", 9, 42, 2);
    s.fail(nine, now);
    let nine = s.claim("w2#2", 9, 43, 3);
    s.fail(nine, now);
    s.put(9, Place::Dead);
    s.fault(FaultKind::Heal, None);
    s
}

#[test]
fn a_history_with_everything_in_it_is_green_and_counted() {
    let script = everything();
    script.is_green();
    let counts = script.report().counts;
    assert_eq!(counts.hand_outs, 14);
    assert_eq!(counts.redeliveries, 6);
    assert_eq!(counts.unknowns, 6);
    assert_eq!(counts.faults_hit.get(&FaultKind::ServerCrash), Some(&1));
    assert_eq!(counts.faults_hit.get(&FaultKind::Killed), Some(&1));
    assert_eq!(counts.faults_hit.len(), 2);
    script.report().demand(2, 5).unwrap();
}

#[test]
fn an_unknown_ack_may_have_happened_or_not() {
    let (mut s, held) = Script::claimed();
    s.unknown(held, Op::Ack);
    let mut happened = s.clone();
    happened.put(7, Place::Done);
    happened.is_green();
    s.wait_ms(LEASE_MS);
    let again = s.claim("w2#1", 7, 20, 2);
    s.ack(again);
    s.is_green();
}

#[test]
fn a_hand_out_answered_after_a_newer_ones_ack_is_merely_late() {
    let mut s = Script::new();
    s.enqueue(7);
    let slow = s.begin_claim("w1#1");
    let taken_at = s.db_now();
    let pause = s.begin_fault(FaultKind::Paused, Some("w1#1"));
    s.wait_ms(LEASE_MS);
    let newer = s.claim("w2#1", 7, 20, 2);
    s.ack(newer);
    s.end_fault(&pause);
    let late = s.end_claim_at(&slow, "w1#1", hand_out(7, 10, 1), taken_at);
    s.put(7, Place::Done);
    s.is_green();
    s.ack_refused(late);
    s.is_green();
}

#[test]
fn a_batch_may_be_accepted_in_part() {
    let mut s = Script::new();
    s.enqueue(1);
    s.enqueue(2);
    let one = s.claim("w1#1", 1, 10, 1);
    let two = s.claim("w1#1", 2, 11, 1);
    s.cancel(1);
    let items = [one, two].map(|held| Item::job(held.job).token(held.token));
    let open = s.begin("w1#1", Op::Ack, items.to_vec());
    s.end_on(&open, two, Phase::Ok);
    s.end_on(&open, one, Phase::Refused);
    s.is_green();
}
