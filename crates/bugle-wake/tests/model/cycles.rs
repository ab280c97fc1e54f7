//! Livelocks: prompt steps that go round for ever without the environment doing anything (a ring storm would be one).
//!
//! A cycle counts only if it is fair: every prompt action that is possible all the way round is taken somewhere on it.
//! (Weak fairness: a step that stays possible is taken in the end.)
use crate::configuration::Configuration;
use crate::graph::{Edge, Graph, index};
use crate::trace;
use std::time::Instant;

pub(crate) fn has_no_fair_cycle(world: &Configuration) {
    if let Some(cycle) = fair_cycle(world) {
        panic!("{}: a cycle of prompt steps\n{cycle}", world.title());
    }
}

pub(crate) fn has_fair_cycle(world: &Configuration) {
    let cycle = fair_cycle(world).unwrap_or_else(|| panic!("{}: no cycle found", world.title()));
    eprintln!("{cycle}");
}

/// The cycle in words, if there is one.
fn fair_cycle(world: &Configuration) -> Option<String> {
    let begun = Instant::now();
    let graph = Graph::explore(world);
    let found = Search::new(&graph).fair_component();
    eprintln!(
        "{:<70} {:>9} states, {:>5.1} s: {}",
        world.title(),
        graph.len(),
        begun.elapsed().as_secs_f32(),
        if found.is_some() { "a fair cycle" } else { "no fair cycle" },
    );
    let members = found?;
    let steps: Vec<String> =
        graph.loop_through(members[0]).iter().map(|action| format!("  {action:?}")).collect();
    Some(format!(
        "{} states lead to each other, for example by\n{}\nin the state that differs from the first one by: {}",
        members.len(),
        steps.join("\n"),
        trace::changes(&world.first_state(), graph.state(members[0])),
    ))
}

const UNSEEN: u32 = 0;
const OPEN: u32 = u32::MAX;

/// Tarjan's strongly connected components, without recursion: the paths are millions of states long.
struct Search<'a> {
    graph: &'a Graph,
    /// In which order states were first seen, from 1.
    seen: Vec<u32>,
    seen_count: u32,
    /// The earliest state that can be reached and is not in a finished component.
    lowest: Vec<u32>,
    /// The finished component of a state, or `OPEN`.
    component: Vec<u32>,
    components: u32,
    unfinished: Vec<u32>,
}

impl<'a> Search<'a> {
    fn new(graph: &'a Graph) -> Self {
        Self {
            graph,
            seen: vec![UNSEEN; graph.len()],
            seen_count: 0,
            lowest: vec![0; graph.len()],
            component: vec![OPEN; graph.len()],
            components: 0,
            unfinished: Vec::new(),
        }
    }

    fn fair_component(mut self) -> Option<Vec<u32>> {
        let states = u32::try_from(self.graph.len()).unwrap();
        (0..states).find_map(|root| self.search_from(root))
    }

    fn search_from(&mut self, root: u32) -> Option<Vec<u32>> {
        if self.seen[index(root)] != UNSEEN {
            return None;
        }
        self.see(root);
        let mut path = vec![(root, 0)];
        while let Some((state, edge)) = path.last_mut() {
            let state = *state;
            if let Some(Edge { to, .. }) = self.graph.edges_of(state).get(*edge).copied() {
                *edge += 1;
                if self.seen[index(to)] == UNSEEN {
                    self.see(to);
                    path.push((to, 0));
                } else if self.component[index(to)] == OPEN {
                    self.lower(state, self.seen[index(to)]);
                }
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                self.lower(*parent, self.lowest[index(state)]);
            }
            if self.lowest[index(state)] == self.seen[index(state)] {
                let members = self.finish_component(state);
                if self.is_fair_cycle(&members) {
                    return Some(members);
                }
            }
        }
        None
    }

    fn see(&mut self, state: u32) {
        self.seen_count += 1;
        self.seen[index(state)] = self.seen_count;
        self.lowest[index(state)] = self.seen_count;
        self.unfinished.push(state);
    }

    fn lower(&mut self, state: u32, to: u32) {
        let lowest = &mut self.lowest[index(state)];
        *lowest = to.min(*lowest);
    }

    fn finish_component(&mut self, first: u32) -> Vec<u32> {
        let begin = self.unfinished.iter().rposition(|state| *state == first).unwrap();
        let members = self.unfinished.split_off(begin);
        for member in &members {
            self.component[index(*member)] = self.components;
        }
        self.components += 1;
        members
    }

    /// Can the steps go round within these states without starving an action that is possible in all of them?
    fn is_fair_cycle(&self, members: &[u32]) -> bool {
        let own = self.component[index(members[0])];
        let (mut always_possible, mut taken) = (u64::MAX, 0u64);
        for member in members {
            let mut possible = 0u64;
            for edge in self.graph.edges_of(*member) {
                possible |= 1 << edge.action;
                if self.component[index(edge.to)] == own {
                    taken |= 1 << edge.action;
                }
            }
            always_possible &= possible;
        }
        taken != 0 && always_possible & !taken == 0
    }
}
