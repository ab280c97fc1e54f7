//! Jobs and migrations against a real PostgreSQL: each test has a schema of its own.
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests are tests

mod begin;
mod claim;
mod connections;
mod copy;
mod docs;
mod ends;
mod ends_kept;
mod enqueue;
mod fixture;
mod fuse;
mod migrate;
mod operate;
mod operate_dead;
mod operate_pause;
mod operate_why;
mod outbox;
mod plans;
mod promises;
mod random;
mod restore;
mod server;
mod settle;
mod state_machine;
mod stress;
mod sweep;
mod work;
mod worker;
mod worker_cancel;
mod worker_complete;
mod worker_held;
mod worker_lost;
mod worker_retry;
mod worker_state;
mod worker_verdicts;
