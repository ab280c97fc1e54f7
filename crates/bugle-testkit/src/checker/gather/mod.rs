//! Reads a history once: pairs invokes with answers and sorts what they say by job.
//!
//! The only place that looks at optional fields: what is missing is reported as I0, and the rules can rely on
//! the rest.

use std::collections::HashMap;

use super::facts::Facts;
use super::faults::Window;
use super::limits::{Limits, ns};
use super::report::{Report, Rule};
use crate::history::{Event, FaultKind, History, Op, Phase};

mod endings;
mod jobs;

/// Gathers the facts of `history`; the report counts what it went through and lists what cannot be judged.
pub(super) fn gather<'h>(history: &'h History, limits: &Limits) -> (Facts<'h>, Report) {
    let mut gatherer = Gatherer::default();
    for event in history.events() {
        if event.phase == Phase::Invoke {
            gatherer.invoke(event);
        } else {
            gatherer.answer(event);
        }
        gatherer.read_clock(event);
        gatherer.facts.last_t = time(event);
    }
    gatherer.report.counts.events = u64::try_from(history.events().len()).unwrap_or(u64::MAX);
    gatherer.finish(ns(limits.fault_grace))
}

pub(super) fn time(event: &Event) -> i64 {
    i64::try_from(event.t_ns).unwrap_or(i64::MAX)
}

/// A call as far as it has been read.
struct OpenCall<'h> {
    invoke: &'h Event,
    answered_t: Option<i64>,
    unknown: bool,
    made: Made,
    /// Where the next answered item is expected: answers keep the order of their invoke, so finding an item's
    /// entry is one step, not a search.
    next: usize,
}

/// The entries that the invoke made in the facts, one per item.
enum Made {
    Nothing,
    Enqueues {
        first: usize,
    },
    /// Slot of the job, place among its endings.
    Endings(Vec<(usize, usize)>),
    /// Token, place among its renewals.
    Renewals(Vec<(i64, usize)>),
    Window(usize),
}

#[derive(Default)]
struct Gatherer<'h> {
    facts: Facts<'h>,
    report: Report,
    calls: HashMap<(&'h str, u64), OpenCall<'h>>,
    /// The latest invoke among the acks accepted so far.
    flushed_n: u64,
}

impl<'h> Gatherer<'h> {
    fn invoke(&mut self, event: &'h Event) {
        let made = match event.op {
            Op::Claim => Made::Nothing,
            Op::Enqueue => self.invoke_enqueue(event),
            Op::Ack | Op::Fail | Op::Release | Op::Cancel => self.invoke_ending(event),
            Op::Renew => self.invoke_renew(event),
            Op::Fault => self.begin_fault(event),
            Op::Push | Op::Pop => {
                self.unsound(event, &[], "a call about messages, which have a checker of their own");
                Made::Nothing
            }
        };
        let call = OpenCall { invoke: event, answered_t: None, unknown: false, made, next: 0 };
        if let Some(earlier) = self.calls.insert((&event.who, event.call), call) {
            self.unsound(event, &[earlier.invoke.n], "a second invoke with the number of an earlier call");
        }
    }

    fn answer(&mut self, event: &'h Event) {
        let Some(mut call) = self.calls.remove(&(&*event.who, event.call)) else {
            return self.unsound(event, &[], "an answer to a call that was never invoked");
        };
        if call.invoke.op == event.op {
            call.answered_t = Some(time(event));
            call.unknown |= event.phase == Phase::Unknown;
            self.answer_call(&mut call, event);
        } else {
            self.unsound(event, &[call.invoke.n], "an answer to another operation than was invoked");
        }
        self.calls.insert((&event.who, event.call), call);
    }

    fn answer_call(&mut self, call: &mut OpenCall<'h>, event: &'h Event) {
        match (&call.made, event.phase) {
            (Made::Window(window), _) => {
                self.facts.faults.windows[*window].end = Some((event.n, time(event)));
            }
            (_, Phase::Unknown) => {
                if event.op == Op::Claim {
                    self.facts.silent.entry(queue(event)).or_default().given_up.push(event.n);
                }
            }
            (Made::Nothing, Phase::Ok) if event.op == Op::Claim => self.claimed(call.invoke, event),
            (Made::Enqueues { first }, _) => self.answer_enqueue(*first, call.invoke, event),
            (Made::Endings(_) | Made::Renewals(_), _) => self.answer_items(call, event),
            (Made::Nothing, _) => {}
        }
    }

    fn begin_fault(&mut self, event: &'h Event) -> Made {
        let Some(fault) = &event.fault else {
            self.unsound(event, &[], "a fault without a kind");
            return Made::Nothing;
        };
        if fault.kind == FaultKind::Heal {
            self.facts.faults.healed = Some((event.n, time(event)));
            return Made::Nothing;
        }
        if let (FaultKind::Killed, Some(victim)) = (&fault.kind, &fault.victim) {
            self.facts.faults.deaths.insert(victim, (event.n, time(event)));
        }
        self.facts.faults.windows.push(Window {
            kind: fault.kind.clone(),
            begin_n: event.n,
            begin_t: time(event),
            end: None,
            flushed_n: self.flushed_n,
        });
        Made::Window(self.facts.faults.windows.len() - 1)
    }

    fn read_clock(&mut self, event: &Event) {
        if let Some(db_ns) = event.db_now.and_then(|now| now.timestamp_nanos_opt()) {
            let offset = time(event) - db_ns;
            self.facts.clock_offset = Some(self.facts.clock_offset.map_or(offset, |least| least.min(offset)));
        }
    }

    /// Calls without an answer may have happened; a call that met a fault makes the fault count.
    fn finish(mut self, fault_grace_ns: i64) -> (Facts<'h>, Report) {
        let mut spans = Vec::with_capacity(self.calls.len());
        for ((who, _), call) in &self.calls {
            if call.invoke.op == Op::Fault {
                continue;
            }
            let unanswered_until =
                self.facts.faults.deaths.get(who).map_or(self.facts.last_t, |(_, death_t)| *death_t);
            spans.push((time(call.invoke), call.answered_t.unwrap_or(unanswered_until)));
            let silent = call.unknown || call.answered_t.is_none();
            self.report.counts.unknowns += u64::from(silent);
            if silent && call.invoke.op == Op::Claim {
                self.facts.silent.entry(queue(call.invoke)).or_default().invoked.push(call.invoke.n);
            }
        }
        spans.sort_unstable();
        self.report.counts.faults_hit = self.facts.faults.hit(&spans, fault_grace_ns);
        (self.facts, self.report)
    }

    fn unsound(&mut self, event: &Event, more: &[u64], what: &str) {
        let events: Vec<u64> = more.iter().copied().chain([event.n]).collect();
        self.report.violation(Rule::I0, None, &events, format!("{}: {what}", event.who));
    }
}

fn queue(event: &Event) -> &str {
    event.queue.as_deref().unwrap_or_default()
}
