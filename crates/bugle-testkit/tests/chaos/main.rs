//! The fault matrix: each row breaks something while producers and workers are at work, heals it, drains, and lets the checker judge.
//!
//! Short by default; `BUGLE_CHAOS_SECONDS` makes every row longer, `BUGLE_SEED` repeats one.
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests are tests

mod broken;
mod clocks;
mod conflicts;
mod connections;
mod crash_points;
mod disk;
mod flow;
mod fuse;
mod keys;
mod load;
mod messages;
mod open_pushes;
mod place;
mod poison;
mod processes;
mod server;
