//! Jobs and migrations against a real PostgreSQL: each test has a schema of its own.
mod claim;
mod enqueue;
mod fixture;
mod migrate;
mod operate;
mod settle;
mod state_machine;
mod stress;
mod sweep;
mod worker;
