//! A node's next step, and what its listener reads.
use crate::configuration::Configuration;
use crate::rules::Rule;
use crate::seat::{end_cover_test, ring};
use crate::state::{Inbox, NEVER, Next, Node, State};

impl Configuration {
    /// Takes the node's next step; `None` if there is none to take.
    pub(crate) fn step(&self, state: &mut State, number: u8) -> Option<()> {
        if !state.node(number).alive {
            return None;
        }
        let before = state.node(number).next;
        self.single_step(state, number)?;
        if self.merges_steps { self.merge(state, number, before) } else { Some(()) }
    }

    fn single_step(&self, state: &mut State, number: u8) -> Option<()> {
        let node = *state.node(number);
        if needs_session(node.next) && !node.session {
            return None;
        }
        match node.next {
            Next::Idle if node.demand.is_empty() => return None,
            Next::Asleep if !is_woken(&node, state.clock) => return None,
            Next::Idle | Next::Asleep | Next::ShallowSleep => state.node_mut(number).next = Next::SendLook,
            Next::ReadGranted => {
                let looks_again = self.rules.keep(Rule::SecondLook);
                state.node_mut(number).next = if looks_again { Next::SendLook } else { Next::Asleep };
            }
            Next::SendLook => self.send_look(state, number),
            Next::RunLook => return self.run_look(state, number),
            Next::CommitClaim => self.commit_claim(state, number),
            Next::ReadLook => return self.read_look(state, number),
            Next::TryBell => self.try_bell(state, number),
            Next::TestCover => self.test_cover(state, number),
            Next::EndCoverTest => end_cover_test(state.node_mut(number)),
            Next::ReadCovered => self.read_covered(state.node_mut(number)),
            Next::MarkAfterTest => {
                state.node_mut(number).mark = true;
                state.node_mut(number).next = Next::ReadCovered;
            }
            Next::UnlockAfterRing { idle } => Self::unlock_after_ring(state.node_mut(number), idle),
            Next::Reconnect => self.reconnect(state.node_mut(number)),
            Next::RingWithinSit if !self.rules.keep(Rule::RingOnTaking) => {
                state.node_mut(number).next = Next::ReadGranted;
            }
            Next::RingThenLook
            | Next::RingThenIdle
            | Next::RingAnyway
            | Next::RingWithinSit
            | Next::RingBeforeUnlock { .. } => ring_step(state, number),
        }
        Some(())
    }

    /// Takes a step that nobody else can observe together with the next one: the sending of a look with the look,
    /// waking up with the sending.
    fn merge(&self, state: &mut State, number: u8, before: Next) -> Option<()> {
        let node = state.node_mut(number);
        if !matches!(node.next, Next::Asleep | Next::ReadLook | Next::CommitClaim) {
            node.next_due = NEVER; // a timer that nobody waits for
        }
        let woke_up = matches!(before, Next::Idle | Next::Asleep | Next::ShallowSleep);
        let Node { next, demand, .. } = *node;
        match next {
            Next::SendLook if woke_up && !demand.is_empty() => self.step(state, number),
            Next::RunLook if !self.must_wait(state, number) => self.step(state, number),
            _ => Some(()),
        }
    }

    /// The listener reads what has come (rules 6 and 9).
    pub(crate) fn read_inbox(&self, state: &mut State, number: u8) -> Option<()> {
        let node = state.node_mut(number);
        if !node.listens() || node.inbox == Inbox::EMPTY {
            return None;
        }
        let inbox = std::mem::take(&mut node.inbox);
        let may_look = node.bell || self.rules.keep(Rule::EveryNodeLooks);
        let ring_concerns = may_look && node.demand.meets(inbox.rung());
        let handover_concerns = inbox.has_handover() && !node.demand.is_empty();
        node.flag |= ring_concerns || handover_concerns;
        if inbox.has_handover() && self.rules.keep(Rule::SitOnHandover) {
            node.covered = false;
            node.excused = false;
            node.handover_heard =
                matches!(node.next, Next::TestCover | Next::MarkAfterTest | Next::ReadCovered);
        }
        Some(())
    }
}

fn ring_step(state: &mut State, number: u8) {
    let before = state.node(number).next;
    ring(state, number, before == Next::RingAnyway);
    let node = state.node_mut(number);
    node.next = match before {
        Next::RingThenIdle => Next::Idle,
        Next::RingWithinSit => Next::ReadGranted,
        Next::RingBeforeUnlock { idle } => Next::UnlockAfterRing { idle },
        _ => Next::SendLook,
    };
    node.ring_owed = false;
}

/// What ends a sleep (rule 6); the wake flag stands for rings, handovers, intentions, local pushes and the heartbeat.
fn is_woken(node: &Node, clock: u8) -> bool {
    node.demand.is_empty() || node.flag || node.next_due <= clock
}

fn needs_session(next: Next) -> bool {
    matches!(
        next,
        Next::TryBell
            | Next::TestCover
            | Next::MarkAfterTest
            | Next::RingThenLook
            | Next::RingThenIdle
            | Next::RingAnyway
            | Next::RingBeforeUnlock { .. }
            | Next::UnlockAfterRing { .. }
            | Next::RingWithinSit
            | Next::ReadGranted
    )
}
