//! A text as a tree of values that know where they stand, whether it was YAML or JSON.

use super::fault::{At, Faults, Mark};
use super::limits::STEP_NAME_BYTES_MAX;

/// A value of a text.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) mark: Mark,
    pub(super) value: Value,
}

/// What a value is.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// YAML without quotes: a text, unless something else is expected there.
    Plain(String),
    /// JSON's numbers, `true`, `false` and `null`: never a text.
    Literal(String),
    /// In quotes: a text.
    Text(String),
    List(Vec<Node>),
    Map(Vec<(At<String>, Node)>),
}

/// A text that is no YAML or no JSON at all: nothing after it can be read.
pub(super) struct Broken {
    pub(super) mark: Mark,
    pub(super) fault: String,
    pub(super) next: String,
}

impl Broken {
    pub(super) fn new(mark: Mark, fault: impl Into<String>, next: impl Into<String>) -> Self {
        Self { mark, fault: fault.into(), next: next.into() }
    }
}

impl Node {
    /// A map of these entries. A field that is given twice is a fault: readers of YAML do not agree on which one counts.
    pub(super) fn map(mark: Mark, entries: Vec<(At<String>, Node)>, faults: &mut Faults) -> Self {
        let mut unique: Vec<(At<String>, Self)> = Vec::with_capacity(entries.len());
        let mut seen = std::collections::HashSet::new();
        for (key, value) in entries {
            if seen.insert(key.value.clone()) {
                unique.push((key, value));
            } else {
                let fault = format!("the field {:?} is given twice", shorten(&key.value));
                faults.add(key.mark, None, fault, "keep one of them");
            }
        }
        Self { mark, value: Value::Map(unique) }
    }

    /// Nothing, which is as good as not being there.
    pub(super) fn is_null(&self) -> bool {
        match &self.value {
            Value::Plain(text) => matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"),
            Value::Literal(text) => text == "null",
            _ => false,
        }
    }

    /// The text, if it is one.
    pub(super) fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            Value::Plain(text) if !self.is_null() => Some(text),
            _ => None,
        }
    }

    /// What stands there without quotes.
    pub(super) fn as_bare(&self) -> Option<&str> {
        match &self.value {
            Value::Plain(text) | Value::Literal(text) => Some(text),
            _ => None,
        }
    }

    /// The value of a field of a map.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|(key, _)| key.value == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// How many values it is made of, itself included.
    pub(super) fn size(&self) -> usize {
        match &self.value {
            Value::List(items) => 1 + items.iter().map(Self::size).sum::<usize>(),
            Value::Map(entries) => 1 + entries.iter().map(|(_, value)| value.size()).sum::<usize>(),
            _ => 1,
        }
    }

    /// What it is, for a message.
    pub(super) fn describe(&self) -> String {
        match &self.value {
            _ if self.is_null() => "nothing".to_owned(),
            Value::Literal(text) => shorten(text),
            Value::Plain(text) if text.parse::<f64>().is_ok() => shorten(text),
            Value::Plain(text) | Value::Text(text) => format!("{:?}", shorten(text)),
            Value::List(items) => format!("a list of {}", items.len()),
            Value::Map(entries) => match entries.first() {
                Some((key, _)) => format!("a map with the field {:?}", shorten(&key.value)),
                None => "an empty map".to_owned(),
            },
        }
    }
}

/// The beginning of a text that may be long; a legal name is shown whole.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(STEP_NAME_BYTES_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
