//! One small world to explore: how many of everything, what may happen, which rules hold.
use crate::rules::{Rule, Rules, Variation};
use crate::set::Set;
use crate::state::{Budgets, NEVER, NODES_MAX, Node, PRODUCERS_MAX, ROWS_MAX, Row, State, Transaction};

/// A row that a producer will write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    pub(crate) producer: u8,
    pub(crate) queue: u8,
    pub(crate) due: u8,
}

#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent choices
pub(crate) struct Configuration {
    pub(crate) name: &'static str,
    pub(crate) nodes: u8,
    pub(crate) producers: u8,
    /// Queues with an intention at the beginning, for each node.
    pub(crate) demand: [Set; NODES_MAX],
    /// Queues for which an intention may arrive later, at any node.
    pub(crate) arriving: Set,
    pub(crate) plans: Vec<Plan>,
    pub(crate) budgets: Budgets,
    pub(crate) clock_max: u8,
    /// How long a claim lasts; 0: for ever.
    pub(crate) lease: u8,
    /// Producers may roll back.
    pub(crate) producers_abort: bool,
    /// Steps that nobody else can observe are taken together with the next one. Saves states, loses nothing.
    pub(crate) merges_steps: bool,
    /// The cover test is one step. Otherwise it holds the shared side of the bell for a moment, as PostgreSQL does.
    pub(crate) cover_test_at_once: bool,
    /// Like nodes (and like producers) are interchangeable: one state stands for all that differ only by their numbers.
    pub(crate) symmetric: bool,
    pub(crate) rules: Rules,
}

impl Configuration {
    /// Two nodes that both want queue 0, two producers of one row each.
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            nodes: 2,
            producers: 0,
            demand: [Set::one(0), Set::one(0), Set::EMPTY],
            arriving: Set::one(0),
            plans: Vec::new(),
            budgets: Budgets::NONE,
            clock_max: 0,
            lease: 0,
            producers_abort: false,
            merges_steps: true,
            cover_test_at_once: false,
            symmetric: true,
            rules: Rules::default(),
        }
        .rows(&[(0, 0, 0), (1, 0, 0)])
    }

    /// The rows that will be written, each as (producer, queue, due).
    pub(crate) fn rows(mut self, rows: &[(u8, u8, u8)]) -> Self {
        self.plans = rows.iter().map(|&(producer, queue, due)| Plan { producer, queue, due }).collect();
        self.producers = rows.iter().map(|(producer, ..)| producer + 1).max().unwrap_or(0);
        assert!(self.plans.len() <= ROWS_MAX && usize::from(self.producers) <= PRODUCERS_MAX);
        self
    }

    /// The nodes, each by the queue that it wants.
    pub(crate) fn nodes(mut self, wanted: &[u8]) -> Self {
        self.demand = [Set::EMPTY; NODES_MAX];
        self.nodes = 0;
        for (demand, queue) in self.demand.iter_mut().zip(wanted) {
            *demand = Set::one(*queue);
            self.nodes += 1;
        }
        self.arriving = wanted.iter().copied().collect();
        self
    }

    pub(crate) fn may(mut self, budgets: Budgets) -> Self {
        self.budgets = budgets;
        self
    }

    pub(crate) fn producers_may_abort(mut self) -> Self {
        self.producers_abort = true;
        self
    }

    pub(crate) fn clock(mut self, clock_max: u8, lease: u8) -> Self {
        assert!(clock_max + lease < NEVER);
        self.clock_max = clock_max;
        self.lease = lease;
        self
    }

    pub(crate) fn every_step_alone(mut self) -> Self {
        self.merges_steps = false;
        self
    }

    /// Nodes keep their numbers. A trace is easier to read then; and fairness is a matter of single nodes, so a
    /// search for cycles must not exchange them.
    pub(crate) fn numbered(mut self) -> Self {
        self.symmetric = false;
        self
    }

    pub(crate) fn with_cover_test_at_once(mut self) -> Self {
        self.cover_test_at_once = true;
        self
    }

    pub(crate) fn breaking(mut self, rule: Rule) -> Self {
        self.rules.break_rule(rule);
        self
    }

    pub(crate) fn with(mut self, variation: Variation) -> Self {
        self.rules.add(variation);
        self
    }

    /// What it is, and how its rules differ from the plain ones.
    pub(crate) fn title(&self) -> String {
        let labels: Vec<&str> = self.rules.variations().iter().map(|variation| variation.label()).collect();
        if labels.is_empty() {
            self.name.to_owned()
        } else {
            format!("{} [{}]", self.name, labels.join(", "))
        }
    }

    /// The protocol as it is built: all three of its differences from the plain one.
    pub(crate) fn shipped(self) -> Self {
        self.with(Variation::SitRingsItself).with(Variation::LateLeave).with(Variation::ClaimsTakeTurns)
    }

    pub(crate) fn node_numbers(&self) -> impl Iterator<Item = u8> + use<> {
        0..self.nodes
    }

    pub(crate) fn producer_numbers(&self) -> impl Iterator<Item = u8> + use<> {
        0..self.producers
    }

    pub(crate) fn numbered_plans(&self) -> impl Iterator<Item = (u8, &Plan)> {
        (0u8..).zip(&self.plans)
    }

    pub(crate) fn plan(&self, row: u8) -> Plan {
        self.plans[usize::from(row)]
    }

    pub(crate) fn rows_of_producer(&self, producer: u8) -> Set {
        self.numbered_plans().filter(|(_, plan)| plan.producer == producer).map(|(row, _)| row).collect()
    }

    /// Could a look claim this row now? Ready and due, or claimed under a lease that has ended.
    pub(crate) fn is_claimable(&self, state: &State, row: u8) -> bool {
        match state.row(row) {
            Row::Ready => self.plan(row).due <= state.clock,
            Row::Claimed(_, until) => until <= state.clock,
            _ => false,
        }
    }

    pub(crate) fn first_state(&self) -> State {
        let mut nodes = [Node::DEAD; NODES_MAX];
        for (node, demand) in nodes.iter_mut().zip(self.demand).take(usize::from(self.nodes)) {
            *node = Node { alive: true, session: true, demand, ..Node::DEAD };
        }
        State {
            nodes,
            producers: [Transaction::Closed; PRODUCERS_MAX],
            rows: [Row::Absent; ROWS_MAX],
            clock: 0,
            budgets: self.budgets,
        }
    }
}
