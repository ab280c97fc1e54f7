//! What the world is like at one instant: nodes, producers, rows, locks, notifications, the clock.
use crate::set::Set;

pub(crate) const NODES_MAX: usize = 3;
pub(crate) const PRODUCERS_MAX: usize = 3;
pub(crate) const ROWS_MAX: usize = 4;
pub(crate) const QUEUES: u8 = 2;

/// Later than any instant of the model's clock.
pub(crate) const NEVER: u8 = 9;

/// A row of work. Its queue and its due time are the configuration's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) enum Row {
    Absent,
    /// Written by a transaction that has not committed.
    InFlight,
    /// Committed and unclaimed; claimable once it is due.
    Ready,
    /// In a claim that has not committed, by this node.
    Locked(u8),
    /// Leased by this node until this instant.
    Claimed(u8, u8),
    /// Never to be seen again: its producer rolled back.
    Gone,
}

/// How far a transaction that makes rows claimable has come (rule 1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) enum Transaction {
    Closed,
    /// The rows are written; the check comes next.
    Written,
    /// The check got the shared side of the bell: nobody holds it, no ring.
    HoldsBell,
    /// The check was refused: the commit will ring.
    WillRing,
    /// Committed, rows visible; the lock is released a moment later.
    VisibleHoldsBell,
    /// Committed, rows visible; the ring reaches these nodes a moment later.
    VisibleWillRing(Set),
    /// A transaction that leaves the check out (a broken rule).
    Unchecked,
}

impl Transaction {
    pub(crate) fn holds_bell(self) -> bool {
        matches!(self, Self::HoldsBell | Self::VisibleHoldsBell)
    }

    pub(crate) fn is_committed(self) -> bool {
        matches!(self, Self::VisibleHoldsBell | Self::VisibleWillRing(_))
    }
}

/// What a node does next. The pump and its seat are one sequence: it looks, then sits, then sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) enum Next {
    /// Without demand, until an intention comes.
    Idle,
    SendLook,
    /// The look is sent; the server has not run it.
    RunLook,
    /// The look has locked rows; its claim has not committed.
    CommitClaim,
    ReadLook,
    /// Sit: the exclusive try on the bell.
    TryBell,
    /// Sit, refused: the cover test, a shared try on the bell.
    TestCover,
    /// The cover test got the shared side and holds it for a moment.
    EndCoverTest,
    RingThenLook,
    RingThenIdle,
    /// The wake chain (a rejected way): ring whether or not anybody is marked.
    RingAnyway,
    /// The wrong order of leaving (a broken rule): ring first …
    RingBeforeUnlock {
        idle: bool,
    },
    /// … and unlock afterwards.
    UnlockAfterRing {
        idle: bool,
    },
    /// The wrong order of sitting (a broken rule): the mark after the cover test.
    MarkAfterTest,
    /// The answer "covered" is on its way.
    ReadCovered,
    Asleep,
    /// Asleep for the random moment R; then looks, whatever happens.
    ShallowSleep,
    Reconnect,
    /// One-statement sit: the bell is taken, the statement's ring comes next. The node does not know yet.
    RingWithinSit,
    /// One-statement sit: the answer "bell" is on its way.
    ReadGranted,
}

/// What a node has been sent and has not read: rings, one for each queue, and a handover.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Inbox(Set);

impl Inbox {
    pub(crate) const EMPTY: Self = Self(Set::EMPTY);
    pub(crate) const HANDOVER: Self = Self(Set::one(1));

    pub(crate) const fn ring(queue: u8) -> Self {
        Self(Set::one(2 * queue))
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.0.add_all(other.0);
    }

    pub(crate) fn has_handover(self) -> bool {
        self.0.meets(Self::HANDOVER.0)
    }

    pub(crate) fn rung(self) -> Set {
        (0..QUEUES).filter(|queue| self.0.meets(Self::ring(*queue).0)).collect()
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rings = self.rung().iter().map(|queue| format!("ring {queue}")).collect::<Vec<_>>();
        let handover = self.has_handover().then(|| "handover".to_owned());
        f.write_str(&rings.into_iter().chain(handover).collect::<Vec<_>>().join(" + "))
    }
}

/// One node. The order of the fields decides which of several alike states represents them all (`symmetry`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(clippy::struct_excessive_bools)] // independent facts, most of them locks and flags of the real thing
pub(crate) struct Node {
    pub(crate) alive: bool,
    /// The listener's session is up. Without it the server has given back bell and mark.
    pub(crate) session: bool,
    pub(crate) next: Next,
    /// Queues with an intention waiting.
    pub(crate) demand: Set,
    /// Queues that the look under way asks for.
    pub(crate) asked: Set,
    /// Rows that the look under way got.
    pub(crate) got: Set,
    /// The pump's wake flag (rule 2).
    pub(crate) flag: bool,
    /// The look under way met a due row locked by somebody else's claim (rule 3).
    pub(crate) passed_over: bool,
    pub(crate) bell: bool,
    pub(crate) mark: bool,
    /// Has been told that a peer holds the bell, and has heard no handover since.
    pub(crate) covered: bool,
    /// Read a handover while the question "am I covered?" was open (rule 5).
    pub(crate) handover_heard: bool,
    /// The sleep's timer.
    pub(crate) next_due: u8,
    pub(crate) inbox: Inbox,
    /// Lost the bell with its session, or unlocked it and has not rung yet (rule 11).
    pub(crate) ring_owed: bool,
    /// The sentinel died: this reserve may wait for a heartbeat.
    pub(crate) excused: bool,
    /// The transaction that hands rows back: their client is gone, or the job was abandoned.
    pub(crate) release: Transaction,
    pub(crate) released: Set,
    /// Unclaimed rows that a look saw when it was sent: for a look that reads with an old snapshot (a broken rule).
    pub(crate) snapshot: Option<Set>,
}

impl Node {
    pub(crate) const DEAD: Self = Self {
        alive: false,
        session: false,
        next: Next::Idle,
        demand: Set::EMPTY,
        asked: Set::EMPTY,
        got: Set::EMPTY,
        flag: false,
        passed_over: false,
        bell: false,
        mark: false,
        covered: false,
        handover_heard: false,
        next_due: NEVER,
        inbox: Inbox::EMPTY,
        ring_owed: false,
        excused: false,
        release: Transaction::Closed,
        released: Set::EMPTY,
        snapshot: None,
    };

    pub(crate) fn listens(&self) -> bool {
        self.alive && self.session
    }

    /// The server knows a bell only as long as the session lives; the node believes in it until it notices.
    pub(crate) fn holds_bell(&self) -> bool {
        self.listens() && self.bell
    }

    pub(crate) fn holds_mark(&self) -> bool {
        self.listens() && self.mark
    }

    /// Holds the shared side of the bell for the moment of its cover test.
    pub(crate) fn tests_cover(&self) -> bool {
        self.next == Next::EndCoverTest
    }

    pub(crate) fn is_seated(&self) -> bool {
        self.bell || (self.mark && self.covered)
    }
}

/// How often the environment may do what it does in limited number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Budgets {
    pub(crate) arrivals: u8,
    pub(crate) cancellations: u8,
    pub(crate) lettings_go: u8,
    pub(crate) crashes: u8,
    pub(crate) session_losses: u8,
    pub(crate) abandons: u8,
    pub(crate) claim_rollbacks: u8,
    /// Heartbeats and local pushes together.
    pub(crate) wakes: u8,
}

impl Budgets {
    pub(crate) const NONE: Self = Self {
        arrivals: 0,
        cancellations: 0,
        lettings_go: 0,
        crashes: 0,
        session_losses: 0,
        abandons: 0,
        claim_rollbacks: 0,
        wakes: 0,
    };
    pub(crate) const LET_GO: Self = Self { lettings_go: 1, ..Self::NONE };
}

/// Uses up one of a budget; `None` if there is none left.
pub(crate) fn spend(budget: &mut u8) -> Option<()> {
    *budget = budget.checked_sub(1)?;
    Some(())
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    pub(crate) nodes: [Node; NODES_MAX],
    pub(crate) producers: [Transaction; PRODUCERS_MAX],
    pub(crate) rows: [Row; ROWS_MAX],
    pub(crate) clock: u8,
    pub(crate) budgets: Budgets,
}

impl State {
    pub(crate) fn node(&self, node: u8) -> &Node {
        &self.nodes[usize::from(node)]
    }

    pub(crate) fn node_mut(&mut self, node: u8) -> &mut Node {
        &mut self.nodes[usize::from(node)]
    }

    pub(crate) fn row(&self, row: u8) -> Row {
        self.rows[usize::from(row)]
    }

    pub(crate) fn set_rows(&mut self, rows: Set, to: Row) {
        for row in rows.iter() {
            self.rows[usize::from(row)] = to;
        }
    }

    pub(crate) fn numbered_nodes(&self) -> impl Iterator<Item = (u8, &Node)> {
        (0u8..).zip(&self.nodes)
    }

    /// Does a node other than this one hold the bell?
    pub(crate) fn peer_holds_bell(&self, node: u8) -> bool {
        self.numbered_nodes().any(|(peer, other)| peer != node && other.holds_bell())
    }

    /// Nodes whose listener would hear a notification now.
    pub(crate) fn listeners(&self) -> Set {
        self.numbered_nodes().filter(|(_, node)| node.listens()).map(|(number, _)| number).collect()
    }

    pub(crate) fn deliver(&mut self, to: Set, what: Inbox) {
        for (number, node) in (0u8..).zip(&mut self.nodes) {
            if to.has(number) && node.listens() {
                node.inbox.add(what);
            }
        }
    }

    /// A claim that did not commit: its rows are ready again.
    pub(crate) fn unlock_rows_of(&mut self, node: u8) {
        for row in &mut self.rows {
            if *row == Row::Locked(node) {
                *row = Row::Ready;
            }
        }
    }
}
