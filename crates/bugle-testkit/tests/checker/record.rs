//! I0 and the demand: a record that proves nothing is not green.

use bugle_testkit::checker::Rule;
use bugle_testkit::history::{Event, FaultKind, Item, Op, Phase};

use super::script::{QUEUE, Script};

#[test]
fn an_answer_without_an_invoke_is_red() {
    let mut s = Script::new();
    let stray = Event { phase: Phase::Ok, ..Event::new("w1#1", Op::Claim).queue(QUEUE) };
    s.record(stray);
    s.is_red_by(Rule::I0);
}

#[test]
fn a_hand_out_without_its_fields_is_red() {
    let mut s = Script::new();
    s.enqueue(7);
    let open = s.begin_claim("w1#1");
    s.answer(&open, Phase::Ok, vec![Item::job(7)]);
    s.is_red_by(Rule::I0);
}

#[test]
fn an_ack_answered_for_another_job_is_red() {
    let (mut s, held) = Script::claimed();
    let open = s.begin_on(held, Op::Ack);
    s.answer(&open, Phase::Ok, vec![Item::job(8).token(held.token)]);
    s.is_red_by(Rule::I0);
}

#[test]
fn a_renewal_without_its_new_end_is_red() {
    let (mut s, held) = Script::claimed();
    let open = s.begin("w1#1", Op::Renew, vec![Item::default().token(held.token)]);
    s.answer(&open, Phase::Ok, vec![Item::default().token(held.token)]);
    s.is_red_by(Rule::I0);
}

#[test]
fn a_call_number_used_twice_is_red() {
    let mut s = Script::new();
    let claim = Event { call: 99, ..Event::new("w1#1", Op::Claim).queue(QUEUE) };
    s.record(claim.clone());
    s.record(claim);
    s.is_red_by(Rule::I0);
}

#[test]
fn a_run_that_met_no_fault_or_no_unknown_does_not_pass() {
    let mut s = Script::new();
    s.enqueue(7);
    let report = s.report();
    assert!(report.demand(0, 0).is_ok());
    assert!(report.demand(1, 0).unwrap_err().contains("only 0 faults hit"));
    assert!(report.demand(0, 1).unwrap_err().contains("only 0 unknown answers"));
}

#[test]
fn a_fault_that_no_call_met_does_not_count() {
    let mut s = Script::new();
    s.enqueue(7);
    s.wait_ms(10_000);
    s.fault(FaultKind::ServerCrash, None);
    assert!(s.report().counts.faults_hit.is_empty());
    let crash = s.begin_fault(FaultKind::ServerCrash, None);
    s.enqueue_unknown(Item::default());
    s.end_fault(&crash);
    assert_eq!(
        s.report().counts.faults_hit.values().sum::<u64>(),
        2,
        "the grace of the first reaches it too"
    );
}

#[test]
fn a_red_report_names_rule_job_and_events() {
    let mut s = Script::new();
    s.enqueue(7);
    s.places.clear();
    let text = s.report().demand(0, 0).unwrap_err();
    assert!(text.contains("I1 job 7: accepted, not ended, and in no table (events [2])"), "{text}");
}
