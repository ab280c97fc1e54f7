//! A million events: linear, so seconds. The time is printed, not judged.

use std::collections::BTreeMap;
use std::time::Instant;

use bugle_testkit::checker::{Counters, Limits, QueueSnapshot, Rule, Snapshot, check};
use bugle_testkit::history::{Event, History, Item, Op, Phase};
use chrono::{DateTime, Duration, Utc};

use super::script::QUEUE;

const EVENTS: usize = 1_000_000;
const WORKERS: usize = 8;

struct Generator {
    events: Vec<Event>,
    t_ns: u64,
}

impl Generator {
    fn now(&self) -> DateTime<Utc> {
        let ns = i64::try_from(self.t_ns).unwrap_or(0);
        DateTime::UNIX_EPOCH + Duration::days(20_000) + Duration::nanoseconds(ns)
    }

    fn call(&mut self, who: &str, op: Op, invoked: Vec<Item>, answered: Vec<Item>) {
        let call = u64::try_from(self.events.len()).unwrap_or(0);
        for (phase, items) in [(Phase::Invoke, invoked), (Phase::Ok, answered)] {
            self.t_ns += 10_000;
            let event = Event::new(who, op).queue(QUEUE).db_now(self.now()).items(items);
            self.events.push(Event { call, phase, t_ns: self.t_ns, ..event });
        }
    }

    /// One job's life; every tenth is released once and handed out again.
    fn job(&mut self, id: i64, worker: &str) {
        let key = (id % 7 == 0).then(|| format!("key-{id}").into());
        let mark = u64::try_from(id).ok();
        let new = Item { key, mark, max_attempts: Some(5), ..Item::default() };
        self.call("producer#1", Op::Enqueue, vec![new], vec![Item::job(id)]);
        let hand_outs = if id % 10 == 0 { 2 } else { 1 };
        for round in 0..hand_outs {
            let held = Item::job(id).token(2 * id + round);
            let until = self.now() + Duration::seconds(30);
            let hand_out = Item {
                x: Some(10 * id + round),
                attempt: Some(1),
                lease_until: Some(until),
                mark,
                ..held.clone()
            };
            self.call(worker, Op::Claim, Vec::new(), vec![hand_out]);
            let op = if round + 1 < hand_outs { Op::Release } else { Op::Ack };
            self.call(worker, op, vec![held.clone()], vec![held]);
        }
    }
}

#[test]
fn a_million_events_are_judged_in_one_go() {
    let mut generator = Generator { events: Vec::with_capacity(EVENTS + 10), t_ns: 0 };
    let workers: Vec<String> = (0..WORKERS).map(|n| format!("worker-{n}#1")).collect();
    let mut done = Vec::new();
    for (id, worker) in (1..).zip(workers.iter().cycle()) {
        if generator.events.len() >= EVENTS {
            break;
        }
        generator.job(id, worker);
        done.push(id);
    }
    let history = History::new(generator.events);
    let jobs = u64::try_from(done.len()).unwrap();
    let counters = Counters { enqueued: jobs, done: jobs, ..Counters::default() };
    let queue = QueueSnapshot { done, counters: Some(counters), ..QueueSnapshot::default() };
    let mut snapshot = Snapshot { queues: BTreeMap::from([(QUEUE.to_owned(), queue)]) };

    let began = Instant::now();
    let report = check(&history, &snapshot, &Limits::default());
    eprintln!("{} events judged in {:?}", report.counts.events, began.elapsed());
    assert!(report.is_green() && report.counts.redeliveries > 10_000, "{report}");

    let lost = snapshot.queues.get_mut(QUEUE).and_then(|queue| queue.done.pop());
    let report = check(&history, &snapshot, &Limits::default());
    assert!(report.violations.iter().any(|it| it.rule == Rule::I14 && it.job == lost), "{report}");
}
