//! Acks, fails, releases, cancels and renewals: made at the invoke as *maybe*, settled by the answers.

use super::{Gatherer, Made, OpenCall, queue, time};
use crate::checker::facts::{Ending, Outcome, Renewal};
use crate::history::{Event, Item, Op, Phase};

impl<'h> Gatherer<'h> {
    pub(super) fn invoke_ending(&mut self, event: &'h Event) -> Made {
        let mut made = Vec::with_capacity(event.items.len());
        for item in &event.items {
            let Some(id) = item.job.filter(|_| event.op == Op::Cancel || item.token.is_some()) else {
                self.unsound(event, &[], "an ending without job or token");
                continue;
            };
            let slot = self.facts.slot(id, queue(event));
            let endings = &mut self.facts.jobs[slot].endings;
            made.push((slot, endings.len()));
            endings.push(Ending {
                op: event.op,
                token: item.token,
                invoked: event.n,
                answered: None,
                answered_t: 0,
                outcome: Outcome::Maybe,
                due: None,
            });
        }
        Made::Endings(made)
    }

    pub(super) fn invoke_renew(&mut self, event: &'h Event) -> Made {
        let mut made = Vec::with_capacity(event.items.len());
        for item in &event.items {
            let Some(token) = item.token else {
                self.unsound(event, &[], "a renewal without token");
                continue;
            };
            let renewals = self.facts.renewals.entry(token).or_default();
            made.push((token, renewals.len()));
            renewals.push(Renewal {
                invoked: event.n,
                answered: None,
                outcome: Outcome::Maybe,
                lease_until: None,
            });
        }
        Made::Renewals(made)
    }

    /// Marks what was accepted or refused among the jobs or tokens that the call invoked.
    pub(super) fn answer_items(&mut self, call: &mut OpenCall<'h>, event: &'h Event) {
        let all_refused = event.phase == Phase::Refused && event.items.is_empty();
        for item in if all_refused { &call.invoke.items } else { &event.items } {
            let Some(place) = self.find(call, item) else {
                self.unsound(event, &[call.invoke.n], "an answer about a job that was not invoked");
                continue;
            };
            call.next = place + 1;
            let outcome = if event.phase == Phase::Ok { Outcome::Happened } else { Outcome::Refused };
            match &call.made {
                Made::Endings(made) => {
                    let (slot, at) = made[place];
                    let ending = &mut self.facts.jobs[slot].endings[at];
                    (ending.outcome, ending.answered, ending.answered_t) =
                        (outcome, Some(event.n), time(event));
                    ending.due = item.due;
                    if event.op == Op::Ack && outcome == Outcome::Happened {
                        self.flushed_n = self.flushed_n.max(call.invoke.n);
                    }
                }
                Made::Renewals(made) => {
                    let (token, at) = made[place];
                    if let Some(renewal) = self.facts.renewals.get_mut(&token).and_then(|all| all.get_mut(at))
                    {
                        (renewal.outcome, renewal.answered) = (outcome, Some(event.n));
                        renewal.lease_until = item.lease_until;
                    }
                    if outcome == Outcome::Happened && item.lease_until.is_none() {
                        self.unsound(event, &[], "a renewal without its new end");
                    }
                }
                _ => {}
            }
        }
    }

    /// Where among the invoked items the answer's `item` stands; the search begins where it most likely is.
    fn find(&self, call: &OpenCall<'h>, item: &Item) -> Option<usize> {
        let matches = |place: &usize| match &call.made {
            Made::Endings(made) => {
                // A batch may name one job under two tokens: its worker was handed it twice.
                let job = &self.facts.jobs[made[*place].0];
                item.job == Some(job.id) && item.token == job.endings[made[*place].1].token
            }
            Made::Renewals(made) => item.token == Some(made[*place].0),
            _ => false,
        };
        let count = match &call.made {
            Made::Endings(made) => made.len(),
            Made::Renewals(made) => made.len(),
            _ => 0,
        };
        (call.next..count).chain(0..call.next.min(count)).find(matches)
    }
}
