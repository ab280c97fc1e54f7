//! Definitions written in Rust.

use super::draft::{Draft, DraftEdge, DraftKind, DraftStep};
use super::fault::{At, Error, Faults, Mark};
use super::step::{Edge, Event, EventOn, Identity, Join, On, OnFailure, Over, Step};
use super::{Definition, check};
use crate::Priority;
use crate::jobs::Backoff;
use std::time::Duration;

/// A definition in the making; [`Builder::build`] checks it. Made by [`Definition::builder`].
#[derive(Debug, Clone)]
#[must_use = "it does nothing until `build`"]
pub struct Builder {
    name: String,
    version: Option<u32>,
    description: Option<String>,
    identity: Identity,
    deadline: Option<Duration>,
    steps: Vec<NewStep>,
}

impl Builder {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: None,
            description: None,
            identity: Identity::default(),
            deadline: None,
            steps: Vec::new(),
        }
    }

    /// The version. Left out: the next one, or the newest when that is the same definition.
    pub fn version(mut self, version: u32) -> Self {
        self.version = Some(version);
        self
    }

    /// What it is for, for people.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// How a start is recognised as a repetition. Left out: never.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = identity;
        self
    }

    /// How long a run may take.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// One more step.
    pub fn step(mut self, step: NewStep) -> Self {
        self.steps.push(step);
        self
    }

    /// More steps.
    pub fn steps(mut self, steps: impl IntoIterator<Item = NewStep>) -> Self {
        self.steps.extend(steps);
        self
    }

    /// The definition, or all that is wrong with it.
    pub fn build(self) -> Result<Definition, Error> {
        check::check(&self.into_draft(), Faults::default())
    }

    pub(super) fn into_draft(self) -> Draft {
        let mark = Mark::Built(0);
        let steps = self.steps.into_iter().enumerate();
        Draft {
            mark,
            name: Some(At::new(self.name, mark)),
            version: self.version.map(|version| At::new(version.into(), mark)),
            description: self.description.map(|text| At::new(text, mark)),
            identity: self.identity,
            deadline: self.deadline.map(|length| At::new(length, mark)),
            steps: Some(steps.map(|(n, step)| step.into_draft(Mark::Built(n + 1))).collect()),
        }
    }
}

/// A step in the making, for [`Builder::step`]. Made by [`Step::task`], [`Step::map_output`], [`Step::map_input`], [`Step::decision`],
/// [`Step::sleep`] and [`Step::signal`].
#[derive(Debug, Clone)]
#[must_use = "it does nothing until it is given to a builder"]
pub struct NewStep {
    name: String,
    kind: NewKind,
    handler: Option<String>,
    after: Vec<Edge>,
    join: Join,
    queue: Option<String>,
    priority: Option<Priority>,
    attempts: Option<u16>,
    backoff: Option<Backoff>,
    timeout: Option<Duration>,
    deadline: Option<Duration>,
    on_failure: Option<OnFailure>,
    concurrency: Option<u32>,
    events: Vec<Event>,
}

#[derive(Debug, Clone)]
enum NewKind {
    Task,
    Map(Over),
    Decision,
    Sleep(Duration),
    Signal(String),
}

impl Step {
    /// A step whose handler a worker runs.
    pub fn task(name: impl Into<String>) -> NewStep {
        NewStep::new(name, NewKind::Task)
    }

    /// A step whose handler is run once for each element of a list in the output of `step`, which becomes a parent if it is none yet.
    /// `at` is a JSON pointer, empty for the whole output.
    pub fn map_output(name: impl Into<String>, step: impl Into<String>, at: impl Into<String>) -> NewStep {
        NewStep::new(name, NewKind::Map(Over { step: Some(step.into()), at: at.into() }))
    }

    /// A step whose handler is run once for each element of a list in the run's input. `at` is a JSON pointer, empty for the whole input.
    pub fn map_input(name: impl Into<String>, at: impl Into<String>) -> NewStep {
        NewStep::new(name, NewKind::Map(Over { step: None, at: at.into() }))
    }

    /// A step whose handler says which of its children run.
    pub fn decision(name: impl Into<String>) -> NewStep {
        NewStep::new(name, NewKind::Decision)
    }

    /// A step that does nothing for a while.
    pub fn sleep(name: impl Into<String>, length: Duration) -> NewStep {
        NewStep::new(name, NewKind::Sleep(length))
    }

    /// A step that waits for a signal. In its key `{run}` stands for the run's number.
    pub fn signal(name: impl Into<String>, key: impl Into<String>) -> NewStep {
        NewStep::new(name, NewKind::Signal(key.into()))
    }
}

impl NewStep {
    fn new(name: impl Into<String>, kind: NewKind) -> Self {
        Self {
            name: name.into(),
            kind,
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

    /// The name that workers know its handler by. Left out: the step's name.
    pub fn handler(mut self, handler: impl Into<String>) -> Self {
        self.handler = Some(handler.into());
        self
    }

    /// Runs when `parent` has succeeded.
    pub fn after(self, parent: impl Into<String>) -> Self {
        self.after_end(parent, On::Success)
    }

    /// Runs when `parent` has ended in this way.
    pub fn after_end(mut self, parent: impl Into<String>, on: On) -> Self {
        self.after.push(Edge { step: parent.into(), on });
        self
    }

    /// How many of its edges must be satisfied. Left out: all.
    pub fn join(mut self, join: Join) -> Self {
        self.join = join;
        self
    }

    /// The queue that its workers claim from. Left out: `steps`.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Which of the four lanes of the queue it goes to.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// How often it is tried. Left out: 5, or as often as its backoff says.
    pub fn attempts(mut self, attempts: u16) -> Self {
        self.attempts = Some(attempts);
        self
    }

    /// How long it waits between two attempts. A table begins with nought, as there is no wait before the first one.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(backoff);
        self
    }

    /// How long one attempt may take; of a signal, how long it is waited for.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long it may take from being ready to its end, all attempts together.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// What its failure means to the others. Left out: [`OnFailure::Stop`].
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = Some(on_failure);
        self
    }

    /// Most elements of a map at once.
    pub fn concurrency(mut self, most: u32) -> Self {
        self.concurrency = Some(most);
        self
    }

    /// Writes a message to `queue` when this has become of the step.
    pub fn event(mut self, on: EventOn, queue: impl Into<String>) -> Self {
        self.events.push(Event { on, queue: queue.into() });
        self
    }

    pub(super) fn into_draft(self, mark: Mark) -> DraftStep {
        let kind = match self.kind {
            NewKind::Task => DraftKind::Task,
            NewKind::Decision => DraftKind::Decision,
            NewKind::Sleep(length) => DraftKind::Sleep(At::new(length, mark)),
            NewKind::Signal(key) => DraftKind::Signal(At::new(key, mark)),
            NewKind::Map(over) => DraftKind::Map {
                source: over.step.map(|step| At::new(step, mark)),
                at: At::new(over.at, mark),
            },
        };
        let edge = |edge: Edge| DraftEdge { step: At::new(edge.step, mark), on: edge.on };
        DraftStep {
            mark,
            name: Some(At::new(self.name, mark)),
            kind,
            handler: self.handler.map(|handler| At::new(handler, mark)),
            after: self.after.into_iter().map(edge).collect(),
            join: self.join,
            queue: self.queue.map(|queue| At::new(queue, mark)),
            priority: self.priority.map(|priority| At::new(priority.lane().into(), mark)),
            attempts: self.attempts.map(|attempts| At::new(attempts.into(), mark)),
            backoff: self.backoff.map(|backoff| At::new(backoff, mark)),
            timeout: self.timeout.map(|timeout| At::new(timeout, mark)),
            deadline: self.deadline.map(|deadline| At::new(deadline, mark)),
            on_failure: self.on_failure.map(|on_failure| At::new(on_failure, mark)),
            concurrency: self.concurrency.map(|most| At::new(most.into(), mark)),
            events: self.events.into_iter().map(|event| At::new(event, mark)).collect(),
        }
    }
}
