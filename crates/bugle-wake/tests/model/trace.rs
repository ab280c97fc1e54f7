//! A counterexample as lines: the action, then what it changed.
use crate::actions::Action;
use crate::configuration::Configuration;
use crate::state::{Node, State};
use std::fmt::{Debug, Write as _};

/// Nodes of a symmetric configuration are sorted anew after each action: their numbers may change from line to line.
pub(crate) fn describe(world: &Configuration, actions: &[Action]) -> String {
    let mut text = String::new();
    let mut state = world.first_state();
    for (line, action) in actions.iter().enumerate() {
        let after = world.after(&state, *action).expect("an action of the trace");
        let _ =
            writeln!(text, "  {:>2}. {:<36} {}", line + 1, format!("{action:?}"), changes(&state, &after));
        state = after;
    }
    text
}

pub(crate) fn changes(before: &State, after: &State) -> String {
    let mut changes = Changes(Vec::new());
    for (number, (old, new)) in before.nodes.iter().zip(&after.nodes).enumerate() {
        changes.of_node(&format!("node {number}"), old, new);
    }
    for (number, (old, new)) in before.producers.iter().zip(&after.producers).enumerate() {
        changes.note(&format!("producer {number}"), old, new);
    }
    for (number, (old, new)) in before.rows.iter().zip(&after.rows).enumerate() {
        changes.note(&format!("row {number}"), old, new);
    }
    changes.note("clock", &before.clock, &after.clock);
    changes.0.join("; ")
}

struct Changes(Vec<String>);

impl Changes {
    fn note<T: PartialEq + Debug>(&mut self, what: &str, old: &T, new: &T) {
        if old != new {
            self.0.push(format!("{what}: {new:?}"));
        }
    }

    fn of_node(&mut self, name: &str, old: &Node, new: &Node) {
        self.note(&format!("{name} next"), &old.next, &new.next);
        self.note(&format!("{name} alive"), &old.alive, &new.alive);
        self.note(&format!("{name} session"), &old.session, &new.session);
        self.note(&format!("{name} demand"), &old.demand, &new.demand);
        self.note(&format!("{name} flag"), &old.flag, &new.flag);
        self.note(&format!("{name} bell"), &old.bell, &new.bell);
        self.note(&format!("{name} mark"), &old.mark, &new.mark);
        self.note(&format!("{name} covered"), &old.covered, &new.covered);
        self.note(&format!("{name} next_due"), &old.next_due, &new.next_due);
        self.note(&format!("{name} inbox"), &old.inbox, &new.inbox);
        self.note(&format!("{name} release"), &old.release, &new.release);
    }
}
