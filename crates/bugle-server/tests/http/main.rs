//! The broker and workflows over real HTTP, on a real PostgreSQL: each test has a schema and a server of its own.
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests are tests

mod access;
mod ack;
mod fixture;
mod flow;
mod flow_claims;
mod flow_definitions;
mod flow_docs;
mod flow_inspect;
mod flow_metrics;
mod flow_rights;
mod flow_runs;
mod flow_settings;
mod going;
mod health;
mod input;
mod operate;
mod pop;
mod push;
mod rights;
mod slow;
mod tls;
mod transaction;
