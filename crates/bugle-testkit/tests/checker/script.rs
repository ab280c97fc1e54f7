//! Writes tiny histories that read like a story.
//!
//! Every event comes one millisecond after the last, and the database's clock runs with it. The final tables
//! follow from the story unless it says otherwise.

use std::collections::BTreeMap;

use bugle_testkit::checker::{Counters, Limits, QueueSnapshot, Report, Row, Rule, Snapshot, check};
use bugle_testkit::history::{Event, Fault, FaultKind, History, Item, Op, Phase};
use chrono::{DateTime, Duration, Utc};

pub(crate) const QUEUE: &str = "mail";
pub(crate) const LEASE_MS: i64 = 30_000;
pub(crate) const MAX_ATTEMPTS: i32 = 3;

/// Where a job is at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Ready,
    Leased,
    Scheduled,
    Orphan,
    Done,
    Dead,
    Cancelled,
}

/// A job in a worker's hands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) who: &'static str,
    pub(crate) job: i64,
    pub(crate) token: i64,
}

/// A call under way.
#[derive(Clone, Debug)]
pub(crate) struct Open(Event);

#[derive(Clone, Debug)]
pub(crate) struct Script {
    events: Vec<Event>,
    t_us: i64,
    last_token: i64,
    pub(crate) places: BTreeMap<i64, Vec<Place>>,
    /// What every row says: attempts used up, x.
    pub(crate) rows: (i32, i64),
    pub(crate) limits: Limits,
    /// Falsifies the counters; `None` for a system without any.
    pub(crate) miscount: Option<fn(&mut Counters)>,
}

pub(crate) fn hand_out(job: i64, x: i64, attempt: i32) -> Item {
    Item { x: Some(x), attempt: Some(attempt), ..Item::job(job) }
}

impl Script {
    pub(crate) fn new() -> Self {
        Self {
            events: Vec::new(),
            t_us: 0,
            last_token: 100,
            places: BTreeMap::new(),
            rows: (0, 0),
            limits: Limits::default(),
            miscount: Some(|_| {}),
        }
    }

    pub(crate) fn wait_ms(&mut self, ms: i64) {
        self.t_us += ms * 1000;
    }

    pub(crate) fn db_now(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + Duration::days(20_000) + Duration::microseconds(self.t_us)
    }

    /// The database's time, so many milliseconds from now.
    pub(crate) fn in_ms(&self, ms: i64) -> DateTime<Utc> {
        self.db_now() + Duration::milliseconds(ms)
    }

    pub(crate) fn put(&mut self, job: i64, place: Place) {
        self.places.insert(job, vec![place]);
    }

    // Calls in two halves.

    pub(crate) fn record(&mut self, mut event: Event) {
        self.t_us += 1000;
        event.t_ns = u64::try_from(self.t_us * 1000).unwrap_or(0);
        self.events.push(event);
    }

    pub(crate) fn begin(&mut self, who: &str, op: Op, items: Vec<Item>) -> Open {
        let mut event = Event::new(who, op).queue(QUEUE).items(items);
        event.call = u64::try_from(self.events.len()).unwrap_or(0) + 1;
        let answer = Event { items: Vec::new(), ..event.clone() };
        self.record(event);
        Open(answer)
    }

    pub(crate) fn answer(&mut self, open: &Open, phase: Phase, items: Vec<Item>) {
        self.record(Event { phase, ..open.0.clone() }.items(items));
    }

    // Enqueue.

    pub(crate) fn enqueue(&mut self, job: i64) {
        self.enqueue_as(job, Item::default());
    }

    pub(crate) fn enqueue_as(&mut self, job: i64, item: Item) {
        let open = self.begin_enqueue(item);
        self.end_enqueue(&open, job);
    }

    pub(crate) fn begin_enqueue(&mut self, item: Item) -> Open {
        let item = Item { max_attempts: item.max_attempts.or(Some(MAX_ATTEMPTS)), ..item };
        self.begin("producer#1", Op::Enqueue, vec![item])
    }

    pub(crate) fn end_enqueue(&mut self, open: &Open, job: i64) {
        self.answer(open, Phase::Ok, vec![Item::job(job)]);
        self.places.entry(job).or_insert_with(|| vec![Place::Ready]);
    }

    pub(crate) fn enqueue_unknown(&mut self, item: Item) {
        let open = self.begin_enqueue(item);
        self.answer(&open, Phase::Unknown, Vec::new());
    }

    // Claim.

    /// Job 7 was enqueued and is in the hands of worker w1.
    pub(crate) fn claimed() -> (Self, Held) {
        let mut s = Self::new();
        s.enqueue(7);
        let held = s.claim("w1#1", 7, 10, 1);
        (s, held)
    }

    pub(crate) fn claim(&mut self, who: &'static str, job: i64, x: i64, attempt: i32) -> Held {
        let open = self.begin_claim(who);
        self.end_claim(&open, who, hand_out(job, x, attempt))
    }

    pub(crate) fn begin_claim(&mut self, who: &str) -> Open {
        self.begin(who, Op::Claim, Vec::new())
    }

    pub(crate) fn end_claim(&mut self, open: &Open, who: &'static str, item: Item) -> Held {
        let now = self.db_now();
        self.end_claim_at(open, who, item, now)
    }

    pub(crate) fn end_claim_at(
        &mut self,
        open: &Open,
        who: &'static str,
        item: Item,
        db_now: DateTime<Utc>,
    ) -> Held {
        self.last_token += 1;
        let token = item.token.unwrap_or(self.last_token);
        let job = item.job.unwrap_or(0);
        let until = db_now + Duration::milliseconds(LEASE_MS);
        let item = Item { token: Some(token), lease_until: Some(until), ..item };
        self.record(Event { phase: Phase::Ok, ..open.0.clone() }.db_now(db_now).items([item]));
        self.put(job, Place::Leased);
        Held { who, job, token }
    }

    /// A claim that found nothing.
    pub(crate) fn end_claim_empty(&mut self, open: &Open) {
        let now = self.db_now();
        self.record(Event { phase: Phase::Ok, ..open.0.clone() }.db_now(now));
    }

    // Ack, fail, release, renew, cancel.

    pub(crate) fn begin_on(&mut self, held: Held, op: Op) -> Open {
        self.begin(held.who, op, vec![Item::job(held.job).token(held.token)])
    }

    pub(crate) fn end_on(&mut self, open: &Open, held: Held, phase: Phase) {
        self.answer(open, phase, vec![Item::job(held.job).token(held.token)]);
        if (open.0.op, phase) == (Op::Ack, Phase::Ok) {
            self.put(held.job, Place::Done);
        }
    }

    pub(crate) fn ack(&mut self, held: Held) {
        let open = self.begin_on(held, Op::Ack);
        self.end_on(&open, held, Phase::Ok);
    }

    pub(crate) fn ack_refused(&mut self, held: Held) {
        let open = self.begin_on(held, Op::Ack);
        self.end_on(&open, held, Phase::Refused);
    }

    pub(crate) fn unknown(&mut self, held: Held, op: Op) {
        let open = self.begin_on(held, op);
        self.answer(&open, Phase::Unknown, Vec::new());
    }

    pub(crate) fn release(&mut self, held: Held) {
        let open = self.begin_on(held, Op::Release);
        self.end_on(&open, held, Phase::Ok);
        self.put(held.job, Place::Ready);
    }

    pub(crate) fn fail(&mut self, held: Held, due: DateTime<Utc>) {
        let open = self.begin_on(held, Op::Fail);
        let item = Item { due: Some(due), ..Item::job(held.job).token(held.token) };
        self.answer(&open, Phase::Ok, vec![item]);
        self.put(held.job, Place::Scheduled);
    }

    pub(crate) fn renew(&mut self, held: Held) {
        let open = self.begin(held.who, Op::Renew, vec![Item::default().token(held.token)]);
        let until = self.in_ms(LEASE_MS);
        let item = Item { lease_until: Some(until), ..Item::default().token(held.token) };
        self.answer(&open, Phase::Ok, vec![item]);
    }

    pub(crate) fn cancel(&mut self, job: i64) {
        let open = self.begin("producer#1", Op::Cancel, vec![Item::job(job)]);
        self.answer(&open, Phase::Ok, vec![Item::job(job)]);
        self.put(job, Place::Cancelled);
    }

    // Faults.

    pub(crate) fn begin_fault(&mut self, kind: FaultKind, victim: Option<&str>) -> Open {
        let mut open = self.begin("nemesis", Op::Fault, Vec::new());
        let fault = Fault { kind, victim: victim.map(str::to_owned) };
        if let Some(event) = self.events.last_mut() {
            event.fault = Some(fault.clone());
        }
        open.0.fault = Some(fault);
        open
    }

    pub(crate) fn end_fault(&mut self, open: &Open) {
        self.answer(open, Phase::Ok, Vec::new());
    }

    pub(crate) fn fault(&mut self, kind: FaultKind, victim: Option<&str>) {
        let open = self.begin_fault(kind, victim);
        self.end_fault(&open);
    }

    // The verdict.

    pub(crate) fn history(&self) -> History {
        History::new(self.events.clone())
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut queue = QueueSnapshot::default();
        let mut counters = Counters::default();
        for (&id, places) in &self.places {
            counters.enqueued += 1;
            for place in places {
                let row = Row { id, attempt: self.rows.0, x: self.rows.1 };
                match place {
                    Place::Ready => (queue.ready.push(row), counters.ready += 1).0,
                    Place::Leased => (queue.leased.push(row), counters.leased += 1).0,
                    Place::Scheduled => (queue.scheduled.push(row), counters.scheduled += 1).0,
                    Place::Orphan => (queue.orphans.push(row), counters.leased += 1).0,
                    Place::Done => (queue.done.push(id), counters.done += 1).0,
                    Place::Dead => (queue.dead.push(id), counters.dead += 1).0,
                    Place::Cancelled => (queue.cancelled.push(id), counters.cancelled += 1).0,
                }
            }
        }
        queue.counters = self.miscount.map(|miscount| {
            miscount(&mut counters);
            counters
        });
        Snapshot { queues: BTreeMap::from([(QUEUE.to_owned(), queue)]) }
    }

    pub(crate) fn report(&self) -> Report {
        check(&self.history(), &self.snapshot(), &self.limits)
    }

    #[track_caller]
    pub(crate) fn is_green(&self) {
        let report = self.report();
        assert!(report.is_green(), "{report}");
    }

    /// Red by this rule and by no other.
    #[track_caller]
    pub(crate) fn is_red_by(&self, rule: Rule) {
        let report = self.report();
        assert_eq!(report.broken_rules(), [rule], "{report}");
    }
}
