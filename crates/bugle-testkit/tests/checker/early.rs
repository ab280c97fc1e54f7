//! I9: not early.

use bugle_testkit::checker::Rule;
use bugle_testkit::history::Item;
use chrono::Duration;

use super::script::{Script, hand_out};

#[test]
fn a_job_handed_out_one_microsecond_early_is_red() {
    for (early_us, green) in [(1, false), (0, true)] {
        let mut s = Script::new();
        let due = s.in_ms(500);
        s.enqueue_as(7, Item { due: Some(due), ..Item::default() });
        s.wait_ms(500);
        let open = s.begin_claim("w1#1");
        s.end_claim_at(&open, "w1#1", hand_out(7, 10, 1), due - Duration::microseconds(early_us));
        if green { s.is_green() } else { s.is_red_by(Rule::I9) }
    }
}

#[test]
fn a_retry_before_its_time_is_red() {
    for (wait_ms, green) in [(996, false), (997, true)] {
        let mut s = Script::new();
        s.enqueue(7);
        let held = s.claim("w1#1", 7, 10, 1);
        let due = s.in_ms(1000);
        s.fail(held, due);
        s.wait_ms(wait_ms); // and three events
        s.claim("w1#1", 7, 20, 2);
        if green { s.is_green() } else { s.is_red_by(Rule::I9) }
    }
}

#[test]
fn under_one_key_the_earliest_due_date_counts() {
    let mut s = Script::new();
    let (soon, late) = (s.in_ms(10), s.in_ms(60_000));
    let keyed = |due| Item { due: Some(due), key: Some("k".into()), ..Item::default() };
    s.enqueue_unknown(keyed(soon));
    s.enqueue_as(7, keyed(late));
    s.wait_ms(20);
    s.claim("w1#1", 7, 10, 1);
    s.is_green();
}
