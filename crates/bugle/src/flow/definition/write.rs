//! A definition as YAML for people: what goes without saying is left out.

use super::Definition;
use super::limits::{ATTEMPTS_DEFAULT, QUEUE_DEFAULT};
use super::step::{Edge, Identity, Join, On, OnFailure, Step, StepKind};
use crate::Priority;
use crate::jobs::Backoff;
use crate::span;

pub(super) fn yaml(definition: &Definition) -> String {
    let mut lines = vec![format!("name: {}", quoted(&definition.name))];
    lines.extend(definition.version.map(|version| format!("version: {version}")));
    lines.extend(definition.description.as_deref().map(|text| format!("description: {}", quoted(text))));
    if definition.identity != Identity::default() {
        lines.push(format!("identity: {}", definition.identity.as_str()));
    }
    lines.extend(definition.deadline.map(|length| format!("deadline: {}", span::exact(length))));
    lines.push("steps:".to_owned());
    for step in &definition.steps {
        for (n, field) in fields(step).into_iter().enumerate() {
            lines.push(format!("{}{field}", if n == 0 { "  - " } else { "    " }));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

fn fields(step: &Step) -> Vec<String> {
    let mut fields = vec![format!("name: {}", quoted(&step.name))];
    fields.extend(kind(step));
    fields.extend(after(step).map(|after| format!("after: {after}")));
    if step.join != Join::default() {
        fields.push(format!("join: {}", step.join.as_str()));
    }
    if step.queue != QUEUE_DEFAULT {
        fields.push(format!("queue: {}", quoted(&step.queue)));
    }
    if step.priority != Priority::default() {
        fields.push(format!("priority: {}", step.priority.lane()));
    }
    fields.extend(retry(step).map(|retry| format!("retry: {{ {retry} }}")));
    fields.extend(step.timeout.map(|length| format!("timeout: {}", span::exact(length))));
    fields.extend(step.deadline.map(|length| format!("deadline: {}", span::exact(length))));
    if step.on_failure != OnFailure::default() {
        fields.push(format!("on_failure: {}", step.on_failure.as_str()));
    }
    let event = |(on, queue): (&str, &str)| format!("{{ on: {on}, queue: {} }}", quoted(queue));
    let events: Vec<_> =
        step.events.iter().map(|given| event((given.on.as_str(), given.queue.as_str()))).collect();
    if !events.is_empty() {
        fields.push(format!("events: [{}]", events.join(", ")));
    }
    fields
}

fn kind(step: &Step) -> Vec<String> {
    let handler = step.kind.handler().filter(|handler| *handler != step.name);
    let handler = handler.map(|handler| format!("handler: {}", quoted(handler)));
    match &step.kind {
        StepKind::Task { .. } => handler.into_iter().collect(),
        StepKind::Map { over, concurrency, .. } => {
            let mut said = match (&over.step, over.at.as_str()) {
                (Some(step), "") => format!("step: {}", quoted(step)),
                (Some(step), at) => format!("step: {}, at: {}", quoted(step), quoted(at)),
                (None, at) => format!("input: {}", quoted(at)),
            };
            if let Some(most) = concurrency {
                said = format!("{said}, concurrency: {most}");
            }
            std::iter::once(format!("map: {{ {said} }}")).chain(handler).collect()
        }
        StepKind::Decision { handler } => vec![format!("decision: {}", quoted(handler))],
        StepKind::Sleep { length } => vec![format!("sleep: {}", span::exact(*length))],
        StepKind::Signal { key, timeout } => {
            let timeout = timeout.map(|length| format!(", timeout: {}", span::exact(length)));
            vec![format!("signal: {{ key: {}{} }}", quoted(key), timeout.unwrap_or_default())]
        }
    }
}

/// The parents, without the one that a map has by itself.
fn after(step: &Step) -> Option<String> {
    let source = match &step.kind {
        StepKind::Map { over, .. } => over.step.as_deref(),
        _ => None,
    };
    let goes_without_saying = |edge: &&Edge| edge.on == On::Success && source == Some(edge.step.as_str());
    let edges: Vec<_> = step.after.iter().filter(|edge| !goes_without_saying(edge)).collect();
    let written: Vec<_> = edges
        .iter()
        .map(|edge| match edge.on {
            On::Success => quoted(&edge.step),
            on => format!("{{ step: {}, on: {} }}", quoted(&edge.step), on.as_str()),
        })
        .collect();
    match (edges.as_slice(), written.as_slice()) {
        ([], _) => None,
        ([only], [written]) if only.on == On::Success => Some(written.clone()),
        _ => Some(format!("[{}]", written.join(", "))),
    }
}

fn retry(step: &Step) -> Option<String> {
    let mut said = Vec::new();
    let is_table = matches!(step.backoff, Some(Backoff::Table(_)));
    if step.attempts != ATTEMPTS_DEFAULT && !is_table {
        said.push(format!("attempts: {}", step.attempts));
    }
    match &step.backoff {
        Some(Backoff::Table(waits)) => {
            let waits: Vec<_> = waits.iter().skip(1).map(|wait| span::exact(*wait)).collect();
            said.push(format!("backoff: [{}]", waits.join(", ")));
        }
        Some(rule @ Backoff::Exponential { base, max, jitter }) if *rule != Backoff::default() => {
            let (base, max) = (span::exact(*base), span::exact(*max));
            said.push(format!("backoff: {{ base: {base}, max: {max}, jitter: {jitter} }}"));
        }
        _ => {}
    }
    (!said.is_empty()).then(|| said.join(", "))
}

/// A text as YAML, in quotes unless every reader takes it for a text without.
fn quoted(text: &str) -> String {
    const OTHER: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '/'));
    if begins_well && text.chars().all(plain) && !OTHER.contains(&text.to_lowercase().as_str()) {
        return text.to_owned();
    }
    // The escapes of JSON are escapes of YAML.
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::definition::EventOn;
    use std::time::Duration;

    #[test]
    fn what_goes_without_saying_is_left_out() {
        let written = "\
name: \"an order: #1\"
version: 2
description: \"two\\nlines\"
identity: strict
deadline: 36h
steps:
  - name: first
  - name: \"null\"
    handler: \"no\"
    after: first
    queue: \"7\"
    priority: 0
    retry: { attempts: 2, backoff: { base: 1500ms, max: 1h, jitter: 0 } }
    timeout: 90s
    deadline: 1d
    on_failure: continue
    events: [{ on: failure, queue: \"On\" }, { on: always, queue: audit }]
  - name: each
    map: { step: first, at: /a/b, concurrency: 4 }
    handler: one
    after: [\"null\"]
    retry: { backoff: [0s, 1m] }
  - name: whole
    map: { input: \"\" }
  - name: pick
    decision: pick
    after: [first, { step: each, on: always }]
    join: any
  - name: nap
    sleep: 1001ms
    after: pick
  - name: heard
    signal: { key: \"k:{run}\", timeout: 1ms }
    after: pick
";
        let definition = Definition::parse_yaml(written).unwrap();
        // A list of one is written as the one.
        assert_eq!(yaml(&definition), written.replace("after: [\"null\"]", "after: \"null\""));
        assert_eq!(definition.steps()[1].events[0].on, EventOn::Failure);
        assert_eq!(definition.steps()[1].timeout, Some(Duration::from_secs(90)));
        assert_eq!(Definition::parse_yaml(&yaml(&definition)).unwrap(), definition);
    }
}
