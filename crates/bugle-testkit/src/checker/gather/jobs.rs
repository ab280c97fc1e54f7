//! Enqueues and claims: how jobs come in and go out.

use super::{Gatherer, Made, queue, time};
use crate::checker::facts::{Enqueue, HandOut, Outcome, Wait};
use crate::history::{Event, Item, Phase};

impl<'h> Gatherer<'h> {
    pub(super) fn invoke_enqueue(&mut self, event: &'h Event) -> Made {
        let first = self.facts.enqueues.len();
        self.facts.enqueues.extend(event.items.iter().map(|item| Enqueue {
            invoked: event.n,
            answered: None,
            answered_t: 0,
            outcome: Outcome::Maybe,
            queue: queue(event),
            job: None,
            key: item.key.as_deref(),
            mark: item.mark,
            order_key: item.order_key.as_deref(),
            due: item.due,
            max_attempts: item.max_attempts,
        }));
        Made::Enqueues { first }
    }

    pub(super) fn answer_enqueue(&mut self, first: usize, invoke: &'h Event, event: &'h Event) {
        let refused_whole = event.phase == Phase::Refused && event.items.is_empty();
        if !refused_whole && event.items.len() != invoke.items.len() {
            return self.unsound(event, &[invoke.n], "an enqueue answered with another number of jobs");
        }
        for offset in 0..invoke.items.len() {
            let outcome = if event.phase == Phase::Ok { Outcome::Happened } else { Outcome::Refused };
            let job = event.items.get(offset).and_then(|item| item.job);
            let enqueue = &mut self.facts.enqueues[first + offset];
            (enqueue.outcome, enqueue.answered, enqueue.answered_t) = (outcome, Some(event.n), time(event));
            enqueue.job = job;
            match (outcome, job) {
                (Outcome::Happened, Some(id)) => {
                    let slot = self.facts.slot(id, queue(event));
                    self.facts.jobs[slot].accepted.get_or_insert(first + offset);
                }
                (Outcome::Happened, None) => self.unsound(event, &[], "an accepted job without an id"),
                _ => {}
            }
        }
    }

    pub(super) fn claimed(&mut self, invoke: &'h Event, event: &'h Event) {
        self.facts.waits.push(Wait {
            queue: queue(event),
            invoked_t: time(invoke),
            answered: event.n,
            answered_t: time(event),
        });
        for item in &event.items {
            let Some((id, hand_out)) = hand_out(invoke, event, item) else {
                self.unsound(event, &[], "a hand-out without job, token, x, attempt, lease_until or db_now");
                continue;
            };
            let slot = self.facts.slot(id, queue(event));
            let hand_outs = &mut self.facts.jobs[slot].hand_outs;
            self.report.counts.hand_outs += 1;
            self.report.counts.redeliveries += u64::from(!hand_outs.is_empty());
            hand_outs.push(hand_out);
        }
    }
}

fn hand_out<'h>(invoke: &'h Event, event: &'h Event, item: &'h Item) -> Option<(i64, HandOut<'h>)> {
    let hand_out = HandOut {
        invoked: invoke.n,
        answered: event.n,
        answered_t: time(event),
        who: &event.who,
        token: item.token?,
        x: item.x?,
        attempt: item.attempt?,
        max_attempts: item.max_attempts,
        db_now: event.db_now?,
        lease_until: item.lease_until?,
        key: item.key.as_deref(),
        mark: item.mark,
    };
    Some((item.job?, hand_out))
}
