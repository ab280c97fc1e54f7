//! Workflows on a real PostgreSQL. Each test has a schema of its own; after each the counters are compared with what is worked out from scratch.
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests are tests

mod claim;
mod definitions;
mod fixture;
mod handlers;
mod inspect;
mod inspect_plans;
mod maps;
mod moves;
mod namespaces;
mod operate;
mod random;
mod replay;
mod settle;
mod shapes;
mod stale;
mod waits;
mod why;
