//! Reads a history of messages once: pairs invokes with answers. What is missing is reported as I0.

use super::facts::{Claim, Ending, Facts, Lane, Push};
use crate::checker::facts::Outcome;
use crate::checker::faults::Window;
use crate::checker::gather::time;
use crate::checker::limits::{Limits, ns};
use crate::checker::report::{Report, Rule};
use crate::history::{Event, FaultKind, History, Item, Op, Phase};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Gathers the facts; the report counts what the run went through.
pub(super) fn gather<'h>(history: &'h History, limits: &Limits) -> (Facts<'h>, Report) {
    let mut gatherer = Gatherer { lease_ns: ns(limits.lease), ..Gatherer::default() };
    for event in history.events() {
        match event.phase {
            Phase::Invoke => gatherer.invoke(event),
            _ => gatherer.answer(event),
        }
        gatherer.facts.last_t = time(event);
    }
    gatherer.report.counts.events = u64::try_from(history.events().len()).unwrap_or(u64::MAX);
    gatherer.finish(ns(limits.fault_grace))
}

struct OpenCall<'h> {
    invoke: &'h Event,
    answered_t: Option<i64>,
    unknown: bool,
    /// Of a fault: its window. Of a settlement: where its endings are, one for each item.
    window: Option<usize>,
    endings: Vec<(Lane<'h>, usize)>,
}

#[derive(Default)]
struct Gatherer<'h> {
    facts: Facts<'h>,
    report: Report,
    calls: HashMap<(&'h str, u64), OpenCall<'h>>,
    /// Messages that were handed to a group.
    seen: HashSet<(Lane<'h>, i64)>,
    /// The latest invoke among the acks accepted so far.
    flushed_n: u64,
    lease_ns: i64,
}

impl<'h> Gatherer<'h> {
    fn invoke(&mut self, event: &'h Event) {
        let (mut window, mut endings) = (None, Vec::new());
        match event.op {
            Op::Fault => window = self.begin_fault(event),
            Op::Push => self.push(event),
            Op::Ack | Op::Fail | Op::Release => endings = self.endings(event),
            Op::Pop => {}
            _ => self.unsound(event, "a call that is not about messages"),
        }
        let call = OpenCall { invoke: event, answered_t: None, unknown: false, window, endings };
        self.calls.insert((&event.who, event.call), call);
    }

    fn push(&mut self, event: &'h Event) {
        for item in &event.items {
            let (Some(mark), Some(partition)) = (item.mark, item.partition.as_deref()) else {
                self.unsound(event, "a push without mark or partition");
                continue;
            };
            let push = Push { who: &event.who, partition, invoked: event.n, answered: None, seq: None };
            self.facts.pushes.entry(mark).or_insert(push);
        }
    }

    fn endings(&mut self, event: &'h Event) -> Vec<(Lane<'h>, usize)> {
        let mut made = Vec::with_capacity(event.items.len());
        for item in &event.items {
            let (Some(lane), Some(seq), Some(token)) = (lane(event, item), item.seq, item.token) else {
                self.unsound(event, "an ending without group, partition, place or token");
                continue;
            };
            let endings = &mut self.facts.lanes.entry(lane).or_default().endings;
            made.push((lane, endings.len()));
            let (op, invoked) = (event.op, event.n);
            endings.push(Ending { op, token, seq, invoked, answered: None, outcome: Outcome::Maybe });
        }
        made
    }

    fn answer(&mut self, event: &'h Event) {
        let Some(mut call) = self.calls.remove(&(&*event.who, event.call)) else {
            return self.unsound(event, "an answer to a call that was never invoked");
        };
        call.answered_t = Some(time(event));
        call.unknown |= event.phase == Phase::Unknown;
        if let Some(window) = call.window {
            self.facts.faults.windows[window].end = Some((event.n, time(event)));
        }
        match (event.op, event.phase) {
            (Op::Push, Phase::Ok) => self.pushed(&call, event),
            (Op::Pop, Phase::Ok) => self.popped(&call, event),
            (Op::Ack | Op::Fail | Op::Release, Phase::Ok | Phase::Refused) => self.ended(&call, event),
            _ => {}
        }
        self.calls.insert((&event.who, event.call), call);
    }

    fn pushed(&mut self, call: &OpenCall<'h>, event: &'h Event) {
        for (asked, item) in call.invoke.items.iter().zip(&event.items) {
            let push = asked.mark.and_then(|mark| self.facts.pushes.get_mut(&mark));
            let Some(push) = push else { continue };
            push.answered.get_or_insert(event.n);
            push.seq = push.seq.or(item.seq);
        }
    }

    fn popped(&mut self, call: &OpenCall<'h>, event: &'h Event) {
        let mut claims: BTreeMap<Lane<'h>, Claim<'h>> = BTreeMap::new();
        for item in &event.items {
            let until = item.lease_until.and_then(|until| until.timestamp_nanos_opt());
            let (Some(lane), Some(seq), Some(mark), Some(token), Some(until)) =
                (lane(event, item), item.seq, item.mark, item.token, until)
            else {
                self.unsound(event, "a message without group, partition, place, mark, token or lease");
                continue;
            };
            self.report.counts.hand_outs += 1;
            self.report.counts.redeliveries += u64::from(!self.seen.insert((lane, seq)));
            let claim = claims.entry(lane).or_insert_with(|| Claim {
                who: &event.who,
                token,
                invoked: call.invoke.n,
                answered: event.n,
                from: until - self.lease_ns,
                until,
                messages: Vec::new(),
            });
            claim.messages.push((seq, mark));
        }
        for (lane, claim) in claims {
            self.facts.lanes.entry(lane).or_default().claims.push(claim);
        }
    }

    fn ended(&mut self, call: &OpenCall<'h>, event: &'h Event) {
        let outcome = if event.phase == Phase::Ok { Outcome::Happened } else { Outcome::Refused };
        let all = event.items.is_empty();
        for (lane, at) in &call.endings {
            let Some(ending) = self.facts.lanes.get_mut(lane).and_then(|lane| lane.endings.get_mut(*at))
            else {
                continue;
            };
            let is_named =
                |item: &Item| item.seq == Some(ending.seq) && item.partition.as_deref() == Some(lane.1);
            if all || event.items.iter().any(is_named) {
                (ending.outcome, ending.answered) = (outcome, Some(event.n));
                if outcome == Outcome::Happened {
                    self.flushed_n = self.flushed_n.max(call.invoke.n);
                }
            }
        }
    }

    fn begin_fault(&mut self, event: &'h Event) -> Option<usize> {
        let fault = event.fault.as_ref()?;
        if fault.kind == FaultKind::Heal {
            self.facts.faults.healed = Some((event.n, time(event)));
            return None;
        }
        if let (FaultKind::Killed, Some(victim)) = (&fault.kind, &fault.victim) {
            self.facts.faults.deaths.insert(victim, (event.n, time(event)));
        }
        let (kind, begin_n, begin_t) = (fault.kind.clone(), event.n, time(event));
        self.facts.faults.windows.push(Window {
            kind,
            begin_n,
            begin_t,
            end: None,
            flushed_n: self.flushed_n,
        });
        Some(self.facts.faults.windows.len() - 1)
    }

    fn finish(mut self, fault_grace_ns: i64) -> (Facts<'h>, Report) {
        let mut spans = Vec::with_capacity(self.calls.len());
        for ((who, _), call) in &self.calls {
            if call.invoke.op == Op::Fault {
                continue;
            }
            let unanswered_until = self.facts.faults.deaths.get(who).map_or(self.facts.last_t, |(_, t)| *t);
            spans.push((time(call.invoke), call.answered_t.unwrap_or(unanswered_until)));
            self.report.counts.unknowns += u64::from(call.unknown || call.answered_t.is_none());
        }
        spans.sort_unstable();
        self.report.counts.faults_hit = self.facts.faults.hit(&spans, fault_grace_ns);
        (self.facts, self.report)
    }

    fn unsound(&mut self, event: &Event, what: &str) {
        self.report.violation(Rule::I0, None, &[event.n], format!("{}: {what}", event.who));
    }
}

fn lane<'h>(event: &'h Event, item: &'h Item) -> Option<Lane<'h>> {
    Some((event.group.as_deref()?, item.partition.as_deref()?))
}
