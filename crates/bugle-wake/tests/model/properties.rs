//! What must hold in every state that can be reached.
use crate::configuration::Configuration;
use crate::rules::{Rule, Rules, Variation};
use crate::seat::owes_ring;
use crate::state::{Next, Node, Row, State};
use stateright::Property;

pub(crate) const NO_LOST_WAKE: &str = "no lost wake-up";
pub(crate) const RECOVERED: &str = "a new sentinel wakes all";
pub(crate) const NO_LATE_TIMER: &str = "no late timer";
pub(crate) const EVERY_SLEEPER_COVERED: &str = "every sleeper covered";
pub(crate) const ONE_BELL_HOLDER: &str = "one bell holder";
pub(crate) const RINGS_ONLY_FOR_A_SLEEPER: &str = "rings only for a sleeper";
/// Not a promise but the proof that a configuration is not vacuous.
pub(crate) const WORK_GETS_CLAIMED: &str = "work gets claimed";

pub(crate) fn all(rules: &Rules) -> Vec<Property<Configuration>> {
    let mut all = promises();
    all.push(Property::sometimes(WORK_GETS_CLAIMED, |_, state: &State| {
        state.rows.iter().any(|row| matches!(row, Row::Claimed(..)))
    }));
    all.extend(rules.variations().iter().copied().filter_map(witness));
    all
}

/// A variation that is never met proves nothing: a state that only it can bring about, under the variation's label.
fn witness(variation: Variation) -> Option<Property<Configuration>> {
    let condition = match variation {
        Variation::SitRingsItself => {
            |_: &Configuration, state: &State| state.nodes.iter().any(|node| node.next == Next::ReadGranted)
        }
        Variation::LateLeave => |_: &Configuration, state: &State| {
            let keeps_bell = |node: &Node| node.next == Next::Idle && node.demand.is_empty() && node.bell;
            state.nodes.iter().any(keeps_bell)
        },
        Variation::ClaimsTakeTurns => |world: &Configuration, state: &State| {
            let waits =
                |(number, node): (u8, &Node)| node.next == Next::RunLook && world.must_wait(state, number);
            state.numbered_nodes().any(waits)
        },
        Variation::WakeChain => return None, // its configurations must fail
    };
    Some(Property::sometimes(variation.label(), condition))
}

fn promises() -> Vec<Property<Configuration>> {
    vec![
        Property::always(NO_LOST_WAKE, |world: &Configuration, state: &State| {
            !(world.is_hungry(state, |node| !node.excused) && world.is_quiet(state))
        }),
        // After a crash: as soon as one survivor has the bell all survivors are served, not only that one.
        Property::always(RECOVERED, |world: &Configuration, state: &State| {
            let has_sentinel = state.nodes.iter().any(Node::holds_bell);
            !(has_sentinel && world.is_hungry(state, |_| true) && world.is_quiet(state))
        }),
        Property::always(NO_LATE_TIMER, |world: &Configuration, state: &State| {
            !(world.has_late_timer(state) && world.is_quiet(state))
        }),
        // The invariant. Without handovers it cannot hold: there the lost wake-up itself is looked for.
        Property::always(EVERY_SLEEPER_COVERED, |world: &Configuration, state: &State| {
            !world.rules.keep(Rule::RingOnLeaving) || !has_uncovered_sleeper(state)
        }),
        Property::always(ONE_BELL_HOLDER, |_, state: &State| {
            state.nodes.iter().filter(|node| node.holds_bell()).count() <= 1
        }),
        Property::always(RINGS_ONLY_FOR_A_SLEEPER, |world: &Configuration, state: &State| {
            let may_ring_for_nobody = world.rules.vary(Variation::LateLeave);
            may_ring_for_nobody || !(state.nodes.iter().any(holds_without_sleeping) && world.is_quiet(state))
        }),
    ]
}

impl Configuration {
    /// Nothing is under way: only the environment, the heartbeat above all, can move this state.
    fn is_quiet(&self, state: &State) -> bool {
        let mut prompt = Vec::new();
        self.prompt_actions(&mut prompt);
        prompt.into_iter().all(|action| self.after_unsorted(state, action).is_none())
    }

    /// There is work that a live node, one of those asked about, has demand for.
    fn is_hungry(&self, state: &State, counts: impl Fn(&Node) -> bool) -> bool {
        self.numbered_plans().any(|(row, plan)| {
            let wants = |node: &Node| node.alive && node.demand.has(plan.queue) && counts(node);
            self.is_claimable(state, row) && state.nodes.iter().any(wants)
        })
    }

    /// A sleeper's timer ends after a row that it wants becomes due.
    fn has_late_timer(&self, state: &State) -> bool {
        self.numbered_plans().any(|(row, plan)| {
            let oversleeps = |node: &Node| {
                let asleep = node.alive && node.next == Next::Asleep && !node.excused;
                asleep && node.demand.has(plan.queue) && node.next_due > plan.due
            };
            let is_to_come = state.row(row) == Row::Ready && plan.due > state.clock;
            is_to_come && state.nodes.iter().any(oversleeps)
        })
    }
}

/// *A node that sleeps with demand holds the bell, or is marked while a live peer holds the bell, or has a
/// handover on its way.*
fn has_uncovered_sleeper(state: &State) -> bool {
    let will_ring = |node: &Node| {
        let lost_bell = node.bell && !node.session; // to be noticed, and rung for after the reconnect
        node.alive && (node.ring_owed || lost_bell || owes_ring(node))
    };
    let handover_owed = state.nodes.iter().any(will_ring);
    state.numbered_nodes().any(|(number, node)| {
        let sleeps = node.listens() && node.next == Next::Asleep && !node.flag;
        let wants = !node.demand.is_empty() && !node.excused;
        let handover_comes = node.inbox.has_handover() || handover_owed;
        let covered = node.bell || (node.mark && (handover_comes || state.peer_holds_bell(number)));
        sleeps && wants && !covered
    })
}

fn holds_without_sleeping(node: &Node) -> bool {
    let sleeps = node.next == Next::Asleep && !node.demand.is_empty();
    node.alive && (node.bell || node.mark) && !sleeps
}
