//! JSON as a tree of values.
//!
//! Almost every JSON text is YAML, but a reader of YAML explains a missing comma badly, and does not know all escapes of JSON.

use super::fault::{At, Faults, Mark};
use super::limits::DEPTH_MAX;
use super::node::{Broken, Node, Value};
use super::yaml::too_deep;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// Reads `text`.
pub(super) fn read(text: &str, faults: &mut Faults) -> Result<Node, Broken> {
    let root: &RawValue = serde_json::from_str(text).map_err(|error| broken(&error))?;
    let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    Reader { text, lines, faults }.node(root, 0)
}

/// What serde found, at its place.
fn broken(error: &serde_json::Error) -> Broken {
    let next = "check commas, quotes and brackets there and in the line before";
    explain(error, "this is no JSON", next)
}

/// A canonical form that does not have its fields.
pub(super) fn misfit(error: &serde_json::Error) -> Broken {
    let next =
        "steps without numbers are read as people write them; see docs/flow-definitions.md for both forms";
    explain(error, "steps have numbers, and this is not the canonical form", next)
}

fn explain(error: &serde_json::Error, what: &str, next: &str) -> Broken {
    let mark = Mark::Text { line: error.line().max(1), column: error.column().max(1) };
    let said = error.to_string();
    // The place is said in another form already.
    let said = said.rfind(" at line ").map_or(said.as_str(), |end| &said[..end]);
    Broken::new(mark, format!("{what}: {said}"), next)
}

struct Reader<'a, 'f> {
    text: &'a str,
    /// Where each line begins.
    lines: Vec<usize>,
    faults: &'f mut Faults,
}

impl<'a> Reader<'a, '_> {
    /// The text is known to be JSON: each part of it is taken apart where it stands, and its address tells the place.
    fn node(&mut self, raw: &'a RawValue, depth: usize) -> Result<Node, Broken> {
        let mark = self.place(raw);
        if depth > DEPTH_MAX {
            return Err(too_deep(mark));
        }
        let json = raw.get();
        let value = match json.as_bytes().first() {
            Some(b'{') => {
                let Entries(entries) = parse(json)?;
                let mut read = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    let name = At::new(parse::<String>(key.get())?, self.place(key));
                    read.push((name, self.node(value, depth + 1)?));
                }
                return Ok(Node::map(mark, read, self.faults));
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = parse(json)?;
                let items = items.into_iter().map(|item| self.node(item, depth + 1));
                Value::List(items.collect::<Result<_, _>>()?)
            }
            Some(b'"') => Value::Text(parse(json)?),
            _ => Value::Literal(json.to_owned()),
        };
        Ok(Node { mark, value })
    }

    /// Line and column, the latter in bytes: a file may be one long line.
    fn place(&self, raw: &RawValue) -> Mark {
        let at = raw.get().as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        let line = self.lines.partition_point(|begin| *begin <= at);
        let begin = self.lines.get(line.saturating_sub(1)).copied().unwrap_or(0);
        Mark::Text { line, column: at - begin + 1 }
    }
}

fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, Broken> {
    serde_json::from_str(json).map_err(|error| broken(&error))
}

/// The members of an object in their order, doubles included.
struct Entries<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_know_their_places() {
        let text = "{\n  \"a\": [1, \"x\\u00e9\\ud83d\\ude00\"],\n  \"b\": {\"c\": null}}";
        let root = read(text, &mut Faults::default()).ok().unwrap();
        let Value::List(items) = &root.field("a").unwrap().value else { panic!("no list") };
        assert_eq!(items[1].as_text(), Some("xé😀"));
        assert_eq!(items[1].mark, Mark::Text { line: 2, column: 12 });
        let inner = root.field("b").unwrap();
        assert_eq!(inner.mark, Mark::Text { line: 3, column: 8 });
        assert!(inner.field("c").unwrap().is_null());
    }

    #[test]
    fn broken_json_is_explained_in_words_of_json() {
        let broken = read("{\"a\": 1\n \"b\": 2}", &mut Faults::default()).err().unwrap();
        assert_eq!(broken.fault, "this is no JSON: expected `,` or `}`");
        assert_eq!(broken.mark, Mark::Text { line: 2, column: 2 });
        assert!(read(&"[".repeat(100), &mut Faults::default()).is_err());
        let deep = format!("{}1{}", "[".repeat(50), "]".repeat(50));
        assert!(read(&deep, &mut Faults::default()).is_err_and(|broken| broken.fault.contains("nested")));
    }

    #[test]
    fn a_field_that_is_given_twice_is_a_fault() {
        let mut faults = Faults::default();
        assert!(read(r#"{"a": 1, "a": 2}"#, &mut faults).is_ok());
        assert!(
            faults.into_error().to_string().starts_with("line 1, column 10: the field \"a\" is given twice")
        );
    }
}
