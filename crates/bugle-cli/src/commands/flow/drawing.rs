//! A run as a drawing: its steps with the lines between them, each with a mark of its state.

use crate::output::{Colour, Output};
use bugle::flow::Definition;
use bugle::flow::inspect::StepDetail;

/// How a state is marked: by a character, so that it can be told without colours, and by a colour.
pub(super) fn mark(state: &str) -> (char, Colour) {
    match state {
        "ready" => ('>', Colour::Cyan),
        "running" => ('▸', Colour::Blue),
        "waiting" => ('~', Colour::Yellow),
        "succeeded" => ('✓', Colour::Green),
        "failed" => ('✗', Colour::Red),
        "skipped" => ('-', Colour::Grey),
        "cancelled" => ('×', Colour::Magenta),
        _ => ('·', Colour::Grey), // pending
    }
}

/// `✓ succeeded`; of a map also how many of its elements have.
pub(super) fn label(step: &StepDetail) -> String {
    let state = &step.row.state;
    let (sign, _) = mark(state);
    let total = step.elements_total();
    if total == 0 {
        return format!("{sign} {state}");
    }
    let done =
        step.element_counts.iter().filter(|count| count.state == "succeeded").map(|count| count.elements);
    format!("{sign} {state} {}/{total}", done.sum::<i64>())
}

/// The drawing, a line for each step, without its head.
pub(super) fn draw(definition: &Definition, steps: &[StepDetail], output: Output) -> String {
    let labels: Vec<_> = definition
        .steps()
        .iter()
        .map(|step| {
            steps
                .iter()
                .find(|known| known.row.name == step.name)
                .map(|known| (label(known), mark(&known.row.state).1))
        })
        .collect();
    let of = |name: &str| definition.steps().iter().position(|step| step.name == name);
    let drawing =
        definition.draw_with(|step| of(&step.name).and_then(|n| labels[n].clone()).map(|(label, _)| label));
    let mut text = String::new();
    // Colours come afterwards: they take no room.
    for (line, label) in drawing.lines().skip(1).zip(&labels) {
        match label {
            Some((label, colour)) => text.push_str(&line.replacen(label, &output.paint(label, *colour), 1)),
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text
}
