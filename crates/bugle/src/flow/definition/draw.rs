//! A definition as a drawing for a terminal: a line for each step, with its edges, its name and what is special about it.

use super::Definition;
use super::lanes;
use super::step::{Join, On, Step, StepKind};
use crate::span;
use std::collections::HashMap;

/// Widest line.
const COLUMNS_MAX: usize = 100;
/// Names are cut to this: the rest of the line is worth more.
const NAME_COLUMNS_MAX: usize = 40;
/// Most parents that a line names.
const NAMED_MAX: usize = 3;

pub(super) fn draw(definition: &Definition, label: &dyn Fn(&Step) -> Option<String>) -> String {
    let steps = &definition.steps;
    let places: HashMap<&str, usize> =
        steps.iter().enumerate().map(|(n, step)| (step.name.as_str(), n)).collect();
    let place = |name: &str| places.get(name).copied().unwrap_or_default();
    let parents: Vec<Vec<usize>> =
        steps.iter().map(|step| step.after.iter().map(|edge| place(&edge.step)).collect()).collect();
    let rows = lanes::rows(&parents);
    let labels: Vec<_> = steps.iter().map(|step| label(step).unwrap_or_default()).collect();
    let names: Vec<_> = steps.iter().map(|step| cut(&step.name, NAME_COLUMNS_MAX)).collect();
    let graph_columns = widest(rows.iter().map(|row| &row.graph));
    let (name_columns, label_columns) = (widest(&names), widest(&labels));
    let version = definition.version.map(|version| format!(", version {version}")).unwrap_or_default();
    let mut lines = vec![cut(&format!("{}{version}", definition.name), COLUMNS_MAX)];
    for (n, step) in steps.iter().enumerate() {
        let mut line = format!("{:graph_columns$}  {:name_columns$}", rows[n].graph, names[n]);
        if label_columns > 0 {
            line = format!("{line}  {:label_columns$}", labels[n]);
        }
        let undrawn: Vec<_> = rows[n].undrawn.iter().map(|parent| steps[*parent].name.as_str()).collect();
        line = format!("{line}  {}", notes(step, &undrawn).join(", "));
        lines.push(cut(line.trim_end(), COLUMNS_MAX));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn widest<'a>(texts: impl IntoIterator<Item = &'a String>) -> usize {
    texts.into_iter().map(|text| text.chars().count()).max().unwrap_or(0)
}

/// What is special about a step: its kind, its conditions, and parents that could not be drawn.
fn notes(step: &Step, undrawn: &[&str]) -> Vec<String> {
    let kind = match &step.kind {
        StepKind::Task { .. } => None,
        StepKind::Map { over, .. } => {
            let of = over.step.as_deref().unwrap_or("input");
            Some(format!("map over {of}{}{}", if over.at.is_empty() { "" } else { " " }, over.at))
        }
        StepKind::Decision { .. } => Some("decision".to_owned()),
        StepKind::Sleep { length } => Some(format!("sleep {}", span::exact(*length))),
        StepKind::Signal { key, .. } => Some(format!("signal {key}")),
    };
    let condition = condition(step);
    let named =
        (!undrawn.is_empty() && condition.is_none()).then(|| format!("after {}", listed(undrawn, "and")));
    [kind, condition, named].into_iter().flatten().collect()
}

/// When it runs, if that is not simply when all its parents have succeeded.
fn condition(step: &Step) -> Option<String> {
    let plain = step.after.iter().all(|edge| edge.on == On::Success);
    if plain && (step.join == Join::All || step.after.len() < 2) {
        return None;
    }
    let (word, many) = match step.join {
        Join::All => ("and", true),
        Join::Any => ("or", false),
    };
    let of = |on: On, one: &str, several: &str| {
        let names: Vec<_> =
            step.after.iter().filter(|edge| edge.on == on).map(|edge| edge.step.as_str()).collect();
        let verb = if many && names.len() > 1 { several } else { one };
        (!names.is_empty()).then(|| format!("{} {verb}", listed(&names, word)))
    };
    let parts = [
        of(On::Success, "succeeds", "succeed"),
        of(On::Failure, "fails", "fail"),
        of(On::Always, "ends", "end"),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    Some(format!("if {}", parts.join(&format!(" {word} "))))
}

fn listed(names: &[&str], word: &str) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] if names.len() <= NAMED_MAX => format!("{} {word} {last}", first.join(", ")),
        _ => format!("{} {} steps", if word == "and" { "all" } else { "one of" }, names.len()),
    }
}

/// At most so many characters, the last of them a mark if some were left out.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(text: &str) -> String {
        Definition::parse_yaml(text).unwrap().draw()
    }

    #[test]
    fn the_example_of_the_documentation_is_drawn() {
        let expected = "\
order, version 3
●    reserve
├─●  pay
○ │  notify_each  map over reserve /items
●─┤  approve      signal approval:{run}
│ ○  refund       if pay fails
├─○  wait_a_bit   sleep 10s
●    choose       decision
├─●  dhl
● │  ups
○─┘  close        if dhl or ups succeeds
";
        assert_eq!(drawn(super::super::tests::ORDER), expected);
    }

    #[test]
    fn states_stand_beside_the_names() {
        let diamond = "{ name: d, steps: [{ name: a }, { name: b, after: a }, { name: c, after: a }, { name: d, after: [b, c] }] }";
        let definition = Definition::parse_yaml(diamond).unwrap();
        let expected = "\
d
●    a  succeeded
├─●  b  running
● │  c
○─┘  d
";
        let state = |step: &Step| match step.name.as_str() {
            "a" => Some("succeeded".to_owned()),
            "b" => Some("running".to_owned()),
            _ => None,
        };
        assert_eq!(definition.draw_with(state), expected);
    }

    #[test]
    fn many_that_meet_share_one_lane() {
        let workers: Vec<_> = (1..=4).map(|n| format!("{{ name: w{n}, after: split }}, ")).collect();
        let meet = "{ name: meet, after: [w1, w2, w3, w4, { step: split, on: always }] }";
        let text = format!("{{ name: fan, steps: [{{ name: split }}, {}{meet}] }}", workers.concat());
        let expected = "\
fan
●      split
├─○═╗  w1
├─○═╣  w2
├─○═╣  w3
├─○═╣  w4
└───○  meet   if all 4 steps succeed and split ends
";
        assert_eq!(drawn(&text), expected);
    }

    #[test]
    fn lines_that_have_nothing_to_do_with_each_other_cross() {
        let text = "{ name: x, steps: [{ name: a }, { name: b }, { name: c }, { name: d, after: [a, c] }, { name: e, after: [b, a] }] }";
        let expected = "\
x
●      a
│ ●    b
│ │ ●  c
├─│─○  d
○─┘    e
";
        assert_eq!(drawn(text), expected);
    }

    #[test]
    fn what_has_no_room_is_told_in_words_and_no_line_is_too_long() {
        let roots: Vec<_> = (0..40).map(|n| format!("{{ name: root{n} }}")).collect();
        let leaves: Vec<_> =
            (0..40).map(|n| format!("{{ name: leaf{n}, after: [root{n}, root{}] }}", 39 - n)).collect();
        let text = format!("{{ name: wide, steps: [{}, {}] }}", roots.join(", "), leaves.join(", "));
        let drawing = drawn(&text);
        assert!(drawing.contains("leaf20  after root19 and root20"), "{drawing}");
        assert!(drawing.lines().all(|line| line.chars().count() <= COLUMNS_MAX), "{drawing}");
        let long = format!("{{ name: l, steps: [{{ name: {} }}] }}", "n".repeat(100));
        assert!(drawn(&long).contains("nnn…"));
    }
}
