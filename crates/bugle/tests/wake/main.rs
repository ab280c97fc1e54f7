//! How sleepers are woken, against a real PostgreSQL: the rules of docs/wake.md, one race at a time.
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests are tests

mod bell;
mod fixture;
mod listener;
mod loss;
mod node;
mod pace;
mod prepared;
mod pressure;
mod race;
mod seats;
mod shared;
mod sit;
