//! The rules of the wake protocol as switches: each can be broken alone, and then a test must fail.

/// A rule, or the part of one that can be broken by itself. The numbers are those of `main.rs`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// 1: the producer keeps the shared side of the bell from the check to the end of its transaction.
    /// Broken: it reads a flag.
    BellKeptToCommit,
    /// 1: a future-dated insert makes the check too.
    CheckOfFutureRows,
    /// 1: a release makes the check too.
    CheckOnRelease,
    /// 2: a new intention causes a look, also on a node that sleeps.
    LookOnArrival,
    /// 2: the wake flag is cleared before the look is sent. Broken: when it comes back.
    FlagClearedBeforeLook,
    /// 3, 4: a look reports due rows that somebody else's claim has locked, and is repeated.
    PassedOverReported,
    /// 5: look again after taking the bell. Broken: sleep at once.
    SecondLook,
    /// 5: a node sleeps without the bell only if a peer holds it: a refused try may be a producer in flight.
    CoverTest,
    /// 5: the mark is taken before that test.
    MarkBeforeTest,
    /// 5: an answer "covered" is void if a handover was heard since the question was sent.
    HandoverVoidsAnswer,
    /// 5, 7: whoever takes the bell rings if anybody is marked.
    RingOnTaking,
    /// 6: a reserve that hears a handover sits again. Broken: it only looks.
    SitOnHandover,
    /// 8: whoever lets go of the bell rings if anybody is marked.
    RingOnLeaving,
    /// 8: the bell is unlocked first, then rung.
    UnlockBeforeRing,
    /// 9: every node with demand looks on a ring. Broken: only the sentinel.
    EveryNodeLooks,
    /// 11: a node that lost the bell with its session rings after the reconnect.
    RingOnReconnect,
    /// 11: a sit whose answer was lost with the session may have been granted: it counts as a bell that was lost.
    UnansweredSitCounts,
    /// 3: a look that waited for another claim reads what that claim has written. Broken: it reads with the
    /// snapshot that it had before the wait.
    SnapshotAfterWait,
}

/// Ways of doing it that differ from the plain protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Variation {
    /// A sit that is granted the bell drops the mark and rings in the same statement; the node learns of all
    /// that only with the answer. Plain: the node hears of the grant, then sends the ring.
    SitRingsItself,
    /// A node without demand keeps its seat, and leaves at some later moment or never. Plain: it leaves at once.
    LateLeave,
    /// Claims of a queue wait for each other. Plain: a look skips the rows that another claim has locked.
    ClaimsTakeTurns,
    /// Rejected: a look that got something wakes the peers, instead of the handover.
    WakeChain,
}

impl Variation {
    /// Short, for the lines that tell what was explored.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::SitRingsItself => "sit rings",
            Self::LateLeave => "late leave",
            Self::ClaimsTakeTurns => "turns",
            Self::WakeChain => "chain",
        }
    }
}

/// The rules in force.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    broken: Vec<Rule>,
    variations: Vec<Variation>,
}

impl Rules {
    pub(crate) fn keep(&self, rule: Rule) -> bool {
        !self.broken.contains(&rule)
    }

    pub(crate) fn vary(&self, variation: Variation) -> bool {
        self.variations.contains(&variation)
    }

    pub(crate) fn variations(&self) -> &[Variation] {
        &self.variations
    }

    pub(crate) fn break_rule(&mut self, rule: Rule) {
        self.broken.push(rule);
    }

    pub(crate) fn add(&mut self, variation: Variation) {
        self.variations.push(variation);
    }
}
