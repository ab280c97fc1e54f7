//! Workflows on a real PostgreSQL. Each test has a schema of its own; after each the counters are compared with what is worked out from scratch.
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests are tests

mod archive;
mod breaker;
mod claim;
mod definitions;
mod event_queues;
mod fixture;
mod handlers;
mod inspect;
mod inspect_plans;
mod keep;
mod limits;
mod maps;
mod metrics;
mod moved;
mod moves;
mod namespaces;
mod operate;
mod random;
mod replay;
mod routes;
mod settings;
mod settle;
mod shapes;
mod stale;
mod waits;
mod why;
