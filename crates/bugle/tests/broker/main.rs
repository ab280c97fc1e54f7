//! Messages against a real PostgreSQL: each test has a schema of its own.
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests are tests

mod access;
mod broken;
mod dry;
mod fixture;
mod full;
mod generations;
mod maintenance;
mod operate;
mod operator_plans;
mod options;
mod plans;
mod pop;
mod producers;
mod push;
mod races;
mod retry;
mod settle;
mod tagged;
mod tail;
mod transact;
mod waiting;
