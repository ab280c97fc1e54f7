//! The pump against a real PostgreSQL: who waits is served, on time, by one look, and an idle node is silent. Each test has a schema of
//! its own; where something could be found by accident the heartbeat is an hour away.
//!
//! The seeds' test plans, and where each of their tests is. What they ask of a dispatcher is asked here of an intention or a worker,
//! what they ask of their two tables, of any queue. `store` and `wake` are the suites beside this one.
//!
//! | seed 000 | here |
//! |---|---|
//! | 1 triggers exist after the migration | no triggers: the functions that write ring; `store::migrate` |
//! | 2 NOTIFY on insert, payload | `wake`: who rings, what a payload says; not when nobody sleeps: `modes::polling_only_holds_nothing_…` |
//! | 3 waits when there is no work; returns at once when there is | `cancelled::a_deadline_answers_none_…`, `intentions::what_is_there_already_…` |
//! | 4 wakes on NOTIFY | `intentions::a_hundred_wait_one_job_comes_…` |
//! | 5 timer wakes at the right time | `timers::a_sleeping_node_begins_a_job_when_it_is_due_…` |
//! | 6 one wakes per NOTIFY; a single winner | `intentions::a_hundred_wait_one_job_comes_…` |
//! | 7 a wake enters aggressive mode | `alert::under_on_wake_…`; by default only faults do: `alert::under_on_fault_…` |
//! | 8 a failed fetch enters it | `alert::looks_that_are_refused_…`, `alert::a_look_whose_session_is_ended_…` |
//! | 9 errors now and then hold it | `alert::looks_that_are_refused_…` |
//! | 10 leaves after the minimum and enough empty fetches | `alert::it_leaves_only_when_the_minimum_has_passed`, `alert::it_leaves_only_after_enough_empty_looks` |
//! | 11 stays while work is found | `alert::it_stays_while_work_is_found_…` |
//! | 11b a NOTIFY that nobody takes in time enters it | `alert::a_ring_that_no_look_answers_in_time_enters` |
//! | 12 the listener reconnects | `alert::a_listener_whose_session_was_ended_…` |
//! | 13 polls when the listener fails | `alert::a_node_without_its_listener_polls_…` |
//! | 14 nobody waits who did not ask to | `cancelled::a_claim_without_waiting_answers_at_once`, `idle::a_process_that_only_enqueues_starts_no_engine` |
//! | table: fallback timeout, channel full | `fallback::work_whose_ring_was_lost_…`, `alert::more_notifications_than_are_read_…` |
//! | 16 idle query load | `idle` |
//!
//! | seed 001 | here |
//! |---|---|
//! | 1, 2, 3 triggers, NOTIFY, payload | as 1 and 2 above; a payload carries no time, a look brings it: `timers` |
//! | 4 immediate wake | `intentions::a_hundred_wait_one_job_comes_…`; how fast is a benchmark |
//! | 5 timer wake | `timers::a_sleeping_node_begins_a_job_when_it_is_due_…` |
//! | 6 four dispatchers, one job, one query | `intentions::a_hundred_wait_one_job_comes_…`, `intentions::a_worker_of_sixteen_slots_…` |
//! | 7 fallback without NOTIFY | `fallback::work_whose_ring_was_lost_…`, `modes::hybrid_…` |
//! | 8 an earlier timer later | `timers::an_earlier_job_that_comes_later_…` |
//! | 9 throughput | `store::stress`; how much is a benchmark |
//! | 10 idle load | `idle` |
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests are tests

mod alert;
mod cancelled;
mod demand;
mod ends;
mod ends_races;
mod fallback;
mod fixture;
mod idle;
mod intentions;
mod modes;
mod pause;
mod quick;
mod timers;
