//! The provider against a real PostgreSQL: what waits is woken on time, what is lost comes back, and the database does no more than it must.
//! Each test has a schema of its own; where something could be found by accident the heartbeat is far away or the lease is long.
//!
//! The seeds' test plans, and where each of their tests is. The wake engine has shown them for jobs (`crates/bugle/tests/pump`); here they are
//! shown once more through the provider.
//!
//! | seed 000 | here |
//! |---|---|
//! | 1 triggers exist after the migration | no triggers: what writes rings, `rings::an_ack_rings_for_everything_that_it_makes_runnable`; the migration: `schema::nodes_that_start_together_migrate_once` |
//! | 2 NOTIFY on insert for orchestrators and workers; its payload tells the time | `rings::a_start_rings_for_turns_and_an_activity_for_work`; a payload tells no time, the look does: `rings::what_is_for_later_rings_now_and_the_look_says_when` |
//! | 3 waits when there is no work; returns at once when there is | `waiting::a_wait_ends_after_the_longest_wait_of_the_configuration`, `rings::what_is_there_already_is_fetched_at_once_and_rang_for_nobody` |
//! | 4 wakes on NOTIFY | `rings::a_start_rings_for_turns_and_an_activity_for_work` |
//! | 5 timer wakes at the right time | `on_time::a_timer_fires_on_time` |
//! | 6 one wakes per NOTIFY; a single winner | `rings::of_four_who_wait_one_gets_the_only_turn_by_one_look`, `rings::of_those_who_wait_on_two_nodes_one_gets_the_only_turn` |
//! | 7 a wake enters aggressive mode | only faults do: `alert::neither_a_ring_nor_a_timer_is_an_alert` |
//! | 8 a failed fetch enters it | `alert::looks_that_are_refused_begin_an_alert_and_prolong_it` |
//! | 9 errors now and then hold it | the same; now and then: `it_stays_while_looks_fail_now_and_then` of the engine |
//! | 10 leaves after the minimum and enough empty fetches | `alert::an_alert_ends_after_its_shortest_time_and_enough_empty_looks` |
//! | 11 stays while work is found | `alert::an_alert_lasts_while_turns_are_found` |
//! | 11b a NOTIFY that nobody takes in time enters it | `alert::a_ring_that_no_look_follows_in_time_begins_an_alert` |
//! | 12 the listener reconnects | `alert::a_listener_whose_session_was_ended_comes_back_and_is_rung_for`, `faults::listeners_that_are_cut_again_and_again_miss_nothing` |
//! | 13 polls when the listener fails | `alert::without_its_listener_a_node_polls_until_it_has_one_again` |
//! | 14 nobody waits who did not ask to | `waiting::a_fetch_that_may_not_wait_does_not` |
//! | 15 throughput | `stress::parallel_orchestrations_all_complete`; how much is a benchmark |
//! | 16 idle query load | `idle::an_idle_runtime_is_silent_between_heartbeats`, `idle::a_heartbeat_of_an_idle_runtime_is_three_statements_at_most` |
//!
//! | seed 001 | here |
//! |---|---|
//! | 1, 2, 3 triggers, NOTIFY, payload | as 1 and 2 above |
//! | 4 immediate wake | `rings::a_start_rings_for_turns_and_an_activity_for_work`; how fast is a benchmark |
//! | 5 timer wake | `on_time::a_timer_fires_on_time` |
//! | 6 four dispatchers, one item, one query | `rings::of_four_who_wait_one_gets_the_only_turn_by_one_look` |
//! | 7 fallback without NOTIFY | `rings::what_no_ring_announced_is_found_by_the_fallback_and_is_an_alarm` |
//! | 8 an earlier timer later | `on_time::an_earlier_timer_that_comes_later_fires_at_its_own_time` |
//! | 9 throughput | as 15 above |
//! | 10 idle load | as 16 above |
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests are tests

mod alert;
mod close;
mod faults;
mod find;
mod fixture;
mod idle;
mod leases;
mod memory;
mod metrics;
mod on_time;
mod plans;
mod rings;
mod runtime;
mod schema;
mod stress;
mod together;
mod unanswered;
mod waiting;
mod written;
