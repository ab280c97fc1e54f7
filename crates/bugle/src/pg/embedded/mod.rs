//! A private PostgreSQL server, started and stopped by Bugle.
//!
//! `bugle serve` without a database URL runs one of these; so do the tests. The server lives in one
//! folder of its own, listens on a Unix socket and on a free loopback port, asks everybody for a
//! generated password, and keeps PostgreSQL's durable settings.
//!
//! ```no_run
//! # async fn example() -> Result<(), bugle::pg::embedded::Error> {
//! use bugle::pg::embedded::{Options, Server};
//!
//! let server = Server::start(Options::at(Options::default_dir()?)).await?;
//! println!("psql {}", server.url());
//! server.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Who else uses it
//!
//! [`Server::start_or_join`] finds the address of a server that a live Bugle runs in the folder and uses that one, so that several
//! commands at once work on one folder. The server ends with its owner.
//!
//! # Who ends what
//!
//! * [`Server::stop`] is the orderly way.
//! * A dropped [`Server`], or a Bugle that died (`kill -9` included), closes a pipe; the
//!   lifeline at its other end stops PostgreSQL.
//! * Whatever outlives even that (somebody killed the lifeline too) is stopped by the next start in
//!   the same folder. It is never adopted: a server started anew is known to have this version's
//!   settings and a parent that waits for it, and costs well under a second.

mod account;
mod binaries;
mod config;
mod create;
mod data_dir;
mod error;
mod guest;
mod launch;
mod leftovers;
mod lifeline;
mod options;
mod postmaster;
mod server;

pub use error::Error;
pub use guest::{Embedded, Guest, Stay};
pub use options::Options;
pub use server::Server;
