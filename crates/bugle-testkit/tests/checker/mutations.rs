//! Legal histories with one lie in them: every one must be red.

use std::collections::BTreeMap;

use bugle_testkit::checker::{QueueSnapshot, Row, Rule, Snapshot, check};
use bugle_testkit::history::{Event, FaultKind, History, Item, Op, Phase};
use chrono::Duration;

use super::rng::Rng;
use super::script::QUEUE;
use super::simulated::patient;
use super::simulator::simulate;

/// A run to be falsified.
struct Run {
    events: Vec<Event>,
    queue: QueueSnapshot,
    rng: Rng,
}

/// Where an item stands: event, place in it.
type At = (usize, usize);

impl Run {
    fn item(&mut self, (event, place): At) -> &mut Item {
        &mut self.events[event].items[place]
    }

    fn choose<T>(&mut self, mut candidates: Vec<T>) -> Option<T> {
        let chosen = self.rng.below(candidates.len());
        (!candidates.is_empty()).then(|| candidates.swap_remove(chosen))
    }

    /// All items of such events.
    fn items(&self, op: Op, phase: Phase) -> Vec<At> {
        let of_kind = |event: &Event| event.op == op && event.phase == phase;
        let events = self.events.iter().enumerate().filter(|(_, event)| of_kind(event));
        events.flat_map(|(at, event)| (0..event.items.len()).map(move |place| (at, place))).collect()
    }

    fn job(&self, (event, place): At) -> i64 {
        self.events[event].items[place].job.unwrap_or(0)
    }

    /// Each job's hand-outs, in the database's order.
    fn hand_outs(&self) -> BTreeMap<i64, Vec<At>> {
        let mut by_job: BTreeMap<i64, Vec<At>> = BTreeMap::new();
        for at in self.items(Op::Claim, Phase::Ok) {
            by_job.entry(self.job(at)).or_default().push(at);
        }
        for hand_outs in by_job.values_mut() {
            hand_outs.sort_by_key(|at| self.events[at.0].db_now);
        }
        by_job
    }

    /// Two hand-outs of one job, one after the other, in a run where no crash can excuse anything.
    fn redelivery_in_calm(&mut self) -> Option<(At, At)> {
        if self.events.iter().any(is_crash) {
            self.events.retain(|event| !is_crash(event));
        }
        let hand_outs = self.hand_outs();
        let grows = |pair: &[At]| self.x(pair[0]) < self.x(pair[1]);
        let pairs = hand_outs.values().flat_map(|all| all.windows(2).filter(|pair| grows(pair)));
        let pairs = pairs.map(|pair| (pair[0], pair[1])).collect();
        self.choose(pairs)
    }

    fn x(&self, (event, place): At) -> Option<i64> {
        self.events[event].items[place].x
    }

    fn token(&self, (event, place): At) -> Option<i64> {
        self.events[event].items[place].token
    }
}

fn is_crash(event: &Event) -> bool {
    event.fault.as_ref().is_some_and(|fault| fault.kind == FaultKind::ServerCrash)
}

/// A lie: what it does, and a rule that must catch it; `None` if the run offers no occasion.
type Lie = fn(&mut Run) -> Option<Rule>;

const LIES: [(&str, Lie); 13] = [
    ("a dead job vanishes", a_dead_job_vanishes),
    ("a job ends up behind the cursor", a_job_ends_up_behind_the_cursor),
    ("an ack has no effect", an_ack_has_no_effect),
    ("a counter is off", a_counter_is_off),
    ("a finished job is handed out", a_finished_job_is_handed_out),
    ("two acks swap tokens", two_acks_swap_tokens),
    ("a refused ack is accepted", a_refused_ack_is_accepted),
    ("a job is early", a_job_is_early),
    ("a key makes a second job", a_key_makes_a_second_job),
    ("an attempt too many", an_attempt_too_many),
    ("a redelivery keeps its x", a_redelivery_keeps_its_x),
    ("a crash that nobody caused", a_crash_that_nobody_caused),
    ("a job from nowhere", a_job_from_nowhere),
];

fn a_dead_job_vanishes(run: &mut Run) -> Option<Rule> {
    run.queue.dead.pop().map(|_| Rule::I1)
}

fn a_job_ends_up_behind_the_cursor(run: &mut Run) -> Option<Rule> {
    let id = run.queue.done.pop()?;
    run.queue.orphans.push(Row { id, attempt: 0, x: 0 });
    Some(Rule::I1)
}

fn an_ack_has_no_effect(run: &mut Run) -> Option<Rule> {
    let acked = run.items(Op::Ack, Phase::Ok);
    let at = run.choose(acked)?;
    let id = run.job(at);
    run.queue.done.retain(|done| *done != id);
    run.queue.ready.push(Row { id, attempt: 0, x: 0 });
    Some(Rule::I14)
}

fn a_counter_is_off(run: &mut Run) -> Option<Rule> {
    run.queue.counters.as_mut()?.done += 1;
    Some(Rule::I14)
}

fn a_finished_job_is_handed_out(run: &mut Run) -> Option<Rule> {
    let acked = run.items(Op::Ack, Phase::Ok);
    let at = run.choose(acked)?;
    let id = run.job(at);
    let (event, place) = *run.hand_outs().get(&id)?.last()?;
    let last_ns = run.events.last()?.t_ns;
    let mut answer = run.events[event].clone();
    let mut item = answer.items.swap_remove(place);
    (item.token, item.x) = (Some(-1), item.x.map(|x| x + 1000));
    (answer.call, answer.t_ns) = (u64::MAX, last_ns + 2);
    answer.db_now = answer.db_now.map(|now| now + Duration::days(1));
    answer.items = vec![item];
    let invoke = Event { phase: Phase::Invoke, t_ns: last_ns + 1, items: Vec::new(), ..answer.clone() };
    run.events.extend([invoke, answer]);
    Some(Rule::I7)
}

fn two_acks_swap_tokens(run: &mut Run) -> Option<Rule> {
    let acked = run.items(Op::Ack, Phase::Ok);
    let (one, two) = (run.choose(acked.clone())?, run.choose(acked)?);
    let (first, second) = (run.item(one).clone(), run.item(two).clone());
    if first.token == second.token || first.job == second.job {
        return None;
    }
    for event in run.events.iter_mut().filter(|event| event.op == Op::Ack) {
        for item in &mut event.items {
            let is = |other: &Item| (item.job, item.token) == (other.job, other.token);
            item.token = match (is(&first), is(&second)) {
                (true, _) => second.token,
                (_, true) => first.token,
                _ => continue,
            };
        }
    }
    Some(Rule::I6)
}

fn a_refused_ack_is_accepted(run: &mut Run) -> Option<Rule> {
    let hand_outs = run.hand_outs();
    let mut stale = run.items(Op::Ack, Phase::Refused);
    // By a worker whom another one had replaced, with no crash since that could have taken that back.
    stale.retain(|at| {
        let newest = hand_outs.get(&run.job(*at)).and_then(|all| all.last());
        newest.is_some_and(|newest| {
            let replaced = run.token(*newest) != run.token(*at) && newest.0 < at.0;
            replaced && !run.events[newest.0..at.0].iter().any(is_crash)
        })
    });
    let (event, place) = run.choose(stale)?;
    let item = run.events[event].items.remove(place);
    let accepted = Event { phase: Phase::Ok, items: vec![item], ..run.events[event].clone() };
    if run.events[event].items.is_empty() {
        run.events.remove(event);
    }
    run.events.push(accepted);
    Some(Rule::I6)
}

fn a_job_is_early(run: &mut Run) -> Option<Rule> {
    let mut due = BTreeMap::new();
    for at in run.items(Op::Enqueue, Phase::Invoke) {
        let item = run.item(at);
        if let (Some(mark), Some(moment), None) = (item.mark, item.due, &item.key) {
            due.insert(mark, moment);
        }
    }
    // Only an answered enqueue tells the checker when its job was due.
    let ok: Vec<i64> = run.items(Op::Enqueue, Phase::Ok).into_iter().map(|at| run.job(at)).collect();
    let mut scheduled = run.items(Op::Claim, Phase::Ok);
    scheduled.retain(|at| {
        let item = &run.events[at.0].items[at.1];
        item.mark.is_some_and(|mark| due.contains_key(&mark)) && ok.contains(&item.job.unwrap_or(0))
    });
    let at = run.choose(scheduled)?;
    let moment = run.item(at).mark.and_then(|mark| due.get(&mark))?;
    run.events[at.0].db_now = Some(*moment - Duration::microseconds(1));
    Some(Rule::I9)
}

fn a_key_makes_a_second_job(run: &mut Run) -> Option<Rule> {
    let mut by_key: BTreeMap<Box<str>, i64> = BTreeMap::new();
    for at in run.items(Op::Enqueue, Phase::Ok) {
        let call = run.events[at.0].call;
        let invoke = run.events.iter().find(|event| event.call == call && event.phase == Phase::Invoke)?;
        let Some(key) = invoke.items[at.1].key.clone() else { continue };
        if by_key.insert(key, run.job(at)).is_some() {
            run.item(at).job = Some(1_000_000);
            return Some(Rule::I3);
        }
    }
    None
}

fn an_attempt_too_many(run: &mut Run) -> Option<Rule> {
    let answered: Vec<i64> = run.items(Op::Enqueue, Phase::Ok).into_iter().map(|at| run.job(at)).collect();
    let mut hand_outs = run.items(Op::Claim, Phase::Ok);
    hand_outs.retain(|at| answered.contains(&run.job(*at)));
    let at = run.choose(hand_outs)?;
    run.item(at).attempt = Some(4);
    Some(Rule::I11)
}

fn a_redelivery_keeps_its_x(run: &mut Run) -> Option<Rule> {
    let (first, second) = run.redelivery_in_calm()?;
    run.item(second).x = run.item(first).x;
    Some(Rule::I4)
}

fn a_crash_that_nobody_caused(run: &mut Run) -> Option<Rule> {
    let undone =
        run.hand_outs().values().any(|all| all.windows(2).any(|pair| run.x(pair[0]) >= run.x(pair[1])));
    run.events.retain(|event| !is_crash(event));
    undone.then_some(Rule::I4)
}

fn a_job_from_nowhere(run: &mut Run) -> Option<Rule> {
    let hand_outs = run.items(Op::Claim, Phase::Ok);
    let at = run.choose(hand_outs)?;
    (run.item(at).job, run.item(at).mark) = (Some(1_000_000), Some(1_000_000));
    Some(Rule::I2)
}

#[test]
fn a_history_with_one_lie_is_always_red() {
    let mut told: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 0..390 {
        let (history, snapshot) = simulate(seed, 400);
        let Some(queue) = snapshot.queues.get(QUEUE).cloned() else { continue };
        let mut run = Run { events: history.into_events(), queue, rng: Rng::new(seed) };
        let (name, lie) = LIES[run.rng.below(LIES.len())];
        let Some(rule) = lie(&mut run) else { continue };
        *told.entry(name).or_default() += 1;
        let snapshot = Snapshot { queues: BTreeMap::from([(QUEUE.to_owned(), run.queue)]) };
        let report = check(&History::new(run.events), &snapshot, &patient());
        assert!(report.broken_rules().contains(&rule), "seed {seed}: {name} is not {rule:?}: {report}");
    }
    assert!(told.len() == LIES.len() && told.values().all(|times| *times >= 3), "{told:?}");
}
