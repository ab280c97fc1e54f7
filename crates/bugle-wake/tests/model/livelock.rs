//! No prompt steps go round for ever: whatever is under way comes to rest.
use crate::configuration::Configuration;
use crate::configurations::is_large;
use crate::cycles::{has_fair_cycle, has_no_fair_cycle};
use crate::state::Budgets;

const LET_GO: Budgets = Budgets::LET_GO;

/// The cover test is one step here: see the last test.
fn world(name: &'static str) -> Configuration {
    Configuration::new(name).numbered().with_cover_test_at_once().rows(&[(0, 0, 0)]).may(LET_GO)
}

fn two_nodes() -> Configuration {
    let world = world("cycles: 2 nodes");
    if is_large() {
        let budgets = Budgets { arrivals: 1, cancellations: 1, ..LET_GO };
        world.rows(&[(0, 0, 0), (1, 0, 0)]).may(budgets)
    } else {
        world
    }
}

fn a_lost_session() -> Configuration {
    world("cycles: 2 nodes, a lost session").may(Budgets { session_losses: 1, ..LET_GO })
}

#[test]
fn two_nodes_come_to_rest() {
    has_no_fair_cycle(&two_nodes());
}

#[test]
fn two_nodes_with_two_queues_come_to_rest() {
    let world = world("cycles: 2 nodes, 2 queues").nodes(&[0, 1]).rows(&[(0, 0, 0), (1, 1, 0)]);
    let cancellations = u8::from(is_large());
    has_no_fair_cycle(&world.may(Budgets { cancellations, ..LET_GO }));
}

#[test]
fn a_lost_session_comes_to_rest() {
    has_no_fair_cycle(&a_lost_session());
}

#[test]
fn three_nodes_with_a_crash_come_to_rest() {
    let world = world("cycles: 3 nodes, a crash").nodes(&[0, 0, 0]);
    let lettings_go = u8::from(is_large());
    has_no_fair_cycle(&world.may(Budgets { crashes: 1, lettings_go, ..Budgets::NONE }));
}

#[test]
fn as_shipped_two_nodes_come_to_rest() {
    has_no_fair_cycle(&two_nodes().shipped());
}

#[test]
fn as_shipped_a_lost_session_comes_to_rest() {
    has_no_fair_cycle(&a_lost_session().shipped());
}

/// The cover test holds the shared side of the bell for a moment: two nodes in lockstep refuse each other for ever.
/// In the real thing a random R ends that (rule 5). This also shows that the search finds a cycle where there is one.
#[test]
fn two_nodes_in_lockstep_refuse_each_other_without_a_random_pause() {
    let world = Configuration::new("cycles: lockstep").numbered().may(LET_GO);
    has_fair_cycle(&if is_large() { world } else { world.rows(&[(0, 0, 0)]) });
}
