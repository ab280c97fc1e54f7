//! The broker and workflows over HTTP: services in any language push, pop and ack; define and start workflows and work on their steps. The wire
//! format of messages is that of Queen MQ 0.15, whose published clients work unchanged; `docs/broker.md` and `docs/flow-http.md` show both with
//! curl.
//!
//! The path of one request: [`Server`] accepts the connection, `routes` finds its handler, an extractor of `access` makes the `Scope` that the
//! handler needs to reach the broker at all, and the handler is a few lines around a call of `bugle::broker`.

mod access;
mod answer;
mod app;
mod body;
mod engine;
mod error;
pub mod limits;
mod maintenance;
mod meter;
mod params;
mod patience;
mod routes;
mod seed;
mod server;
mod tls;

pub use access::{Jwt, JwtError};
pub use error::{Error, Failed};
pub use patience::Patience;
pub use seed::seed_variables;
pub use server::{Options, Server, StartError};
pub use tls::Tls;
