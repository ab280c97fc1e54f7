//! Rules 5, 7, 8 and 11: sit, ring if marked, leave, reconnect.
//!
//! All of it runs on the listener's session: without one, a step waits until the loss is noticed.
use crate::configuration::Configuration;
use crate::rules::{Rule, Variation};
use crate::state::{Inbox, NEVER, Next, Node, State};

impl Configuration {
    /// Sit, first half (rule 5): the exclusive try on the bell. Refused: take the mark.
    pub(crate) fn try_bell(&self, state: &mut State, number: u8) {
        let granted = !state.peer_holds_bell(number) && !self.bell_is_shared(state, number);
        let node = state.node_mut(number);
        if !granted {
            node.mark |= self.rules.keep(Rule::MarkBeforeTest);
            node.next = Next::TestCover;
            return;
        }
        node.bell = true;
        node.mark = false;
        node.covered = false;
        node.excused = false;
        node.next = if self.rules.vary(Variation::SitRingsItself) {
            Next::RingWithinSit
        } else if !self.rules.keep(Rule::SecondLook) {
            Next::Asleep
        } else if self.rules.keep(Rule::RingOnTaking) {
            Next::RingThenLook
        } else {
            Next::SendLook
        };
    }

    /// Sit, second half (rule 5): the shared try on the bell. Only if that is refused too, a peer really holds it.
    pub(crate) fn test_cover(&self, state: &mut State, number: u8) {
        let covered = !self.rules.keep(Rule::CoverTest) || state.peer_holds_bell(number);
        let node = state.node_mut(number);
        if covered {
            node.excused = false;
            node.next = if node.mark { Next::ReadCovered } else { Next::MarkAfterTest };
        } else if self.cover_test_at_once {
            end_cover_test(node);
        } else {
            node.next = Next::EndCoverTest;
        }
    }

    /// The answer "covered" is read. A handover read since the question was sent makes it void (rule 5).
    pub(crate) fn read_covered(&self, node: &mut Node) {
        let is_void = node.handover_heard && self.rules.keep(Rule::HandoverVoidsAnswer);
        node.covered = node.mark && !is_void;
        node.handover_heard = false;
        node.next = Next::SendLook; // the second look, now that the seat is taken
    }

    /// Leave, or let go of the bell (rule 8): unlock first, then ring if anybody is marked.
    pub(crate) fn leave(&self, state: &mut State, number: u8, idle: bool) {
        let node = state.node_mut(number);
        let rings = node.bell && self.rules.keep(Rule::RingOnLeaving);
        if rings && !self.rules.keep(Rule::UnlockBeforeRing) {
            node.next = Next::RingBeforeUnlock { idle };
            return;
        }
        node.next = match (rings, idle) {
            (true, true) => Next::RingThenIdle,
            (true, false) => Next::RingThenLook,
            (false, true) => Next::Idle,
            (false, false) => Next::SendLook,
        };
        give_up_seat(node);
    }

    pub(crate) fn unlock_after_ring(node: &mut Node, idle: bool) {
        node.next = if idle { Next::Idle } else { Next::SendLook };
        give_up_seat(node);
    }

    /// LISTEN again, then ring if a bell was lost (rule 11): meanwhile a reserve may have slept on, covered by nobody.
    pub(crate) fn reconnect(&self, node: &mut Node) {
        node.session = true;
        node.inbox = Inbox::EMPTY;
        node.flag = !node.demand.is_empty();
        if node.ring_owed && self.rules.keep(Rule::RingOnReconnect) {
            node.next = Next::RingThenLook;
        } else {
            node.ring_owed = false;
            node.next = Next::SendLook;
        }
    }

    /// The node notices that its session is gone, and all its locks with it (rule 11).
    pub(crate) fn notice_loss(&self, node: &mut Node) -> Option<()> {
        // These end by themselves; the loss is noticed right after.
        let busy = matches!(
            node.next,
            Next::RunLook
                | Next::CommitClaim
                | Next::ReadLook
                | Next::EndCoverTest
                | Next::ReadCovered
                | Next::Reconnect
        );
        if !node.alive || node.session || busy {
            return None;
        }
        let unanswered_sit = matches!(node.next, Next::RingWithinSit | Next::ReadGranted);
        let had_bell = node.bell && (!unanswered_sit || self.rules.keep(Rule::UnansweredSitCounts));
        node.ring_owed |= had_bell || owes_ring(node);
        give_up_seat(node);
        node.handover_heard = false;
        node.next = Next::Reconnect;
        Some(())
    }
}

/// Ring if marked (rule 7). A node ignores its own handover.
pub(crate) fn ring(state: &mut State, number: u8, anyway: bool) {
    let marked = state.numbered_nodes().any(|(peer, other)| peer != number && other.holds_mark());
    if marked || anyway {
        let peers = state.listeners().without(number);
        state.deliver(peers, Inbox::HANDOVER);
    }
}

/// Has unlocked the bell and not rung yet.
pub(crate) fn owes_ring(node: &Node) -> bool {
    matches!(node.next, Next::RingThenLook | Next::RingThenIdle)
}

/// The cover test was granted: only producers are in flight. Neither bell nor mark; look again after R.
pub(crate) fn end_cover_test(node: &mut Node) {
    node.mark = false;
    node.handover_heard = false;
    node.next = Next::ShallowSleep;
}

fn give_up_seat(node: &mut Node) {
    node.bell = false;
    node.mark = false;
    node.covered = false;
    node.next_due = NEVER;
}
