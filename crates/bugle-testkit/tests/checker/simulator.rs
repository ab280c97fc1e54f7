//! Random clients on the model queue, with faults: every history it makes is legal.

use bugle_testkit::checker::Snapshot;
use bugle_testkit::history::{Event, Fault, FaultKind, History, Item, Op, Phase};
use chrono::{DateTime, Duration, Utc};

use super::model::Db;
use super::rng::Rng;
use super::script::QUEUE;

/// How far a call has come.
#[derive(Clone, Debug)]
enum Stage {
    Sent,
    /// The database has done it; the answers are on their way.
    Done(Vec<Event>),
}

#[derive(Clone, Debug)]
struct Call {
    invoke: Event,
    stage: Stage,
}

#[derive(Clone, Debug)]
struct Client {
    name: &'static str,
    incarnation: usize,
    works: bool,
    call: Option<Call>,
    held: Vec<Item>,
}

pub(crate) struct Simulator {
    rng: Rng,
    db: Db,
    /// What a crash may go back to: the state after the last durable commit, and after each claim since.
    unflushed: Vec<Db>,
    clients: Vec<Client>,
    events: Vec<Event>,
    t_us: i64,
    ids: i64,
    tokens: i64,
    calls: u64,
    marks: u64,
    healed: bool,
}

/// Runs `steps` random steps, heals, drains, and gives what was seen and what is left.
pub(crate) fn simulate(seed: u64, steps: usize) -> (History, Snapshot) {
    let mut simulator = Simulator::after(seed, steps);
    simulator.heal();
    while !simulator.db.all_ended() {
        simulator.step();
    }
    for at in 0..simulator.clients.len() {
        simulator.advance(at);
        simulator.advance(at);
    }
    (History::new(simulator.events), simulator.db.snapshot())
}

/// Runs `steps` random steps and stops right there: calls without answers, jobs everywhere.
pub(crate) fn simulate_and_stop(seed: u64, steps: usize) -> (History, Snapshot) {
    let simulator = Simulator::after(seed, steps);
    (History::new(simulator.events), simulator.db.snapshot())
}

impl Simulator {
    fn after(seed: u64, steps: usize) -> Self {
        let mut simulator = Self::new(seed);
        for _ in 0..steps {
            simulator.step();
        }
        simulator
    }

    fn new(seed: u64) -> Self {
        let client = |name, works| Client { name, incarnation: 1, works, call: None, held: Vec::new() };
        let names = [("p1", false), ("p2", false), ("w1", true), ("w2", true), ("w3", true)];
        Self {
            rng: Rng::new(seed),
            db: Db::default(),
            unflushed: vec![Db::default()],
            clients: names.map(|(name, works)| client(name, works)).to_vec(),
            events: Vec::new(),
            t_us: 0,
            ids: 0,
            tokens: 0,
            calls: 0,
            marks: 0,
            healed: false,
        }
    }

    fn now(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + Duration::days(20_000) + Duration::microseconds(self.t_us)
    }

    fn record(&mut self, mut event: Event) {
        self.t_us += 1;
        event.t_ns = u64::try_from(self.t_us * 1000).unwrap_or(0);
        self.events.push(event);
    }

    fn step(&mut self) {
        let pause_us = if self.rng.percent(3) { 600_000 } else { 20_000 };
        self.t_us += i64::try_from(self.rng.below(pause_us)).unwrap_or(0);
        if !self.healed && self.rng.percent(3) {
            return if self.rng.percent(50) { self.crash() } else { self.kill() };
        }
        let at = self.rng.below(self.clients.len());
        if self.clients[at].call.is_some() {
            self.advance(at);
        } else {
            self.begin(at);
        }
    }

    // Clients.

    fn begin(&mut self, at: usize) {
        let (op, items) = if self.clients[at].works { self.work(at) } else { self.produce() };
        if op == Op::Enqueue && items.is_empty() {
            return;
        }
        self.calls += 1;
        let who = format!("{}#{}", self.clients[at].name, self.clients[at].incarnation);
        let invoke = Event { call: self.calls, ..Event::new(&who, op).queue(QUEUE).items(items) };
        self.record(invoke.clone());
        self.clients[at].call = Some(Call { invoke, stage: Stage::Sent });
    }

    fn produce(&mut self) -> (Op, Vec<Item>) {
        if self.healed {
            return (Op::Enqueue, Vec::new());
        }
        if self.rng.percent(15) {
            let id = i64::try_from(self.rng.below(usize::try_from(self.ids).unwrap_or(0) + 1)).unwrap_or(0);
            return (Op::Cancel, vec![Item::job(id + 1)]);
        }
        let items = (0..=self.rng.below(3)).map(|_| self.new_item()).collect();
        (Op::Enqueue, items)
    }

    fn new_item(&mut self) -> Item {
        self.marks += 1;
        let mut item = Item { mark: Some(self.marks), max_attempts: Some(3), ..Item::default() };
        match self.rng.below(8) {
            0 | 1 => {
                let n = self.rng.below(20);
                item.key = Some(format!("k{n}").into());
                item.order_key = n.is_multiple_of(2).then(|| format!("o{}", n % 3).into());
                item.due = self.rng.percent(20).then(|| self.now() + Duration::milliseconds(200));
            }
            2 => item.order_key = Some(format!("o{}", self.rng.below(3)).into()),
            3 => item.due = Some(self.now() + Duration::milliseconds(200)),
            _ => {}
        }
        item
    }

    fn work(&mut self, at: usize) -> (Op, Vec<Item>) {
        let held = &mut self.clients[at].held;
        if held.is_empty() || self.rng.percent(20) {
            return (Op::Claim, Vec::new());
        }
        let count = 1 + self.rng.below(held.len());
        let bare = |item: &Item| Item { job: item.job, token: item.token, ..Item::default() };
        match self.rng.below(10) {
            0 => (Op::Renew, vec![Item { token: held[0].token, ..Item::default() }]),
            1 => (Op::Release, held.drain(..count).map(|item| bare(&item)).collect()),
            2 => (Op::Fail, held.drain(..count).map(|item| bare(&item)).collect()),
            _ => (Op::Ack, held.drain(..count).map(|item| bare(&item)).collect()),
        }
    }

    fn advance(&mut self, at: usize) {
        let Some(call) = self.clients[at].call.take() else { return };
        match call.stage {
            Stage::Sent => {
                let answers = self.execute(&call.invoke);
                self.clients[at].call = Some(Call { stage: Stage::Done(answers), ..call });
            }
            Stage::Done(_) if !self.healed && self.rng.percent(5) => self.answer_unknown(&call.invoke),
            Stage::Done(answers) => {
                for answer in answers {
                    if answer.op == Op::Claim {
                        self.clients[at].held.extend(answer.items.iter().cloned());
                    }
                    self.record(answer);
                }
            }
        }
    }

    fn answer_unknown(&mut self, invoke: &Event) {
        self.record(Event { phase: Phase::Unknown, items: Vec::new(), ..invoke.clone() });
    }

    // The database.

    fn execute(&mut self, invoke: &Event) -> Vec<Event> {
        let now = self.now();
        let answer = |phase, items| Event { phase, items, db_now: Some(now), ..invoke.clone() };
        let (mut accepted, mut refused) = (Vec::new(), Vec::new());
        match invoke.op {
            Op::Enqueue => accepted = self.db.enqueue(&invoke.items, &mut self.ids),
            Op::Claim => {
                self.tokens += 1;
                accepted = self.db.claim(self.tokens, 1 + self.rng.below(3), now);
            }
            _ => {
                for item in &invoke.items {
                    let done = self.execute_item(invoke.op, item, now);
                    if let Some(item) = done { accepted.push(item) } else { refused.push(item.clone()) }
                }
            }
        }
        if invoke.op != Op::Claim {
            self.unflushed.clear();
        }
        self.unflushed.push(self.db.clone());
        let mut answers = Vec::new();
        if !accepted.is_empty() || invoke.op == Op::Claim {
            answers.push(answer(Phase::Ok, accepted));
        }
        if !refused.is_empty() {
            answers.push(answer(Phase::Refused, refused));
        }
        answers
    }

    fn execute_item(&mut self, op: Op, item: &Item, now: DateTime<Utc>) -> Option<Item> {
        let mut item = item.clone();
        let done = match op {
            Op::Ack => self.db.ack(&item),
            Op::Release => self.db.release(&item),
            Op::Cancel => self.db.cancel(&item),
            Op::Fail => {
                let due = now + Duration::milliseconds(50);
                item.due = Some(due);
                self.db.fail(&item, due)
            }
            _ => {
                item.lease_until = item.token.and_then(|token| self.db.renew(token, now));
                item.lease_until.is_some()
            }
        };
        done.then_some(item)
    }

    // Faults.

    fn fault(&mut self, kind: FaultKind, victim: Option<String>, phase: Phase) {
        let call = self.calls;
        let mut event = Event { call, phase, ..Event::new("nemesis", Op::Fault) };
        event.fault = Some(Fault { kind, victim });
        self.record(event);
    }

    fn kill(&mut self) {
        let at = self.rng.below(self.clients.len());
        let who = format!("{}#{}", self.clients[at].name, self.clients[at].incarnation);
        self.calls += 1;
        self.fault(FaultKind::Killed, Some(who.clone()), Phase::Invoke);
        // What was sent may still be done.
        if let Some(Call { invoke, stage: Stage::Sent }) = self.clients[at].call.take()
            && self.rng.percent(50)
        {
            self.execute(&invoke);
        }
        self.fault(FaultKind::Killed, Some(who), Phase::Ok);
        self.clients[at].held.clear();
        self.clients[at].incarnation += 1;
    }

    fn crash(&mut self) {
        self.calls += 1;
        let call = self.calls;
        self.fault(FaultKind::ServerCrash, None, Phase::Invoke);
        let survivor = self.rng.below(self.unflushed.len());
        self.db = self.unflushed[survivor].clone();
        self.unflushed = vec![self.db.clone()];
        for at in 0..self.clients.len() {
            if let Some(call) = self.clients[at].call.take() {
                self.answer_unknown(&call.invoke);
            }
        }
        self.t_us += 100_000;
        self.calls = call;
        self.fault(FaultKind::ServerCrash, None, Phase::Ok);
    }

    fn heal(&mut self) {
        self.calls += 1;
        self.fault(FaultKind::Heal, None, Phase::Invoke);
        self.fault(FaultKind::Heal, None, Phase::Ok);
        self.healed = true;
    }
}
