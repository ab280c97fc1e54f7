//! YAML as a tree of values.

use super::fault::{At, Faults, Mark};
use super::limits::{DEPTH_MAX, VALUES_MAX};
use super::node::{Broken, Node, Value};
use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};
use std::collections::HashMap;

/// Reads the one document of `text`.
pub(super) fn read(text: &str, faults: &mut Faults) -> Result<Node, Broken> {
    Reader { parser: Parser::new_from_str(text), anchors: HashMap::new(), values: 0, faults }.document()
}

struct Reader<'a, 'f> {
    parser: Parser<'a, StrInput<'a>>,
    /// What aliases may repeat.
    anchors: HashMap<usize, Node>,
    /// How many values there are so far.
    values: usize,
    faults: &'f mut Faults,
}

impl<'a> Reader<'a, '_> {
    fn document(&mut self) -> Result<Node, Broken> {
        let empty = |mark| Broken::new(mark, "the text is empty", "write at least a name and one step");
        loop {
            let (event, mark) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
                Event::StreamEnd => return Err(empty(mark)),
                event => {
                    let root = self.node(event, mark, 0)?;
                    self.end()?;
                    return if root.is_null() { Err(empty(mark)) } else { Ok(root) };
                }
            }
        }
    }

    /// Nothing may follow the document.
    fn end(&mut self) -> Result<(), Broken> {
        loop {
            match self.next()? {
                (Event::DocumentEnd | Event::Nothing, _) => {}
                (Event::StreamEnd, _) => return Ok(()),
                (_, mark) => {
                    let next = "write each definition into a text of its own";
                    return Err(Broken::new(mark, "a second document begins here", next));
                }
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Mark), Broken> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, mark_of(span))),
            Some(Err(error)) => {
                let at = error.marker();
                let mark = Mark::Text { line: at.line(), column: at.col() + 1 };
                let next = "check the indentation and the punctuation there and in the line before";
                Err(Broken::new(mark, format!("this is no YAML: {}", error.info()), next))
            }
            None => Ok((Event::StreamEnd, Mark::Text { line: 1, column: 1 })),
        }
    }

    fn node(&mut self, event: Event<'a>, mark: Mark, depth: usize) -> Result<Node, Broken> {
        self.count(1, mark)?;
        if depth > DEPTH_MAX {
            return Err(too_deep(mark));
        }
        let (node, anchor) = match event {
            Event::Alias(anchor) => return self.repeat(anchor, mark),
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.is_some(), mark);
                let text = text.into_owned();
                let value = if style == ScalarStyle::Plain { Value::Plain(text) } else { Value::Text(text) };
                (Node { mark, value }, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), mark);
                (self.list(mark, depth)?, anchor)
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), mark);
                (self.map(mark, depth)?, anchor)
            }
            _ => {
                return Err(Broken::new(
                    mark,
                    "a value is missing here",
                    "write one, or leave the field out",
                ));
            }
        };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, mark: Mark, depth: usize) -> Result<Node, Broken> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Node { mark, value: Value::List(items) }),
                (event, at) => items.push(self.node(event, at, depth + 1)?),
            }
        }
    }

    fn map(&mut self, mark: Mark, depth: usize) -> Result<Node, Broken> {
        let mut entries = Vec::new();
        loop {
            let (event, at) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(Node::map(mark, entries, self.faults));
            }
            let key = self.node(event, at, depth + 1)?;
            let Some(name) = key.as_text() else {
                let fault = format!("the name of a field is {}", key.describe());
                return Err(Broken::new(at, fault, "write a word there"));
            };
            let (event, value_at) = self.next()?;
            let value = self.node(event, value_at, depth + 1)?;
            entries.push((At::new(name.to_owned(), at), value));
        }
    }

    /// What an alias stands for; it keeps the place where it was written.
    fn repeat(&mut self, anchor: usize, mark: Mark) -> Result<Node, Broken> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err(Broken::new(mark, "an alias stands for what it is a part of", "write it out"));
        };
        self.count(node.size(), mark)?;
        Ok(node)
    }

    fn count(&mut self, values: usize, mark: Mark) -> Result<(), Broken> {
        self.values += values;
        if self.values <= VALUES_MAX {
            return Ok(());
        }
        let fault = format!("the text has more than {VALUES_MAX} values, those that aliases repeat included");
        Err(Broken::new(mark, fault, "make the definition smaller"))
    }

    fn refuse_tag(&mut self, tagged: bool, mark: Mark) {
        if tagged {
            self.faults.add(mark, None, "a value has a YAML tag", "leave out the word that begins with !");
        }
    }
}

fn mark_of(span: Span) -> Mark {
    Mark::Text { line: span.start.line(), column: span.start.col() + 1 }
}

/// The fault of a text that nobody meant to be a definition.
pub(super) fn too_deep(mark: Mark) -> Broken {
    Broken::new(
        mark,
        format!("values are nested more than {DEPTH_MAX} deep"),
        "see docs/flow-definitions.md for what a definition looks like",
    )
}

#[cfg(test)]
mod tests {
    use super::super::node::shorten;
    use super::*;

    fn read_one(text: &str) -> Result<Node, String> {
        read(text, &mut Faults::default()).map_err(|broken| shorten(&broken.fault))
    }

    #[test]
    fn an_alias_repeats_its_anchor_and_no_more_than_the_limit() {
        let root = read_one("a: &x [1, 2]\nb: *x\n").ok().unwrap();
        assert!(matches!(&root.field("b").unwrap().value, Value::List(items) if items.len() == 2));
        let tenfold = |n: usize| {
            let before = if n == 0 { "x".to_owned() } else { format!("*a{}", n - 1) };
            format!("a{n}: &a{n} [{}]\n", [before.as_str(); 10].join(", "))
        };
        let bomb: Vec<_> = (0..=9).map(tenfold).collect();
        assert!(read_one(&bomb.concat()).unwrap_err().contains("more than 200000 values"));
        assert!(read_one("a: &x [*x]").is_err());
    }

    #[test]
    fn what_is_no_single_document_is_refused() {
        for (text, said) in [
            ("", "is empty"),
            ("# only a remark\n", "is empty"),
            ("a: 1\n---\nb: 2\n", "a second document"),
            ("a: [1, 2\n", "no YAML"),
            ("a:\n  - 1\n b: 2\n", "no YAML"),
            ("[a]: 1\n", "name of a field"),
            (&"[".repeat(100), "nested more than 16"),
        ] {
            let fault = read_one(text).map(|node| node.describe()).unwrap_err();
            assert!(fault.contains(said), "{text:?}: {fault}");
        }
    }
}
