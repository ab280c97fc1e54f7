//! Each rule broken once: every break must be found. A rule whose break is not found is not needed, or not modelled.
use crate::check::breaks;
use crate::configuration::Configuration;
use crate::configurations::a_claim_rolled_back;
use crate::properties::{NO_LATE_TIMER, NO_LOST_WAKE, RECOVERED};
use crate::rules::{Rule, Variation};
use crate::state::Budgets;

const SOME: Budgets = Budgets { cancellations: 1, ..Budgets::LET_GO };

/// In the plain protocol, and as it is shipped.
fn is_found(world: Configuration, promise: &'static str) {
    breaks(&world, promise);
    breaks(&world.shipped(), promise);
}

/// Two nodes, one queue, two producers.
fn plain(name: &'static str) -> Configuration {
    Configuration::new(name).numbered().may(SOME)
}

/// A node for each of the two queues in the bucket.
fn two_queues(name: &'static str) -> Configuration {
    plain(name).nodes(&[0, 1]).rows(&[(0, 0, 0), (1, 1, 0)]).may(Budgets::NONE)
}

#[test]
fn a_flag_read_instead_of_a_lock_held_is_found() {
    is_found(plain("a flag instead of a lock").breaking(Rule::BellKeptToCommit), NO_LOST_WAKE);
}

#[test]
fn a_missing_second_look_is_found() {
    is_found(plain("no second look").breaking(Rule::SecondLook), NO_LOST_WAKE);
}

#[test]
fn a_refused_try_taken_for_a_sentinel_is_found() {
    is_found(plain("no cover test").breaking(Rule::CoverTest), NO_LOST_WAKE);
}

#[test]
fn a_mark_taken_after_the_cover_test_is_found() {
    is_found(plain("mark after the test").breaking(Rule::MarkBeforeTest), NO_LOST_WAKE);
}

#[test]
fn a_silent_letting_go_is_found() {
    is_found(plain("silent letting go").breaking(Rule::RingOnLeaving), NO_LOST_WAKE);
}

#[test]
fn a_ring_before_the_unlock_is_found() {
    is_found(plain("ring before unlock").breaking(Rule::UnlockBeforeRing), NO_LOST_WAKE);
}

#[test]
fn a_handover_that_only_causes_a_look_is_found() {
    is_found(plain("handover only looks").breaking(Rule::SitOnHandover), NO_LOST_WAKE);
}

#[test]
fn a_handover_read_before_the_answer_and_forgotten_is_found() {
    is_found(plain("handover before the answer").breaking(Rule::HandoverVoidsAnswer), NO_LOST_WAKE);
}

#[test]
fn a_flag_cleared_after_the_look_is_found() {
    is_found(plain("flag cleared late").breaking(Rule::FlagClearedBeforeLook), NO_LOST_WAKE);
}

#[test]
fn rows_passed_over_and_then_rolled_back_are_found() {
    breaks(&a_claim_rolled_back().numbered().breaking(Rule::PassedOverReported), NO_LOST_WAKE);
}

#[test]
fn rows_passed_over_whose_claimer_crashes_are_found() {
    let world = plain("passed over, claimer crashes").may(Budgets { crashes: 1, ..Budgets::NONE });
    breaks(&world.breaking(Rule::PassedOverReported), NO_LOST_WAKE);
}

#[test]
fn a_future_row_without_the_check_is_found() {
    let world = plain("future row unchecked").rows(&[(0, 0, 1), (1, 0, 2)]).clock(2, 0);
    is_found(world.breaking(Rule::CheckOfFutureRows), NO_LATE_TIMER);
}

#[test]
fn a_release_without_the_check_is_found() {
    let world = plain("release unchecked").may(Budgets { abandons: 1, ..SOME });
    is_found(world.breaking(Rule::CheckOnRelease), NO_LOST_WAKE);
}

#[test]
fn a_new_intention_without_a_look_is_found() {
    let world = two_queues("arrival without a look").may(Budgets { arrivals: 1, ..SOME });
    is_found(world.breaking(Rule::LookOnArrival), NO_LOST_WAKE);
}

#[test]
fn a_ring_that_only_the_sentinel_hears_is_found() {
    is_found(two_queues("only the sentinel looks").breaking(Rule::EveryNodeLooks), NO_LOST_WAKE);
}

#[test]
fn a_silent_reconnect_is_found() {
    let world = plain("silent reconnect").rows(&[(0, 0, 0)]).may(Budgets { session_losses: 1, ..SOME });
    is_found(world.breaking(Rule::RingOnReconnect), NO_LOST_WAKE);
}

#[test]
fn a_new_sentinel_that_keeps_it_to_itself_is_found() {
    let world = plain("no ring on taking").nodes(&[0, 1, 1]).rows(&[(0, 1, 0)]);
    let world = world.may(Budgets { crashes: 1, wakes: 1, ..Budgets::NONE });
    is_found(world.breaking(Rule::RingOnTaking), RECOVERED);
}

/// The protocol of one sleeper and one queue, extended without thinking.
fn naive(name: &'static str) -> Configuration {
    Configuration::new(name)
        .numbered()
        .breaking(Rule::CoverTest)
        .breaking(Rule::RingOnLeaving)
        .breaking(Rule::RingOnTaking)
        .breaking(Rule::PassedOverReported)
        .breaking(Rule::RingOnReconnect)
        .with(Variation::WakeChain)
}

#[test]
fn the_naive_extension_is_found() {
    breaks(&naive("naive").producers_may_abort().may(SOME), NO_LOST_WAKE);
}

#[test]
fn the_naive_extension_is_found_when_the_sentinel_lets_go() {
    breaks(&naive("naive, letting go").may(Budgets::LET_GO), NO_LOST_WAKE);
}

#[test]
fn the_naive_extension_is_found_without_anything_special() {
    breaks(&naive("naive, plain"), NO_LOST_WAKE);
}

/// "A look that got something wakes the peers", instead of "who lets go rings".
fn chain(name: &'static str) -> Configuration {
    Configuration::new(name)
        .numbered()
        .may(Budgets::LET_GO)
        .with(Variation::WakeChain)
        .breaking(Rule::RingOnLeaving)
}

#[test]
fn a_wake_chain_does_not_replace_the_handover() {
    breaks(&chain("chain, peers sit again"), NO_LOST_WAKE);
}

#[test]
fn a_wake_chain_whose_peers_only_look_does_not_either() {
    breaks(&chain("chain, peers only look").breaking(Rule::SitOnHandover), NO_LOST_WAKE);
}

#[test]
fn a_granted_sit_whose_answer_is_lost_and_forgotten_is_found() {
    let world = plain("unanswered sit forgotten").rows(&[(0, 0, 0)]);
    let world = world.may(Budgets { session_losses: 1, ..SOME });
    breaks(&world.with(Variation::SitRingsItself).breaking(Rule::UnansweredSitCounts), NO_LOST_WAKE);
}

#[test]
fn a_waiting_look_with_an_old_snapshot_is_found() {
    let world = plain("waiting look, old snapshot").rows(&[(0, 0, 0)]).clock(2, 1).may(Budgets::NONE);
    let world = world.with(Variation::ClaimsTakeTurns).breaking(Rule::SnapshotAfterWait);
    breaks(&world, NO_LOST_WAKE);
}
