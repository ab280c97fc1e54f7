//! Hand-made histories of messages: a good one, and a bad one for each rule.
#![allow(clippy::unwrap_used)] // helpers of tests are tests
use bugle_testkit::checker::messages::{Books, Logged, check};
use bugle_testkit::checker::{Limits, Rule};
use bugle_testkit::history::{Call, Event, FaultKind, Item, Op, Recorder};
use chrono::{DateTime, TimeDelta, Utc};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(10);

struct Script {
    recorder: Recorder,
    books: Books,
    /// The database's clock.
    now: DateTime<Utc>,
}

fn message(mark: u64, seq: i64) -> Item {
    Item { mark: Some(mark), seq: Some(seq), partition: Some("p".into()), ..Item::default() }
}

impl Script {
    fn new() -> Self {
        Self { recorder: Recorder::new(), books: Books::default(), now: Utc::now() }
    }

    fn invoke(&self, who: &str, op: Op, items: Vec<Item>) -> Call {
        self.recorder.client().invoke(Event::new(who, op).queue("q").group("g").items(items)).unwrap()
    }

    /// A push that is answered, and stands in the log.
    fn push(&mut self, mark: u64, seq: i64) {
        self.invoke("producer", Op::Push, vec![message(mark, seq)])
            .ok(|event| event.items([message(mark, seq)]))
            .unwrap();
        self.log(mark, seq);
    }

    fn log(&mut self, mark: u64, seq: i64) {
        let log = self.books.log.entry("p".to_owned()).or_default();
        let n = i64::try_from(log.len()).unwrap() + 1;
        log.push(Logged { seq, n, mark });
        log.sort_by_key(|logged| logged.seq);
    }

    /// Hands messages out, at the database's time.
    fn pop(&mut self, who: &str, token: i64, messages: &[(u64, i64)]) {
        self.now += TimeDelta::seconds(1);
        let until = Some(self.now + LEASE);
        let item =
            |(mark, seq): &(u64, i64)| Item { lease_until: until, ..message(*mark, *seq).token(token) };
        let items: Vec<Item> = messages.iter().map(item).collect();
        self.invoke(who, Op::Pop, vec![]).ok(|event| event.items(items)).unwrap();
    }

    fn settle(&mut self, who: &str, op: Op, token: i64, seq: i64) {
        let item = || message(0, seq).token(token);
        self.invoke(who, op, vec![item()]).ok(|event| event.items([item()])).unwrap();
        if op == Op::Ack {
            let cursor = self.books.cursors.entry(("g".to_owned(), "p".to_owned())).or_default();
            *cursor = (*cursor).max(seq);
        }
    }

    fn broken(&self) -> Vec<Rule> {
        let limits = Limits { lease: LEASE, ..Limits::default() };
        check(&self.recorder.history(), &self.books, &limits).broken_rules()
    }
}

/// Two messages, popped together and acked one by one, by somebody else after the first gave the second back.
fn good() -> Script {
    let mut script = Script::new();
    script.push(1, 10);
    script.push(2, 20);
    script.pop("a", 1, &[(1, 10), (2, 20)]);
    script.settle("a", Op::Ack, 1, 10);
    script.settle("a", Op::Release, 1, 20);
    script.pop("b", 2, &[(2, 20)]);
    script.settle("b", Op::Ack, 2, 20);
    script
}

#[test]
fn a_good_history_of_messages_is_green() {
    assert_eq!(good().broken(), []);
}

#[test]
fn what_was_accepted_and_is_not_there_is_found() {
    let mut script = good();
    script.books.log.get_mut("p").unwrap().pop();
    assert!(script.broken().contains(&Rule::M1));
    let mut script = good();
    script.push(3, 30);
    assert_eq!(script.broken(), [Rule::M1], "nobody has done it");
}

#[test]
fn a_message_that_was_passed_and_never_handed_out_is_found() {
    let mut script = good();
    script.push(3, 30);
    script.books.cursors.insert(("g".to_owned(), "p".to_owned()), 30);
    assert_eq!(script.broken(), [Rule::M1]);
    let mut script = good();
    script.push(3, 30);
    script.pop("a", 3, &[(3, 30)]);
    script.books.cursors.insert(("g".to_owned(), "p".to_owned()), 30);
    assert_eq!(script.broken(), [Rule::M1], "nor acked");
}

#[test]
fn a_phantom_a_copy_and_a_gap_are_found() {
    let mut script = good();
    script.log(7, 15);
    assert!(script.broken().contains(&Rule::M2), "nobody pushed it");
    let mut script = good();
    script.log(1, 30);
    assert!(script.broken().contains(&Rule::M2), "it is there twice");
    let mut script = good();
    script.books.log.get_mut("p").unwrap()[1].n = 3;
    assert_eq!(script.broken(), [Rule::M2], "a number is missing");
    let mut script = good();
    for (mark, seq) in [(3, 30), (4, 40), (5, 50)] {
        script.push(mark, seq);
    }
    script.pop("a", 3, &[(3, 30), (5, 50)]);
    script.settle("a", Op::Ack, 3, 50);
    assert!(script.broken().contains(&Rule::M2), "a claim left one out");
}

#[test]
fn a_producers_order_that_is_not_kept_is_found() {
    let mut script = good();
    script.push(3, 40);
    script.push(4, 30);
    script.pop("a", 3, &[(4, 30), (3, 40)]);
    script.settle("a", Op::Ack, 3, 40);
    let broken = script.broken();
    assert!(broken.contains(&Rule::M3), "{broken:?}");
}

#[test]
fn two_holders_are_found_and_an_ended_lease_or_a_crash_excuses() {
    let two = |late: bool, crash: bool| {
        let mut script = good();
        script.push(3, 30);
        script.pop("a", 3, &[(3, 30)]);
        if crash {
            script.recorder.client().fault(FaultKind::ServerCrash, None).unwrap().end().unwrap();
        }
        if late {
            script.now += TimeDelta::from_std(LEASE).unwrap();
        }
        script.pop("b", 4, &[(3, 30)]);
        script.settle("b", Op::Ack, 4, 30);
        script.broken()
    };
    assert_eq!(two(false, false), [Rule::M4]);
    assert_eq!(two(true, false), []);
    assert_eq!(two(false, true), []);
}

#[test]
fn an_old_token_that_settles_is_found() {
    let mut script = good();
    script.push(3, 30);
    script.pop("a", 3, &[(3, 30)]);
    script.now += TimeDelta::from_std(LEASE).unwrap();
    script.pop("b", 4, &[(3, 30)]);
    script.settle("a", Op::Ack, 3, 30);
    assert_eq!(script.broken(), [Rule::M5]);
}

#[test]
fn a_cursor_that_goes_back_is_found() {
    let mut script = good();
    script.pop("a", 3, &[(2, 20)]);
    script.settle("a", Op::Ack, 3, 20);
    assert_eq!(script.broken(), [Rule::M6]);
}

#[test]
fn a_record_that_cannot_be_judged_is_found() {
    let script = good();
    script.invoke("a", Op::Ack, vec![Item::default()]);
    script.invoke("a", Op::Enqueue, vec![]);
    assert_eq!(script.broken(), [Rule::I0]);
}
