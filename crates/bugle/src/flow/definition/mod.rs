//! What a workflow is: named steps and the edges between them, checked as a whole before anything is stored.
//!
//! A definition is read from YAML or JSON or built in Rust; whichever way, it is held to the same rules, and all that is wrong with it is
//! said at once. `docs/flow-definitions.md` explains every field.
//!
//! ```
//! use bugle::flow::definition::{Definition, Identity, On, Step};
//!
//! let read = Definition::parse_yaml("
//! name: order
//! identity: key
//! steps:
//!   - name: reserve
//!   - { name: pay, after: reserve }
//!   - { name: refund, after: [ { step: pay, on: failure } ] }
//! ")?;
//! let built = Definition::builder("order")
//!     .identity(Identity::Key)
//!     .step(Step::task("reserve"))
//!     .step(Step::task("pay").after("reserve"))
//!     .step(Step::task("refund").after_end("pay", On::Failure))
//!     .build()?;
//! assert_eq!(read, built);
//!
//! let error = Definition::parse_yaml("name: order\nsteps: [ { name: pay, after: reserv }, { name: reserve } ]").unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     r#"line 2, column 30: step "pay": after names "reserv", and there is no such step; did you mean "reserve"?"#
//! );
//! # Ok::<(), bugle::flow::definition::Error>(())
//! ```

mod builder;
mod canonical;
mod check;
mod check_step;
mod draft;
mod draw;
mod fault;
mod graph;
mod json;
mod lanes;
mod limits;
mod nearest;
mod node;
mod reach;
mod read;
mod step;
mod words;
mod write;
mod yaml;

#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod random;
#[cfg(test)]
mod tests;

pub use builder::{Builder, NewStep};
pub use fault::{Error, Fault};
pub use limits::{
    ATTEMPTS_DEFAULT, CONCURRENCY_MAX, DEFINITION_BYTES_MAX, DESCRIPTION_BYTES_MAX, EDGES_MAX, EVENTS_MAX,
    POINTER_BYTES_MAX, QUEUE_DEFAULT, STEP_NAME_BYTES_MAX, STEPS_MAX, VERSION_MAX,
};
pub use step::{Edge, Event, EventOn, Identity, Join, On, OnFailure, Over, Step, StepKind};

use canonical::Canonical;
use fault::Faults;
use node::{Broken, Node};
use std::time::Duration;

/// A checked definition: a name, and 1 to 1,000 steps in an order in which each comes after its parents.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    name: String,
    version: Option<u32>,
    description: Option<String>,
    identity: Identity,
    deadline: Option<Duration>,
    steps: Vec<Step>,
    json: serde_json::Value,
    hash: [u8; 32],
}

impl Definition {
    /// Begins one in Rust.
    pub fn builder(name: impl Into<String>) -> Builder {
        Builder::new(name)
    }

    /// Reads one from YAML, or the canonical form.
    pub fn parse_yaml(text: &str) -> Result<Self, Error> {
        parse(text, yaml::read)
    }

    /// Reads one from JSON: the same fields as in YAML, or the canonical form.
    pub fn parse_json(text: &str) -> Result<Self, Error> {
        parse(text, json::read)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its version; `None`: whichever comes next.
    #[must_use]
    pub fn version(&self) -> Option<u32> {
        self.version
    }

    /// What it is for.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// How a start is recognised as a repetition.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// How long a run may take.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Its steps. Each comes after its parents, and otherwise they stand as they were written.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The step of this name.
    #[must_use]
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.name == name)
    }

    /// The canonical form, as the database stores it: every default written out, each step with its number. [`Definition::parse_json`] reads
    /// it again.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        self.json.clone()
    }

    /// SHA-256 of the canonical form without the version: equal for definitions that mean the same.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        self.hash
    }

    /// It in YAML, for people: defaults are left out. [`Definition::parse_yaml`] reads it again.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        write::yaml(self)
    }

    /// It as a drawing of at most 100 columns for a terminal: a line for each step, its edges to the left of it.
    #[must_use]
    pub fn draw(&self) -> String {
        self.draw_with(|_| None)
    }

    /// The same, with a word about some of the steps, such as their states in a run.
    #[must_use]
    pub fn draw_with(&self, label: impl Fn(&Step) -> Option<String>) -> String {
        draw::draw(self, &label)
    }
}

fn parse(text: &str, read: fn(&str, &mut Faults) -> Result<Node, Broken>) -> Result<Definition, Error> {
    // A mark of the byte order, as some editors write it, is no part of the text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut faults = Faults::default();
    let stop = |broken: Broken, mut faults: Faults| {
        faults.add(broken.mark, None, broken.fault, broken.next);
        Err(faults.into_error())
    };
    if text.len() > DEFINITION_BYTES_MAX {
        let fault = format!("the text is {} bytes long", text.len());
        let next = format!("use at most {DEFINITION_BYTES_MAX} bytes: fewer steps, or shorter texts");
        return stop(Broken::new(read::BEGIN, fault, next), faults);
    }
    let root = match read(text, &mut faults) {
        Ok(root) => root,
        Err(broken) => return stop(broken, faults),
    };
    let draft = if read::is_canonical(&root) {
        match serde_json::from_str::<Canonical>(text) {
            Ok(canonical) => canonical.into_draft(read::BEGIN, &mut faults),
            Err(error) => return stop(json::misfit(&error), faults),
        }
    } else {
        read::read(&root, &mut faults)
    };
    check::check(&draft, faults)
}
