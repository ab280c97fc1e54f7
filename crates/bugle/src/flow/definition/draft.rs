//! What somebody said of a definition, before anything of it is checked. Every source of definitions ends here: texts, the builder, the
//! canonical form; so all of them are held to the same rules.

use super::fault::{At, Mark};
use super::step::{Event, Identity, Join, On, OnFailure};
use crate::jobs::Backoff;
use std::time::Duration;

/// A definition as it was said. What is missing although it must be there has been reported already.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) mark: Mark,
    pub(super) name: Option<At<String>>,
    pub(super) version: Option<At<i64>>,
    pub(super) description: Option<At<String>>,
    pub(super) identity: Identity,
    pub(super) deadline: Option<At<Duration>>,
    pub(super) steps: Option<Vec<DraftStep>>,
}

/// A step as it was said.
#[derive(Debug, Clone)]
pub(super) struct DraftStep {
    pub(super) mark: Mark,
    pub(super) name: Option<At<String>>,
    pub(super) kind: DraftKind,
    pub(super) handler: Option<At<String>>,
    pub(super) after: Vec<DraftEdge>,
    pub(super) join: Join,
    pub(super) queue: Option<At<String>>,
    pub(super) priority: Option<At<i64>>,
    pub(super) attempts: Option<At<i64>>,
    pub(super) backoff: Option<At<Backoff>>,
    pub(super) timeout: Option<At<Duration>>,
    pub(super) deadline: Option<At<Duration>>,
    pub(super) on_failure: Option<At<OnFailure>>,
    pub(super) concurrency: Option<At<i64>>,
    pub(super) events: Vec<At<Event>>,
}

/// What a step does, as it was said.
#[derive(Debug, Clone)]
pub(super) enum DraftKind {
    /// It could not be read, and has been reported.
    Unread,
    Task,
    /// Over the output of `source`, or the run's input.
    Map {
        source: Option<At<String>>,
        at: At<String>,
    },
    Decision,
    Sleep(At<Duration>),
    Signal(At<String>),
}

/// An edge as it was said.
#[derive(Debug, Clone)]
pub(super) struct DraftEdge {
    pub(super) step: At<String>,
    pub(super) on: On,
}

impl DraftStep {
    /// A step of which nothing is known but its place.
    pub(super) fn new(mark: Mark) -> Self {
        Self {
            mark,
            name: None,
            kind: DraftKind::Task,
            handler: None,
            after: Vec::new(),
            join: Join::default(),
            queue: None,
            priority: None,
            attempts: None,
            backoff: None,
            timeout: None,
            deadline: None,
            on_failure: None,
            concurrency: None,
            events: Vec::new(),
        }
    }

    /// Its name for messages, when it has one.
    pub(super) fn called(&self) -> Option<&str> {
        self.name.as_ref().map(|name| name.value.as_str())
    }

    /// Whether its failure counts as success.
    pub(super) fn continues(&self) -> bool {
        self.on_failure.as_ref().is_some_and(|on| on.value == OnFailure::Continue)
    }
}
