//! A definition as people write it, from a tree of values.

use super::draft::{Draft, DraftEdge, DraftKind, DraftStep};
use super::fault::{At, Faults, Mark};
use super::limits::STEPS_MAX;
use super::node::{Node, Value, shorten};
use super::step::{Event, EventOn, Identity, Join, On, OnFailure};
use super::words::Words;
use crate::jobs::Backoff;
use std::time::Duration;

const DEFINITION: &[&str] = &["name", "version", "description", "identity", "deadline", "steps"];
const STEP: &[&str] = &[
    "name",
    "handler",
    "map",
    "decision",
    "sleep",
    "signal",
    "after",
    "join",
    "queue",
    "priority",
    "retry",
    "timeout",
    "deadline",
    "on_failure",
    "events",
];
/// The fields that make a step something else than a task.
const KINDS: [&str; 4] = ["map", "decision", "sleep", "signal"];

/// Reads what was said, and reports what cannot be understood.
pub(super) fn read(root: &Node, faults: &mut Faults) -> Draft {
    let mut words = Words::new(faults);
    let mut draft = Draft {
        mark: root.mark,
        name: None,
        version: None,
        description: None,
        identity: Identity::default(),
        deadline: None,
        steps: None,
    };
    if !words.is_map(root, "a definition", DEFINITION) {
        return draft;
    }
    let given = |name: &str| root.field(name).filter(|node| !node.is_null());
    match given("name") {
        Some(node) => draft.name = words.text(node, "name"),
        None => words.fault(root.mark, "the definition has no name", "add name: and a name for it"),
    }
    draft.version = given("version").and_then(|node| words.number(node, "version"));
    draft.description = given("description").and_then(|node| words.text(node, "description"));
    let identity = given("identity");
    draft.identity =
        identity.and_then(|node| words.one_of(node, "identity", Identity::ALL)).unwrap_or_default();
    draft.deadline = given("deadline").and_then(|node| words.duration(node, "deadline"));
    match given("steps").map(|node| (node, &node.value)) {
        // One more than allowed is enough to know that there are too many.
        Some((_, Value::List(items))) => {
            draft.steps = Some(items.iter().take(STEPS_MAX + 1).map(|item| step(item, &mut words)).collect());
        }
        Some((node, _)) => {
            let fault = format!("steps is {}", node.describe());
            words.fault(node.mark, fault, "write a list, each step of it beginning with - name:");
        }
        None => {
            words.fault(root.mark, "the definition has no steps", "add steps: and a list of at least one");
        }
    }
    draft
}

fn step(node: &Node, words: &mut Words<'_>) -> DraftStep {
    let mut step = DraftStep::new(node.mark);
    words.step = node.field("name").and_then(Node::as_text).map(str::to_owned);
    if !words.is_map(node, "a step", STEP) {
        step.kind = DraftKind::Unread;
        return step;
    }
    let given = |name: &str| node.field(name).filter(|node| !node.is_null());
    match given("name") {
        Some(name) => step.name = words.text(name, "name"),
        None => words.fault(node.mark, "a step has no name", "add name: and a name that no other step has"),
    }
    step.handler = given("handler").and_then(|node| words.text(node, "handler"));
    step.timeout = given("timeout").and_then(|node| words.duration(node, "timeout"));
    kind(node, &mut step, words);
    step.after = given("after").map(|node| after(node, words)).unwrap_or_default();
    step.join = given("join").and_then(|node| words.one_of(node, "join", Join::ALL)).unwrap_or_default();
    step.queue = given("queue").and_then(|node| words.text(node, "queue"));
    step.priority = given("priority").and_then(|node| words.number(node, "priority"));
    if let Some(node) = given("retry") {
        retry(node, &mut step, words);
    }
    step.deadline = given("deadline").and_then(|node| words.duration(node, "deadline"));
    step.on_failure = given("on_failure").and_then(|node| {
        words.one_of(node, "on_failure", OnFailure::ALL).map(|value| At::new(value, node.mark))
    });
    step.events = given("events").map(|node| events(node, words)).unwrap_or_default();
    words.step = None;
    step
}

/// What the step does: said by which of the fields of [`KINDS`] it has.
fn kind(node: &Node, step: &mut DraftStep, words: &mut Words<'_>) {
    let mut said = KINDS.iter().filter_map(|name| node.field(name).map(|value| (*name, value)));
    let Some((name, value)) = said.next() else { return };
    if let Some((second, value)) = said.next() {
        let fault = format!("has both {name} and {second}");
        words.fault(value.mark, fault, "a step does one thing: keep one of them, and make the other a step");
        step.kind = DraftKind::Unread;
        return;
    }
    let kind = match name {
        "map" => map(value, step, words),
        "decision" => decision(value, step, words),
        "sleep" => words.duration(value, "sleep").map(DraftKind::Sleep),
        _ => signal(value, step, words),
    };
    step.kind = kind.unwrap_or(DraftKind::Unread);
}

fn map(node: &Node, step: &mut DraftStep, words: &mut Words<'_>) -> Option<DraftKind> {
    if !words.is_map(node, "map", &["step", "at", "input", "concurrency"]) {
        return None;
    }
    let concurrency = node.field("concurrency").filter(|node| !node.is_null());
    step.concurrency = concurrency.and_then(|node| words.number(node, "concurrency"));
    let next =
        "write { step: NAME, at: /POINTER } for a step's output, or { input: /POINTER } for the run's input";
    match (node.field("step"), node.field("input"), node.field("at")) {
        (Some(source), None, at) => {
            let whole = At::new(String::new(), source.mark);
            let at = at.filter(|at| !at.is_null()).map_or(Some(whole), |at| words.text(at, "at"))?;
            Some(DraftKind::Map { source: Some(words.text(source, "map.step")?), at })
        }
        (None, Some(input), None) if input.is_null() => {
            Some(DraftKind::Map { source: None, at: At::new(String::new(), input.mark) })
        }
        (None, Some(input), None) => {
            Some(DraftKind::Map { source: None, at: words.text(input, "map.input")? })
        }
        (None, None, _) => {
            words.fault(node.mark, "map does not say over what", next);
            None
        }
        _ => {
            words.fault(node.mark, "map has both step and input, or at beside input", next);
            None
        }
    }
}

/// `decision: HANDLER`, or nothing after it for a handler with the step's name.
fn decision(node: &Node, step: &mut DraftStep, words: &mut Words<'_>) -> Option<DraftKind> {
    if !node.is_null() {
        let handler = words.text(node, "decision")?;
        if let Some(other) = &step.handler {
            let fault =
                format!("has a handler twice, {:?} and {:?}", shorten(&other.value), shorten(&handler.value));
            words.fault(other.mark, fault, "leave out handler");
        }
        step.handler = Some(handler);
    }
    Some(DraftKind::Decision)
}

fn signal(node: &Node, step: &mut DraftStep, words: &mut Words<'_>) -> Option<DraftKind> {
    if !words.is_map(node, "signal", &["key", "timeout"]) {
        return None;
    }
    if let Some(timeout) = node.field("timeout").filter(|node| !node.is_null()) {
        if step.timeout.is_some() {
            words.fault(timeout.mark, "has a timeout twice", "keep the one inside signal");
        }
        step.timeout = words.duration(timeout, "signal.timeout");
    }
    let Some(key) = node.field("key").filter(|node| !node.is_null()) else {
        words.fault(node.mark, "signal has no key", "add key:, such as { key: \"approval:{run}\" }");
        return None;
    };
    words.text(key, "signal.key").map(DraftKind::Signal)
}

/// One name, one `{ step, on }`, or a list of them.
fn after(node: &Node, words: &mut Words<'_>) -> Vec<DraftEdge> {
    match &node.value {
        Value::List(items) => items.iter().filter_map(|item| edge(item, words)).collect(),
        _ => edge(node, words).into_iter().collect(),
    }
}

fn edge(node: &Node, words: &mut Words<'_>) -> Option<DraftEdge> {
    if !matches!(node.value, Value::Map(_)) {
        return words.text(node, "after").map(|step| DraftEdge { step, on: On::default() });
    }
    words.is_map(node, "after", &["step", "on"]);
    let Some(parent) = node.field("step") else {
        words.fault(
            node.mark,
            "an edge does not say which step it comes from",
            "write { step: NAME, on: failure }",
        );
        return None;
    };
    let on = match node.field("on") {
        Some(on) => words.one_of(on, "on", On::ALL)?,
        None => On::default(),
    };
    words.text(parent, "after").map(|step| DraftEdge { step, on })
}

fn retry(node: &Node, step: &mut DraftStep, words: &mut Words<'_>) {
    if !words.is_map(node, "retry", &["attempts", "backoff"]) {
        return;
    }
    let given = |name: &str| node.field(name).filter(|node| !node.is_null());
    step.attempts = given("attempts").and_then(|node| words.number(node, "attempts"));
    let Some(node) = given("backoff") else { return };
    let rule = match &node.value {
        Value::List(waits) => {
            let waits: Option<Vec<_>> =
                waits.iter().map(|wait| Some(words.duration(wait, "backoff")?.value)).collect();
            // The rule counts the wait before the first attempt as well, and a step has none.
            waits.map(|waits| Backoff::table(std::iter::once(Duration::ZERO).chain(waits)))
        }
        _ => exponential(node, words),
    };
    step.backoff = rule.map(|rule| At::new(rule, node.mark));
}

fn exponential(node: &Node, words: &mut Words<'_>) -> Option<Backoff> {
    if !words.is_map(node, "backoff", &["base", "max", "jitter"]) {
        return None;
    }
    let Backoff::Exponential { base, max, jitter } = Backoff::default() else { return None };
    let mut length = |name: &str, default: Duration| match node.field(name) {
        Some(value) => words.duration(value, name).map(|length| length.value),
        None => Some(default),
    };
    let (base, max) = (length("base", base)?, length("max", max)?);
    let jitter = match node.field("jitter") {
        Some(value) => words.fraction(value, "jitter")?,
        None => jitter,
    };
    Some(Backoff::Exponential { base, max, jitter })
}

/// One `{ on, queue }` or a list of them.
fn events(node: &Node, words: &mut Words<'_>) -> Vec<At<Event>> {
    match &node.value {
        Value::List(items) => items.iter().filter_map(|item| event(item, words)).collect(),
        _ => event(node, words).into_iter().collect(),
    }
}

fn event(node: &Node, words: &mut Words<'_>) -> Option<At<Event>> {
    if !words.is_map(node, "an event", &["on", "queue"]) {
        return None;
    }
    for field in ["on", "queue"].into_iter().filter(|field| node.field(field).is_none()) {
        let fault = format!("an event has no {field}");
        words.fault(node.mark, fault, "write { on: success, queue: NAME }");
    }
    let on = node.field("on").and_then(|on| words.one_of(on, "on", EventOn::ALL));
    let queue = node.field("queue").and_then(|queue| words.text(queue, "queue"));
    Some(At::new(Event { on: on?, queue: queue?.value }, node.mark))
}

/// Does it look like the canonical form, in which steps have numbers?
pub(super) fn is_canonical(root: &Node) -> bool {
    let steps = root.field("steps").map(|steps| &steps.value);
    matches!(steps, Some(Value::List(items)) if items.first().is_some_and(|step| step.field("no").is_some()))
}

/// Where a text begins.
pub(super) const BEGIN: Mark = Mark::Text { line: 1, column: 1 };
