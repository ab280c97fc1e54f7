//! Steps and their edges: names become numbers, and the numbers an order.

use super::draft::{DraftKind, DraftStep};
use super::fault::{At, Faults, Mark};
use super::limits::EDGES_MAX;
use super::nearest::nearest;
use super::node::shorten;
use super::step::On;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};

/// Names that are searched for the likeness of a misspelt one: it takes a moment each.
const SUGGESTIONS_MAX: usize = 20;
/// Names of a cycle that are printed; what is between them is counted.
const CYCLE_NAMES_MAX: usize = 20;

/// An edge of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parent {
    pub(super) step: usize,
    pub(super) on: On,
    pub(super) mark: Mark,
}

/// The edges of a definition, by the places of its steps in the file.
pub(super) struct Graph {
    pub(super) parents: Vec<Vec<Parent>>,
    pub(super) children: Vec<Vec<usize>>,
}

impl Graph {
    /// Finds every parent by its name.
    pub(super) fn link(steps: &[DraftStep], faults: &mut Faults) -> Self {
        let places = places(steps, faults);
        let mut parents = Vec::with_capacity(steps.len());
        for step in steps {
            parents.push(parents_of(step, &places, faults));
        }
        let mut children = vec![Vec::new(); steps.len()];
        for (child, of) in parents.iter().enumerate() {
            for parent in of {
                children[parent.step].push(child);
            }
        }
        let graph = Self { parents, children };
        graph.count(steps, faults);
        graph.check_decisions(steps, faults);
        graph
    }

    fn count(&self, steps: &[DraftStep], faults: &mut Faults) {
        let edges =
            steps.iter().zip(&self.parents).flat_map(|(step, of)| of.iter().map(move |edge| (step, edge)));
        let total = self.parents.iter().map(Vec::len).sum::<usize>();
        if let Some((step, edge)) = edges.into_iter().nth(EDGES_MAX) {
            let fault = format!("the definition has {total} edges");
            let next =
                format!("use at most {EDGES_MAX}: let many steps meet in one, and others come after that");
            faults.add(edge.mark, step.called(), fault, next);
        }
    }

    /// A decision chooses among the steps that come after its success.
    fn check_decisions(&self, steps: &[DraftStep], faults: &mut Faults) {
        for (n, step) in steps.iter().enumerate() {
            if matches!(step.kind, DraftKind::Decision) && self.children[n].is_empty() {
                let mark = step.name.as_ref().map_or(step.mark, |name| name.mark);
                let next = "let the steps that it chooses from come after it";
                faults.add(mark, step.called(), "is a decision, and no step comes after it", next);
            }
            for parent in self.parents[n].iter().filter(|parent| parent.on != On::Success) {
                if matches!(steps[parent.step].kind, DraftKind::Decision) {
                    let decision = shorten(steps[parent.step].called().unwrap_or_default());
                    let fault =
                        format!("comes after the decision {decision:?} by on: {}", parent.on.as_str());
                    let next = "use on: success: a decision chooses which of its children run";
                    faults.add(parent.mark, step.called(), fault, next);
                }
            }
        }
    }

    /// The steps so that each comes after its parents, and otherwise as in the file; `None`: some wait for each other.
    pub(super) fn order(&self, steps: &[DraftStep], faults: &mut Faults) -> Option<Vec<usize>> {
        let mut unmet: Vec<_> = self.parents.iter().map(Vec::len).collect();
        let roots = (0..unmet.len()).filter(|step| unmet[*step] == 0);
        let mut ready: BinaryHeap<_> = roots.map(Reverse).collect();
        let mut order = Vec::with_capacity(unmet.len());
        while let Some(Reverse(step)) = ready.pop() {
            order.push(step);
            for child in &self.children[step] {
                unmet[*child] -= 1;
                if unmet[*child] == 0 {
                    ready.push(Reverse(*child));
                }
            }
        }
        if order.len() == steps.len() {
            return Some(order);
        }
        self.report_cycles(steps, &unmet, faults);
        None
    }

    /// Prints a cycle through every step that is on one, each step in one of them at least.
    fn report_cycles(&self, steps: &[DraftStep], unmet: &[usize], faults: &mut Faults) {
        let mut printed = vec![false; steps.len()];
        for start in (0..steps.len()).filter(|step| unmet[*step] > 0) {
            if printed[start] {
                continue;
            }
            let Some(cycle) = self.cycle_through(start) else { continue };
            for step in &cycle {
                printed[*step] = true;
            }
            let name = |step: &usize| shorten(steps[*step].called().unwrap_or("?"));
            let mut names: Vec<_> = cycle.iter().chain([&start]).map(name).collect();
            if names.len() > CYCLE_NAMES_MAX {
                let between = CYCLE_NAMES_MAX / 2..names.len() - CYCLE_NAMES_MAX / 2;
                let counted = format!("({} more)", between.len());
                names.splice(between, [counted]);
            }
            let last = cycle.last().copied().unwrap_or(start);
            let closing = self.parents[start].iter().find(|parent| parent.step == last);
            let mark = closing.map_or(steps[start].mark, |parent| parent.mark);
            let fault = format!("waits for itself: {}", names.join(" → "));
            faults.add(mark, steps[start].called(), fault, "take one of these edges away");
        }
    }

    /// The shortest way from a step back to itself, in the order in which the steps would run.
    fn cycle_through(&self, start: usize) -> Option<Vec<usize>> {
        let mut came_from = vec![None; self.children.len()];
        let mut at = VecDeque::from([start]);
        while let Some(step) = at.pop_front() {
            for child in &self.children[step] {
                if *child == start {
                    let mut way = vec![step];
                    while let Some(before) = came_from[way[way.len() - 1]] {
                        way.push(before);
                    }
                    way.reverse();
                    return Some(way);
                }
                if came_from[*child].is_none() {
                    came_from[*child] = Some(step);
                    at.push_back(*child);
                }
            }
        }
        None
    }
}

/// Where each name is; a name that is used twice counts where it was first.
fn places<'d>(steps: &'d [DraftStep], faults: &mut Faults) -> HashMap<&'d str, usize> {
    let mut places: HashMap<&str, usize> = HashMap::with_capacity(steps.len());
    for (place, step) in steps.iter().enumerate() {
        let Some(name) = &step.name else { continue };
        if let Some(first) = places.get(name.value.as_str()) {
            let where_first = match &steps[*first].name {
                Some(At { mark: Mark::Text { line, .. }, .. }) => format!("the step in line {line}"),
                _ => format!("step {}", first + 1),
            };
            let fault = format!("has the same name as {where_first}");
            faults.add(name.mark, Some(&name.value), fault, "give each step a name of its own");
        } else {
            places.insert(&name.value, place);
        }
    }
    places
}

fn parents_of(step: &DraftStep, places: &HashMap<&str, usize>, faults: &mut Faults) -> Vec<Parent> {
    let mut parents: Vec<Parent> = Vec::with_capacity(step.after.len() + 1);
    let mut seen = HashSet::with_capacity(step.after.len());
    for edge in &step.after {
        let (name, mark) = (&edge.step.value, edge.step.mark);
        match places.get(name.as_str()) {
            None => unknown(step, "after names", &edge.step, places, faults),
            Some(place) if !seen.insert(*place) => {
                let fault = format!("comes after {:?} twice", shorten(name));
                faults.add(mark, step.called(), fault, "keep one edge; on: always stands for every end");
            }
            Some(place) => parents.push(Parent { step: *place, on: edge.on, mark }),
        }
    }
    if let DraftKind::Map { source: Some(source), .. } = &step.kind {
        match places.get(source.value.as_str()) {
            None => unknown(step, "map.step is", source, places, faults),
            Some(place) if seen.contains(place) => {}
            // Its list must be there before the map begins.
            Some(place) => parents.push(Parent { step: *place, on: On::Success, mark: source.mark }),
        }
    }
    parents
}

fn unknown(
    step: &DraftStep,
    said: &str,
    name: &At<String>,
    places: &HashMap<&str, usize>,
    faults: &mut Faults,
) {
    let fault = format!("{said} {:?}, and there is no such step", shorten(&name.value));
    let mut known: Vec<_> = Vec::new();
    if faults.len() < SUGGESTIONS_MAX {
        known.extend(places.keys().copied());
        known.sort_unstable();
    }
    let next = match nearest(&name.value, known) {
        Some(like) => format!("did you mean {like:?}?"),
        None => "name a step of this definition, or add one".to_owned(),
    };
    faults.add(name.mark, step.called(), fault, next);
}
