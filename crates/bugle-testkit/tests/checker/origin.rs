//! I2 and I3: no phantom; one key, one job.

use bugle_testkit::checker::Rule;
use bugle_testkit::history::{Item, Phase};

use super::script::{Place, Script, hand_out};

fn marked(mark: u64) -> Item {
    Item { mark: Some(mark), ..Item::default() }
}

fn keyed(key: &str) -> Item {
    Item { key: Some(key.into()), ..Item::default() }
}

#[test]
fn a_job_that_nobody_enqueued_is_a_phantom() {
    let mut s = Script::new();
    s.claim("w1#1", 7, 10, 1);
    assert_eq!(s.report().broken_rules(), [Rule::I2, Rule::I14], "it is in the books, but nobody ordered it");
    s.miscount = None;
    s.is_red_by(Rule::I2);
    let mut repaired = Script::new();
    repaired.enqueue(7);
    repaired.claim("w1#1", 7, 10, 1);
    repaired.is_green();
}

#[test]
fn an_unknown_enqueue_appears_at_most_once() {
    let mut s = Script::new();
    s.enqueue_unknown(marked(1));
    s.enqueue_unknown(marked(2));
    let open = s.begin_claim("w1#1");
    s.end_claim(&open, "w1#1", Item { mark: Some(1), ..hand_out(7, 10, 1) });
    s.is_green();
    let mut bad = s.clone();
    let open = bad.begin_claim("w1#1");
    bad.end_claim(&open, "w1#1", Item { mark: Some(1), ..hand_out(8, 11, 1) });
    bad.is_red_by(Rule::I2);
    let open = s.begin_claim("w1#1");
    s.end_claim(&open, "w1#1", Item { mark: Some(2), ..hand_out(8, 11, 1) });
    s.is_green();
}

#[test]
fn an_accepted_enqueue_that_was_repeated_inside_is_a_phantom() {
    let mut s = Script::new();
    s.enqueue_unknown(marked(1)); // would hide the second job from a rule that only counts
    s.enqueue_as(7, marked(2));
    let open = s.begin_claim("w1#1");
    let mut once = s.clone();
    s.end_claim(&open, "w1#1", Item { mark: Some(2), ..hand_out(8, 11, 1) });
    s.is_red_by(Rule::I2);
    once.end_claim(&open, "w1#1", Item { mark: Some(2), ..hand_out(7, 11, 1) });
    once.is_green();
}

#[test]
fn a_refused_enqueue_that_appears_is_a_phantom() {
    let mut s = Script::new();
    s.enqueue_unknown(Item::default());
    let open = s.begin_enqueue(marked(1));
    let mut unknown = s.clone();
    unknown.answer(&open, Phase::Unknown, Vec::new());
    s.answer(&open, Phase::Refused, Vec::new());
    for script in [&mut s, &mut unknown] {
        let open = script.begin_claim("w1#1");
        script.end_claim(&open, "w1#1", Item { mark: Some(1), ..hand_out(7, 10, 1) });
    }
    s.is_red_by(Rule::I2);
    unknown.is_green();
}

#[test]
fn a_job_in_the_tables_that_nobody_enqueued_is_a_phantom() {
    let mut s = Script::new();
    s.enqueue(6);
    s.put(7, Place::Ready);
    s.miscount = None;
    s.is_red_by(Rule::I2);
    s.enqueue_unknown(Item::default());
    s.is_green();
}

#[test]
fn a_job_handed_out_before_it_was_enqueued_is_a_phantom() {
    let mut s = Script::new();
    s.claim("w1#1", 7, 10, 1);
    s.enqueue(7);
    s.is_red_by(Rule::I2);
    let mut concurrent = Script::new();
    let open = concurrent.begin_enqueue(Item::default());
    concurrent.claim("w1#1", 7, 10, 1);
    concurrent.end_enqueue(&open, 7);
    concurrent.is_green();
}

#[test]
fn a_key_that_was_unknown_and_then_makes_a_second_job_is_red() {
    let mut s = Script::new();
    s.enqueue_unknown(keyed("k"));
    let open = s.begin_claim("w1#1");
    s.end_claim(&open, "w1#1", Item { key: Some("k".into()), ..hand_out(7, 10, 1) });
    let mut same = s.clone();
    s.enqueue_as(8, keyed("k"));
    s.is_red_by(Rule::I3);
    same.enqueue_as(7, keyed("k"));
    same.is_green();
}

#[test]
fn a_key_answered_with_two_ids_is_red() {
    let mut s = Script::new();
    s.enqueue_as(7, keyed("k"));
    let mut other_key = s.clone();
    s.enqueue_as(8, keyed("k"));
    s.is_red_by(Rule::I3);
    other_key.enqueue_as(8, keyed("l"));
    other_key.is_green();
}

#[test]
fn a_retry_under_its_key_may_carry_the_same_mark() {
    let item = || Item { mark: Some(1), ..keyed("k") };
    let mut s = Script::new();
    s.enqueue_unknown(item());
    let open = s.begin_claim("w1#1");
    s.end_claim(&open, "w1#1", Item { mark: Some(1), ..hand_out(7, 10, 1) });
    s.enqueue_as(7, item());
    s.is_green();
}

#[test]
fn two_jobs_of_one_key_and_mark_are_the_keys_fault_alone() {
    let mut s = Script::new();
    s.enqueue_unknown(Item { mark: Some(1), ..keyed("k") });
    s.enqueue_unknown(Item { mark: Some(2), ..keyed("l") });
    for (job, x) in [(7, 10), (8, 11)] {
        let open = s.begin_claim("w1#1");
        s.end_claim(&open, "w1#1", Item { mark: Some(1), key: Some("k".into()), ..hand_out(job, x, 1) });
    }
    s.is_red_by(Rule::I3);
}
