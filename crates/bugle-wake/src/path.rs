//! By which path work came: the figures of the two ways to wake somebody are told apart by it.

use crate::counters::Why;
use std::time::Duration;

/// By which path work came to whoever waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Path {
    /// It was announced: by a ring, this process's own write, a timer; or found by a node that such announcements keep awake.
    Event,
    /// It was there already when somebody came who wants it.
    Demand,
    /// A look by the clock found it: the mode polls, or LISTEN is impossible.
    Poll,
    /// A look that makes sure found it: the heartbeat's, or one after a fault.
    Fallback,
}

impl Path {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Event, Self::Demand, Self::Poll, Self::Fallback];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Demand => "demand",
            Self::Poll => "poll",
            Self::Fallback => "fallback",
        }
    }
}

impl Why {
    /// The path that work takes which such a look finds.
    #[must_use]
    pub fn path(self) -> Path {
        match self {
            Self::Ring
            | Self::Local
            | Self::Timer
            | Self::Seated
            | Self::Shallow
            | Self::Handover
            | Self::Linger => Path::Event,
            Self::Intention | Self::More => Path::Demand,
            Self::Poll => Path::Poll,
            Self::Heartbeat | Self::Alert | Self::Retry | Self::Connected => Path::Fallback,
        }
    }
}

/// How something came to be given to an intention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    /// What caused the look that found it.
    pub why: Why,
    /// How long the intention could have been given something, without a fault or an order that may have prevented it.
    pub was_open_for: Duration,
}
