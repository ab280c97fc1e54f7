//! A provider for the `duroxide` crate on PostgreSQL: orchestrations and activities are woken when there is something to do, and an idle
//! fleet leaves the database alone.
//!
//! ```no_run
//! # async fn example() -> Result<(), bugle_duroxide::Error> {
//! use bugle_duroxide::PostgresProvider;
//! use std::sync::Arc;
//!
//! let provider = Arc::new(PostgresProvider::new_with_long_poll("postgres://localhost/app").await?);
//! // duroxide::runtime::Runtime::start_with_store(provider, activities, orchestrations).await
//! # let _ = provider; Ok(())
//! # }
//! ```
//!
//! How it works is told in `docs/durable.md`; how waiting works in `docs/wake.md`.

mod ack_turn;
mod cache;
mod config;
mod engine;
mod find;
mod history;
mod items;
mod manage;
mod metrics;
mod options;
mod provider;
mod runtime;
mod schema;
mod statements;
mod stats;
mod store;
mod text;
mod together;
mod token;
mod told;
mod turns;
mod work;

pub use bugle::Error;
pub use bugle::name::SchemaName;
pub use bugle::pg::migrate::Policy;
pub use bugle_wake::{Distribution, Why};
pub use config::LongPollConfig;
pub use find::{FinishedGroup, Found, Which};
pub use metrics::{KindMetrics, Metric, Metrics, Value};
pub use options::{DEFAULT_SCHEMA, Options, POOL_MAX_VARIABLE};
pub use provider::PostgresProvider;
pub use schema::DUROXIDE;
pub use stats::{Depth, InstanceCounts, Stats};

/// The page's program compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/durable.md")]
struct Page;

/// So do those of the guide for users of other providers.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/durable-migration.md")]
struct Guide;
