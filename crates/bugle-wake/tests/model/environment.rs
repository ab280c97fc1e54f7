//! What may happen at any moment, or never: pushes, arrivals, time, faults.
use crate::configuration::Configuration;
use crate::rules::Rule;
use crate::seat::owes_ring;
use crate::set::Set;
use crate::state::{Inbox, Next, Node, Row, State, Transaction, spend};

impl Configuration {
    /// A producer writes its rows. Nobody sees them yet, so the check may be taken in the same step.
    pub(crate) fn begin(&self, state: &mut State, producer: u8) -> Option<()> {
        let rows = self.rows_of_producer(producer);
        if rows.iter().any(|row| state.row(row) != Row::Absent) {
            return None;
        }
        state.set_rows(rows, Row::InFlight);
        state.producers[usize::from(producer)] = Transaction::Written;
        if self.merges_steps { self.transact(state, producer) } else { Some(()) }
    }

    pub(crate) fn abort(&self, state: &mut State, producer: u8) -> Option<()> {
        let transaction = &mut state.producers[usize::from(producer)];
        let open =
            matches!(transaction, Transaction::Written | Transaction::HoldsBell | Transaction::WillRing);
        if !self.producers_abort || !open {
            return None;
        }
        *transaction = Transaction::Closed;
        state.set_rows(self.rows_of_producer(producer), Row::Gone);
        Some(())
    }

    /// An intention is registered, and causes a look (rule 2).
    pub(crate) fn arrive(&self, state: &mut State, number: u8, queue: u8) -> Option<()> {
        let node = &mut state.nodes[usize::from(number)];
        if !node.alive || node.demand.has(queue) || !self.arriving.has(queue) {
            return None;
        }
        spend(&mut state.budgets.arrivals)?;
        node.demand.add(queue);
        node.flag |= self.rules.keep(Rule::LookOnArrival);
        Some(())
    }

    /// A client goes away.
    pub(crate) fn cancel(state: &mut State, number: u8, queue: u8) -> Option<()> {
        let node = &mut state.nodes[usize::from(number)];
        if !node.alive || !node.demand.has(queue) {
            return None;
        }
        spend(&mut state.budgets.cancellations)?;
        node.demand.remove(queue);
        Some(())
    }

    /// The sentinel gets up although it has demand: rings come fast, or it is about to push a burst (rule 8).
    pub(crate) fn let_go(&self, state: &mut State, number: u8) -> Option<()> {
        let node = state.node(number);
        if node.next != Next::Asleep || !node.holds_bell() {
            return None;
        }
        spend(&mut state.budgets.lettings_go)?;
        self.leave(state, number, false);
        Some(())
    }

    /// A node that has kept its seat without demand leaves after all (rule 8).
    pub(crate) fn leave_late(&self, state: &mut State, number: u8) -> Option<()> {
        let node = state.node(number);
        let seated = node.holds_bell() || node.holds_mark();
        if node.next != Next::Idle || !node.demand.is_empty() || !seated {
            return None;
        }
        self.leave(state, number, true);
        Some(())
    }

    /// A push on the same node sets the flag.
    pub(crate) fn wake_locally(state: &mut State, number: u8) -> Option<()> {
        let node = &mut state.nodes[usize::from(number)];
        if !node.alive || node.next != Next::Asleep || node.flag {
            return None;
        }
        spend(&mut state.budgets.wakes)?;
        node.flag = true;
        Some(())
    }

    /// Look, and a reserve sits again (rule 10).
    pub(crate) fn heartbeat(state: &mut State, number: u8) -> Option<()> {
        Self::wake_locally(state, number)?;
        let node = state.node_mut(number);
        node.covered = false;
        node.excused = false;
        Some(())
    }

    /// A process dies. If it was the sentinel, or owed a ring, its reserves may wait for a heartbeat.
    pub(crate) fn crash(state: &mut State, number: u8) -> Option<()> {
        let node = *state.node(number);
        if !node.alive {
            return None;
        }
        spend(&mut state.budgets.crashes)?;
        if node.holds_bell() || node.ring_owed || owes_ring(&node) {
            for reserve in state.nodes.iter_mut().filter(|other| other.mark) {
                reserve.excused = true;
            }
        }
        state.unlock_rows_of(number);
        let mut dead = Node::DEAD;
        if node.release.is_committed() {
            dead.release = node.release;
            dead.released = node.released;
        }
        *state.node_mut(number) = dead;
        Some(())
    }

    /// The listener's session is gone: the server has forgotten its locks, the node does not know yet.
    pub(crate) fn lose_session(state: &mut State, number: u8) -> Option<()> {
        let node = &mut state.nodes[usize::from(number)];
        if !node.listens() {
            return None;
        }
        spend(&mut state.budgets.session_losses)?;
        node.session = false;
        node.inbox = Inbox::EMPTY;
        node.mark = false;
        node.covered = false;
        Some(())
    }

    pub(crate) fn tick(&self, state: &mut State) -> Option<()> {
        if state.clock >= self.clock_max {
            return None;
        }
        state.clock += 1;
        Some(())
    }

    /// The worker gives a row back untouched.
    pub(crate) fn abandon(state: &mut State, row: u8) -> Option<()> {
        let Row::Claimed(owner, _) = state.row(row) else { return None };
        let node = &mut state.nodes[usize::from(owner)];
        if !node.alive || node.release != Transaction::Closed || node.next == Next::ReadLook {
            return None;
        }
        spend(&mut state.budgets.abandons)?;
        node.release = Transaction::Written;
        node.released = Set::one(row);
        Some(())
    }

    /// A claim is rolled back: a look that failed, which never leads to sleep (rule 4).
    pub(crate) fn roll_back_claim(state: &mut State, number: u8) -> Option<()> {
        if !state.node(number).alive || state.node(number).next != Next::CommitClaim {
            return None;
        }
        spend(&mut state.budgets.claim_rollbacks)?;
        state.unlock_rows_of(number);
        let node = state.node_mut(number);
        node.got = Set::EMPTY;
        node.flag = true;
        node.next = Next::SendLook;
        Some(())
    }
}
