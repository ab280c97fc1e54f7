//! One seat: what a node holds of a bucket, what it wants, and the words in which pumps and listener speak about it.

use crate::number::Bucket;
use crate::pace::Pace;
use std::time::{Duration, Instant};

/// What the listener is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Session {
    /// No connection: nobody can ring for this node.
    Away,
    /// It listens.
    Listening,
    /// LISTEN is impossible or useless here: polls alone.
    Useless,
}

/// What a pump does after a look that found nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dry {
    /// It may sleep: a ring will come.
    Sleep,
    /// It stays awake and looks again then.
    LookAt(Instant),
    /// A seat is being taken; it will be woken to look once more.
    Sitting,
    /// Nobody can ring for it: it polls.
    Poll,
}

/// A statement for the listener session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Errand {
    /// Rule 8.
    Leave { bells: Vec<Bucket>, marks: Vec<Bucket> },
    /// Rule 5; ascending.
    Sit { buckets: Vec<Bucket>, marked: Vec<bool> },
}

/// The answer to a [`Errand::Sit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seated {
    Bell,
    Reserve,
    Shallow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Held {
    #[default]
    Nothing,
    Bell,
    /// With the mark, and covered: a peer holds the bell, as far as is known.
    Mark {
        covered: bool,
    },
}

#[derive(Debug, Default)]
pub(crate) struct Seat {
    /// Queues with somebody waiting, over all pumps.
    pub(crate) demand: u32,
    pub(crate) held: Held,
    /// What is held is being let go.
    pub(crate) let_go: bool,
    /// A seat is wanted.
    pub(crate) sit: bool,
    /// A sit is unanswered: the bell may be held already.
    pub(crate) asked: bool,
    /// In a shallow sleep until then.
    pub(crate) shallow_until: Option<Instant>,
    /// The longest that the next shallow sleep may take.
    pub(crate) shallow: Duration,
    /// When the last demand went. What is held is kept for a while: the next intention is often near, and a needless ring costs little.
    pub(crate) empty_since: Option<Instant>,
    pub(crate) pace: Pace,
}

impl Seat {
    pub(crate) fn is_seated(&self) -> bool {
        !self.let_go && matches!(self.held, Held::Bell | Held::Mark { covered: true })
    }
}
