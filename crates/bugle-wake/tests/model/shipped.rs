//! The protocol as it is built: three differences from the plain one, each alone where it matters, then all together.
use crate::check::holds;
use crate::configurations as worlds;
use crate::rules::{Rule, Variation};

#[test]
fn a_sit_that_rings_itself_loses_nothing() {
    holds(&worlds::two_nodes_woken_from_outside().with(Variation::SitRingsItself));
}

/// The answer to the sit may be lost with the session: the node does not know that it had the bell.
#[test]
fn a_sit_that_rings_itself_survives_a_lost_session() {
    holds(&worlds::a_lost_session().with(Variation::SitRingsItself));
}

#[test]
fn a_sit_that_rings_itself_survives_a_crash() {
    holds(&worlds::three_nodes_and_a_crash().with(Variation::SitRingsItself));
}

#[test]
fn a_node_that_leaves_late_loses_nothing() {
    holds(&worlds::two_nodes_changing_demand().with(Variation::LateLeave));
}

#[test]
fn a_node_that_leaves_late_survives_a_lost_session() {
    holds(&worlds::a_lost_session().with(Variation::LateLeave));
}

#[test]
fn claims_that_take_turns_lose_nothing() {
    holds(&worlds::a_burst_given_back().with(Variation::ClaimsTakeTurns));
}

#[test]
fn claims_that_take_turns_notice_the_end_of_leases() {
    holds(&worlds::leases_that_end().with(Variation::ClaimsTakeTurns));
}

/// No look passes a row over, so there is nothing to report: that part of rule 3 belongs to claims that skip rows.
/// (Where claims skip rows, `broken` shows that this very configuration needs it.)
#[test]
fn claims_that_take_turns_pass_nothing_over() {
    let world = worlds::a_claim_rolled_back().with(Variation::ClaimsTakeTurns);
    holds(&world.breaking(Rule::PassedOverReported));
}

#[test]
fn as_shipped_two_nodes_lose_nothing() {
    holds(&worlds::two_nodes_woken_from_outside().shipped());
}

#[test]
fn as_shipped_steps_that_are_not_merged_lose_nothing() {
    holds(&worlds::every_step_alone().shipped());
}

#[test]
fn as_shipped_changing_demand_loses_nothing() {
    holds(&worlds::two_nodes_changing_demand().shipped());
}

#[test]
fn as_shipped_two_queues_in_a_bucket_lose_nothing() {
    holds(&worlds::two_queues_in_the_bucket().shipped());
}

#[test]
fn as_shipped_a_crash_costs_a_heartbeat_and_no_more() {
    holds(&worlds::two_nodes_and_a_crash().shipped());
}

#[test]
fn as_shipped_a_lost_session_loses_nothing() {
    holds(&worlds::a_lost_session().shipped());
}

#[test]
fn as_shipped_rows_that_are_given_back_are_not_lost() {
    holds(&worlds::a_burst_given_back().shipped());
}

#[test]
fn as_shipped_a_future_row_moves_the_timers_of_sleepers() {
    holds(&worlds::future_rows().shipped());
}

#[test]
fn as_shipped_a_lease_that_ends_is_noticed() {
    holds(&worlds::leases_that_end().shipped());
}

#[test]
fn as_shipped_three_nodes_lose_nothing() {
    holds(&worlds::three_nodes().shipped());
}

#[test]
fn as_shipped_a_burst_wakes_three_nodes() {
    holds(&worlds::three_nodes_and_a_burst().shipped());
}

#[test]
fn as_shipped_a_crash_among_three_nodes_costs_a_heartbeat_and_no_more() {
    holds(&worlds::three_nodes_and_a_crash().shipped());
}

/// Only one node wants the queue that gets work: no claim has another one to wait for.
#[test]
fn as_shipped_three_nodes_with_two_queues_lose_nothing() {
    let world = worlds::three_nodes_two_queues();
    holds(&world.with(Variation::SitRingsItself).with(Variation::LateLeave));
}
