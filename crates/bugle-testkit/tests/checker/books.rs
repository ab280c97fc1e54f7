//! I14: the books balance.

use bugle_testkit::checker::{Counters, Rule};

use super::script::{Place, Script};

fn one_done_one_ready() -> Script {
    let mut s = Script::new();
    s.enqueue(6);
    s.enqueue(7);
    let held = s.claim("w1#1", 7, 10, 1);
    s.ack(held);
    s.is_green();
    s
}

#[test]
fn a_job_both_done_and_ready_is_red() {
    let mut s = one_done_one_ready();
    s.places.insert(7, vec![Place::Done, Place::Ready]);
    s.is_red_by(Rule::I14);
    s.miscount = None;
    s.is_red_by(Rule::I14);
}

#[test]
fn an_acked_job_that_is_ready_again_is_red() {
    let mut s = one_done_one_ready();
    s.put(7, Place::Ready);
    s.is_red_by(Rule::I14);
}

#[test]
fn an_acked_job_in_no_table_is_red() {
    let mut s = one_done_one_ready();
    s.places.remove(&7);
    s.is_red_by(Rule::I14);
}

#[test]
fn a_cancelled_job_that_is_still_leased_is_red() {
    let mut s = one_done_one_ready();
    s.cancel(6);
    s.is_green();
    s.put(6, Place::Leased);
    s.is_red_by(Rule::I14);
}

#[test]
fn every_counter_off_by_one_is_red() {
    let miscounts: [fn(&mut Counters); 7] = [
        |counters| counters.enqueued += 1,
        |counters| counters.ready += 1,
        |counters| counters.scheduled += 1,
        |counters| counters.leased += 1,
        |counters| counters.done -= 1,
        |counters| counters.dead += 1,
        |counters| counters.cancelled += 1,
    ];
    for miscount in miscounts {
        let mut s = one_done_one_ready();
        s.miscount = Some(miscount);
        s.is_red_by(Rule::I14);
    }
}
