//! One step of a definition, and the words that it is described with.

use super::words::Word;
use crate::Priority;
use crate::jobs::Backoff;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An enum whose values are words in texts, in the database and in Rust alike.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$value_doc])* #[serde(rename = $word)] $value),+
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// The word for it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $word),+
                }
            }
        }

        impl Word for $name {
            fn word(self) -> &'static str {
                self.as_str()
            }
        }
    };
}

words!(
    /// How the start of a run is recognised as a repetition.
    Identity {
        /// By a hash of the input: the same input, the same run.
        Strict = "strict",
        /// By the key that the caller must give.
        Key = "key",
        /// Never: every start is a new run.
        #[default]
        AlwaysNew = "always_new",
    }
);
words!(
    /// What must have become of a parent for its edge to be satisfied.
    On {
        /// It succeeded, or failed with [`OnFailure::Continue`].
        #[default]
        Success = "success",
        /// It failed for good.
        Failure = "failure",
        /// It ended; the only edge that a skipped parent satisfies.
        Always = "always",
    }
);
words!(
    /// How many edges must be satisfied when all parents have ended; otherwise the step is skipped.
    Join {
        /// Every one.
        #[default]
        All = "all",
        /// At least one.
        Any = "any",
    }
);
words!(
    /// What the failure of a step means to the others.
    OnFailure {
        /// The run fails, unless a step that wants this failure takes it from there.
        #[default]
        Stop = "stop",
        /// It counts as succeeded, for its children and for the run.
        Continue = "continue",
    }
);
words!(
    /// When a domain event is written.
    EventOn {
        /// When the step succeeded.
        Success = "success",
        /// When it failed for good.
        Failure = "failure",
        /// When an attempt failed and another one follows.
        Retry = "retry",
        /// When it ended, however.
        #[default]
        Always = "always",
    }
);

/// One step of a [`Definition`](super::Definition). Made by [`Step::task`] and its like, for the builder.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Step {
    /// Its name: 1 to 100 letters, digits, `_`, `-` or `.`; no other step has it.
    pub name: String,
    /// What it does.
    pub kind: StepKind,
    /// Its parents, in the order of the definition; none: it begins with the run.
    pub after: Vec<Edge>,
    /// How many of its edges must be satisfied.
    pub join: Join,
    /// The queue that its workers claim from.
    pub queue: String,
    /// Which of the four lanes of the queue it goes to.
    pub priority: Priority,
    /// How often it is tried.
    pub attempts: u16,
    /// How long it waits between two attempts. A sleep and a signal have none.
    pub backoff: Option<Backoff>,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// How long it may take from being ready to its end, all attempts together.
    pub deadline: Option<Duration>,
    /// What its failure means to the others.
    pub on_failure: OnFailure,
    /// Domain events that it writes.
    pub events: Vec<Event>,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepKind {
    /// A worker runs its handler.
    Task {
        /// The name that the worker knows the handler by.
        handler: String,
    },
    /// A worker runs its handler once for each element of a list.
    Map {
        /// The name that the worker knows the handler by.
        handler: String,
        /// The list.
        over: Over,
        /// Most elements at once; `None`: as many as workers take.
        concurrency: Option<u32>,
    },
    /// A worker runs its handler, whose output names the children that run.
    Decision {
        /// The name that the worker knows the handler by.
        handler: String,
    },
    /// Nothing, for a while.
    Sleep {
        /// How long.
        length: Duration,
    },
    /// Waits for a signal.
    Signal {
        /// The signal's key, in which `{run}` stands for the run's number.
        key: String,
        /// After how long the step fails; `None`: it waits for ever.
        timeout: Option<Duration>,
    },
}

impl StepKind {
    /// The word for it.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Task { .. } => "task",
            Self::Map { .. } => "map",
            Self::Decision { .. } => "decision",
            Self::Sleep { .. } => "sleep",
            Self::Signal { .. } => "signal",
        }
    }

    /// The handler that a worker runs for it, if one does.
    #[must_use]
    pub fn handler(&self) -> Option<&str> {
        match self {
            Self::Task { handler } | Self::Map { handler, .. } | Self::Decision { handler } => Some(handler),
            Self::Sleep { .. } | Self::Signal { .. } => None,
        }
    }
}

/// The list of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Over {
    /// The step whose output it is in, a parent of the map; `None`: it is in the run's input.
    pub step: Option<String>,
    /// Where it is there: a JSON pointer (RFC 6901), empty for the whole.
    pub at: String,
}

/// A step's edge from one of its parents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// The parent's name.
    pub step: String,
    /// What must have become of it.
    pub on: On,
}

/// A message that is written, in the same transaction, when something has become of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// When.
    pub on: EventOn,
    /// To which queue.
    pub queue: String,
}
