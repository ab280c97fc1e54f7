//! Rule 1: transactions that make rows claimable, by producers and by nodes that hand rows back.
use crate::configuration::Configuration;
use crate::rules::Rule;
use crate::set::Set;
use crate::state::{Inbox, Node, Row, State, Transaction};

impl Configuration {
    /// A producer's next step.
    pub(crate) fn transact(&self, state: &mut State, producer: u8) -> Option<()> {
        let now = state.producers[usize::from(producer)];
        if now == Transaction::Closed {
            return None;
        }
        let rows = self.rows_of_producer(producer);
        let some_row_is_due_now = rows.iter().any(|row| self.plan(row).due == 0);
        let checks = some_row_is_due_now || self.rules.keep(Rule::CheckOfFutureRows);
        state.producers[usize::from(producer)] = self.advance(state, now, rows, checks);
        Some(())
    }

    /// The next step of the transaction in which a node hands rows back.
    pub(crate) fn hand_back(&self, state: &mut State, node: u8) -> Option<()> {
        let (now, rows) = (state.node(node).release, state.node(node).released);
        if now == Transaction::Closed {
            return None;
        }
        let still_ours = |row| matches!(state.row(row), Row::Claimed(owner, _) if owner == node);
        let then = if now.is_committed() || rows.iter().all(still_ours) {
            self.advance(state, now, rows, self.rules.keep(Rule::CheckOnRelease))
        } else {
            Transaction::Closed // the lease has ended and somebody else has the row: nothing to hand back
        };
        let node = state.node_mut(node);
        node.release = then;
        if then == Transaction::Closed {
            node.released = Set::EMPTY;
        }
        Some(())
    }

    /// Check, commit, then lock released or ring delivered. Rows are visible before either of the last two:
    /// that is the order in which PostgreSQL ends a transaction.
    fn advance(&self, state: &mut State, now: Transaction, rows: Set, checks: bool) -> Transaction {
        match now {
            Transaction::Closed | Transaction::VisibleHoldsBell => Transaction::Closed,
            Transaction::Written if !checks => Transaction::Unchecked,
            Transaction::Written if state.nodes.iter().any(Node::holds_bell) => Transaction::WillRing,
            Transaction::Written => Transaction::HoldsBell,
            Transaction::HoldsBell => {
                state.set_rows(rows, Row::Ready);
                Transaction::VisibleHoldsBell
            }
            Transaction::WillRing => {
                state.set_rows(rows, Row::Ready);
                Transaction::VisibleWillRing(state.listeners())
            }
            Transaction::Unchecked => {
                state.set_rows(rows, Row::Ready);
                Transaction::Closed
            }
            Transaction::VisibleWillRing(listeners) => {
                for row in rows.iter() {
                    state.deliver(listeners, Inbox::ring(self.plan(row).queue));
                }
                Transaction::Closed
            }
        }
    }

    /// Does a producer, or another node's cover test, hold the shared side of the bell?
    pub(crate) fn bell_is_shared(&self, state: &State, node: u8) -> bool {
        let releases = state.nodes.iter().map(|other| other.release);
        let mut transactions = state.producers.iter().copied().chain(releases);
        let mut peers = state.numbered_nodes().filter(|(peer, _)| *peer != node);
        (self.rules.keep(Rule::BellKeptToCommit) && transactions.any(Transaction::holds_bell))
            || peers.any(|(_, peer)| peer.tests_cover())
    }
}
