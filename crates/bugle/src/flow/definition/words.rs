//! Reading single values: texts, numbers, lengths of time, words of a list, and fields that nobody knows.

use super::fault::{At, Faults, Mark};
use super::nearest::nearest;
use super::node::{Node, Value, shorten};
use crate::span;
use std::time::Duration;

/// Reads values for one step after the other, and reports what does not fit.
pub(super) struct Words<'f> {
    faults: &'f mut Faults,
    /// The step that is being read.
    pub(super) step: Option<String>,
}

/// A word that stands for something.
pub(super) trait Word: Copy + 'static {
    fn word(self) -> &'static str;
}

impl<'f> Words<'f> {
    pub(super) fn new(faults: &'f mut Faults) -> Self {
        Self { faults, step: None }
    }

    pub(super) fn fault(&mut self, mark: Mark, fault: impl Into<String>, next: impl Into<String>) {
        self.faults.add(mark, self.step.as_deref(), fault, next);
    }

    /// Is it a map? Fields that are not `known` are reported.
    pub(super) fn is_map(&mut self, node: &Node, what: &str, known: &[&'static str]) -> bool {
        let Value::Map(entries) = &node.value else {
            let fault = format!("{what} is {}", node.describe());
            self.fault(node.mark, fault, format!("write the fields {}", known.join(", ")));
            return false;
        };
        for (key, _) in entries.iter().filter(|(key, _)| !known.contains(&key.value.as_str())) {
            let fault = format!("{what} has no field {:?}", shorten(&key.value));
            let next = match nearest(&key.value, known.iter().copied()) {
                Some(like) => format!("did you mean {like:?}?"),
                None => format!("it may have {}", known.join(", ")),
            };
            self.fault(key.mark, fault, next);
        }
        true
    }

    pub(super) fn text(&mut self, node: &Node, field: &str) -> Option<At<String>> {
        let text = node.as_text().map(|text| At::new(text.to_owned(), node.mark));
        if text.is_none() {
            let fault = format!("{field} is {}", node.describe());
            self.fault(node.mark, fault, "write a text, in quotes if it is not a plain word");
        }
        text
    }

    pub(super) fn number(&mut self, node: &Node, field: &str) -> Option<At<i64>> {
        let number = node.as_bare().and_then(|text| text.parse().ok());
        if number.is_none() {
            let fault = format!("{field} is {}", node.describe());
            self.fault(node.mark, fault, "write a whole number, without quotes");
        }
        number.map(|number| At::new(number, node.mark))
    }

    pub(super) fn fraction(&mut self, node: &Node, field: &str) -> Option<f64> {
        let number =
            node.as_bare().and_then(|text| text.parse().ok()).filter(|number: &f64| number.is_finite());
        if number.is_none() {
            let fault = format!("{field} is {}", node.describe());
            self.fault(node.mark, fault, "write a number from 0 to 1, such as 0.2");
        }
        number
    }

    pub(super) fn duration(&mut self, node: &Node, field: &str) -> Option<At<Duration>> {
        if let Some(Ok(length)) = node.as_text().map(span::parse) {
            return Some(At::new(length, node.mark));
        }
        let fault = format!("{field} is {}, which is no length of time", node.describe());
        self.fault(node.mark, fault, "write a number with its unit, such as 250ms, 30s, 5m, 2h or 7d");
        None
    }

    /// One of the words of a list.
    pub(super) fn one_of<W: Word>(&mut self, node: &Node, field: &str, all: &'static [W]) -> Option<W> {
        let text = node.as_text().unwrap_or_default();
        let found = all.iter().copied().find(|word| word.word() == text);
        if found.is_none() {
            let known: Vec<_> = all.iter().map(|word| word.word()).collect();
            let fault = format!("{field} is {}", node.describe());
            self.fault(node.mark, fault, format!("write one of {}", known.join(", ")));
        }
        found
    }
}
