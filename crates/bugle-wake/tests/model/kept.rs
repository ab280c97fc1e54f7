//! The rules as they are: no wake-up is lost.
use crate::check::holds;
use crate::configurations as worlds;
use crate::rules::Rule;

#[test]
fn two_nodes_that_a_heartbeat_or_a_local_push_wakes_lose_nothing() {
    holds(&worlds::two_nodes_woken_from_outside());
}

#[test]
fn steps_that_are_not_merged_lose_nothing() {
    holds(&worlds::every_step_alone());
}

#[test]
fn demand_that_comes_and_goes_loses_nothing() {
    holds(&worlds::two_nodes_changing_demand());
}

#[test]
fn two_queues_that_share_a_bucket_lose_nothing() {
    holds(&worlds::two_queues_in_the_bucket());
}

#[test]
fn a_crash_costs_a_heartbeat_and_no_more() {
    holds(&worlds::two_nodes_and_a_crash());
}

#[test]
fn a_lost_session_loses_nothing() {
    holds(&worlds::a_lost_session());
}

#[test]
fn rows_that_are_given_back_are_not_lost() {
    holds(&worlds::a_burst_given_back());
}

#[test]
fn a_claim_that_is_rolled_back_is_not_lost() {
    holds(&worlds::a_claim_rolled_back());
}

#[test]
fn a_future_row_moves_the_timers_of_sleepers() {
    holds(&worlds::future_rows());
}

#[test]
fn a_lease_that_ends_is_noticed() {
    holds(&worlds::leases_that_end());
}

#[test]
fn three_nodes_lose_nothing() {
    holds(&worlds::three_nodes());
}

#[test]
fn a_crash_among_three_nodes_costs_a_heartbeat_and_no_more() {
    holds(&worlds::three_nodes_and_a_crash());
}

#[test]
fn three_nodes_with_two_queues_lose_nothing() {
    holds(&worlds::three_nodes_two_queues());
}

#[test]
fn a_burst_wakes_three_nodes() {
    holds(&worlds::three_nodes_and_a_burst());
}

/// Rule 9 is needed only because queues share a bucket.
#[test]
fn with_one_queue_it_is_enough_that_the_sentinel_looks() {
    holds(&worlds::two_nodes_woken_from_outside().breaking(Rule::EveryNodeLooks));
}
