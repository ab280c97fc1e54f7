//! Everything Bugle needs from PostgreSQL itself: a server, a pool, migrations.
mod begin;
pub mod connect;
pub mod embedded;
pub mod migrate;

pub use begin::begin;
pub(crate) use begin::{begin_with, watched};
