//! Rules 2, 3 and 4: a look is sent, run, committed, and its answer read.
use crate::configuration::Configuration;
use crate::rules::{Rule, Variation};
use crate::set::Set;
use crate::state::{NEVER, Next, Row, State, Transaction};

/// What one look finds.
struct Found {
    rows: Set,
    next_due: u8,
    passed_over: bool,
}

impl Configuration {
    /// Without demand: leave. Else the look goes out; whatever sets the flag from here on causes another one.
    pub(crate) fn send_look(&self, state: &mut State, number: u8) {
        let node = state.node_mut(number);
        if node.demand.is_empty() {
            node.flag = false;
            if self.rules.vary(Variation::LateLeave) && (node.bell || node.mark) {
                node.next = Next::Idle;
                node.next_due = NEVER;
            } else {
                self.leave(state, number, true);
            }
            return;
        }
        node.asked = node.demand;
        node.next = Next::RunLook;
        if self.rules.keep(Rule::FlagClearedBeforeLook) {
            node.flag = false;
        }
        if !self.rules.keep(Rule::SnapshotAfterWait) && self.must_wait(state, number) {
            let unclaimed = |row: &u8| matches!(state.row(*row), Row::Ready | Row::Locked(_));
            let seen = self.numbered_plans().map(|(row, _)| row).filter(unclaimed).collect();
            state.node_mut(number).snapshot = Some(seen);
        }
    }

    /// Is another claim of a queue that this look asks for under way?
    pub(crate) fn must_wait(&self, state: &State, number: u8) -> bool {
        let asked = state.node(number).asked;
        self.rules.vary(Variation::ClaimsTakeTurns)
            && state.numbered_nodes().any(|(peer, other)| {
                peer != number && other.next == Next::CommitClaim && other.asked.meets(asked)
            })
    }

    /// The server runs the look: at most one row for each queue asked for, as each has one intention.
    pub(crate) fn run_look(&self, state: &mut State, number: u8) -> Option<()> {
        if self.must_wait(state, number) {
            return None;
        }
        let found = self.find(state, number);
        state.set_rows(found.rows, Row::Locked(number));
        let node = state.node_mut(number);
        node.got = found.rows;
        node.passed_over = found.passed_over && self.rules.keep(Rule::PassedOverReported);
        node.next_due = found.next_due;
        node.snapshot = None;
        node.next = if found.rows.is_empty() { Next::ReadLook } else { Next::CommitClaim };
        Some(())
    }

    fn find(&self, state: &State, number: u8) -> Found {
        let node = state.node(number);
        let mut found = Found { rows: Set::EMPTY, next_due: NEVER, passed_over: false };
        let mut satisfied = Set::EMPTY;
        for (row, plan) in self.numbered_plans().filter(|(_, plan)| node.asked.has(plan.queue)) {
            let now = state.row(row);
            // An old snapshot shows neither rows that were committed nor claims that were made after it.
            if node.snapshot.is_some_and(|seen| seen.has(row) != (now == Row::Ready)) {
                continue;
            }
            match now {
                _ if self.is_claimable(state, row) => {
                    if !satisfied.has(plan.queue) {
                        satisfied.add(plan.queue);
                        found.rows.add(row);
                    }
                }
                Row::Ready => found.next_due = found.next_due.min(plan.due),
                Row::Claimed(_, until) => found.next_due = found.next_due.min(until),
                Row::Locked(owner) => found.passed_over |= owner != number,
                Row::Absent | Row::InFlight | Row::Gone => {}
            }
        }
        found
    }

    /// The claim commits: leases begin, and their end belongs to `next_due`.
    pub(crate) fn commit_claim(&self, state: &mut State, number: u8) {
        let until = if self.lease == 0 { NEVER } else { state.clock + self.lease };
        state.set_rows(state.node(number).got, Row::Claimed(number, until));
        let node = state.node_mut(number);
        node.next_due = node.next_due.min(until);
        node.next = Next::ReadLook;
    }

    /// The answer is read: rows go to their intentions, or back if the client has gone away meanwhile.
    pub(crate) fn read_look(&self, state: &mut State, number: u8) -> Option<()> {
        let node = state.node_mut(number);
        let mut unwanted = Set::EMPTY;
        for row in node.got.iter() {
            let queue = self.plan(row).queue;
            if node.demand.has(queue) {
                node.demand.remove(queue);
            } else {
                unwanted.add(row);
            }
        }
        if !unwanted.is_empty() {
            if node.release != Transaction::Closed {
                return None; // one release at a time
            }
            node.release = Transaction::Written;
            node.released = unwanted;
        }
        if !self.rules.keep(Rule::FlagClearedBeforeLook) {
            node.flag = false;
        }
        let got_something = !node.got.is_empty();
        let passed_over = std::mem::take(&mut node.passed_over);
        node.got = Set::EMPTY;
        node.asked = Set::EMPTY;
        node.next = if got_something && self.rules.vary(Variation::WakeChain) {
            Next::RingAnyway
        } else if node.demand.is_empty() || got_something || node.flag {
            Next::SendLook
        } else if passed_over {
            Next::ShallowSleep
        } else if node.is_seated() {
            Next::Asleep
        } else {
            Next::TryBell
        };
        Some(())
    }
}
