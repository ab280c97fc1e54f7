//! The reachable states and the prompt steps between them.
use crate::actions::Action;
use crate::configuration::Configuration;
use crate::state::State;
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A prompt step: where it leads, and which of the configuration's prompt actions it is.
#[derive(Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) to: u32,
    pub(crate) action: u8,
}

pub(crate) struct Graph {
    pub(crate) prompt_actions: Vec<Action>,
    states: Vec<State>,
    edges: Vec<Edge>,
    /// The edges of state n end here; they begin where those of the state before end.
    ends: Vec<usize>,
}

impl Graph {
    /// Explores everything, environment included; keeps the prompt steps.
    pub(crate) fn explore(world: &Configuration) -> Self {
        let mut actions = Vec::new();
        world.prompt_actions(&mut actions);
        let prompt_actions = actions.clone();
        world.environment_actions(&mut actions);

        let first = world.first_state();
        let mut numbers = HashMap::from([(fingerprint(&first), 0u32)]);
        let mut graph = Self { prompt_actions, states: vec![first], edges: Vec::new(), ends: Vec::new() };
        while let Some(state) = graph.states.get(graph.ends.len()).copied() {
            for (action, number) in actions.iter().zip(0u8..) {
                let Some(after) = world.after(&state, *action) else { continue };
                let to = *numbers.entry(fingerprint(&after)).or_insert_with(|| {
                    graph.states.push(after);
                    u32::try_from(graph.states.len() - 1).unwrap()
                });
                if usize::from(number) < graph.prompt_actions.len() {
                    graph.edges.push(Edge { to, action: number });
                }
            }
            graph.ends.push(graph.edges.len());
        }
        graph
    }

    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    pub(crate) fn edges_of(&self, state: u32) -> &[Edge] {
        let state = index(state);
        let begin = if state == 0 { 0 } else { self.ends[state - 1] };
        &self.edges[begin..self.ends[state]]
    }

    /// A shortest way back to this state by prompt steps; there is one if it lies on a cycle.
    pub(crate) fn loop_through(&self, state: u32) -> Vec<Action> {
        let mut came_by: HashMap<u32, (u32, u8)> = HashMap::new();
        let mut ahead = VecDeque::from([state]);
        while let Some(from) = ahead.pop_front().filter(|_| !came_by.contains_key(&state)) {
            for edge in self.edges_of(from) {
                came_by.entry(edge.to).or_insert_with(|| {
                    ahead.push_back(edge.to);
                    (from, edge.action)
                });
            }
        }
        let mut way = Vec::new();
        let mut at = state;
        while let Some((from, action)) = came_by.get(&at) {
            way.push(self.prompt_actions[usize::from(*action)]);
            at = *from;
            if at == state {
                break;
            }
        }
        way.reverse();
        way
    }

    pub(crate) fn state(&self, state: u32) -> &State {
        &self.states[index(state)]
    }
}

pub(crate) fn index(state: u32) -> usize {
    usize::try_from(state).unwrap()
}

/// 64 bits instead of the state halve the memory; that two of ten million states agree is a chance of 1 to 300,000.
fn fingerprint(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}
