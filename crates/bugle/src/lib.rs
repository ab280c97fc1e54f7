//! Bugle: work dispatch on the PostgreSQL you already run.
pub mod pg;
