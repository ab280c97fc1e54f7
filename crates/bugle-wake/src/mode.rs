//! How the waiters of a queue are woken: a row in the database, so that a rollout can be gradual and be rolled back.

use crate::number::Number;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How the waiters of a queue are woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// By rings and timers; the heartbeat looks as well. The default.
    #[default]
    Hybrid,
    /// By rings and timers alone: no fallback look. A reconnect still wakes everybody.
    EventDrivenOnly,
    /// By the clock alone: looks every poll interval, ignores rings and holds no lock, so producers do not ring for it.
    PollingOnly,
    /// Holds its seat and counts the rings, but is served by polls alone: to see what the rings would do.
    Shadow,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::Hybrid, Self::EventDrivenOnly, Self::PollingOnly, Self::Shadow];

    /// Its name, as the database and the command line write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hybrid => "hybrid",
            Self::EventDrivenOnly => "event_driven_only",
            Self::PollingOnly => "polling_only",
            Self::Shadow => "shadow",
        }
    }

    /// Does a ring lead to a look?
    pub(crate) fn is_rung(self) -> bool {
        matches!(self, Self::Hybrid | Self::EventDrivenOnly)
    }

    /// A queue without a fallback look depends on every ring.
    pub(crate) fn warn_of(self, number: Number) {
        if self == Self::EventDrivenOnly {
            tracing::warn!(
                queue = number.0,
                "no fallback look in mode event_driven_only: work whose ring is lost waits for the next"
            );
        }
    }

    /// Does the node sit for it?
    pub(crate) fn sits(self) -> bool {
        self != Self::PollingOnly
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// There is no such mode.
#[derive(Debug, thiserror::Error)]
#[error("mode is {0:?}; there are hybrid, event_driven_only, polling_only and shadow")]
pub struct UnknownMode(String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text).ok_or_else(|| UnknownMode(text.to_owned()))
    }
}

/// A queue's row: its mode, and how often it is polled where its mode says so (`None`: as the node's options say).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Setting {
    pub(crate) mode: Mode,
    pub(crate) poll: Option<Duration>,
}
