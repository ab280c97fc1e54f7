//! The means of proof: a temporary PostgreSQL, faults, a history of what clients saw, and a checker for it.
pub mod chaos;
pub mod checker;
pub mod history;
pub mod pgbouncer;
pub mod postgres;
pub mod proxy;
mod wait;

pub use wait::{SOON, until};
