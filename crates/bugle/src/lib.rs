#![doc = include_str!("../../../README.md")]
mod bugle;
pub mod crash;
mod error;
pub mod jobs;
pub mod limits;
pub mod name;
pub mod pg;
mod wake;

/// What a program sees of the wake engine (docs/wake.md): its options, what it does and what it counts.
pub mod wake_engine {
    pub use bugle_wake::{
        Count, Counters, Histogram, Holding, Node, Options, Policy, Status, Times, TooMany, UnknownMode, Why,
    };
}

pub use bugle::{Bugle, Options};
pub use bugle_wake::Mode;
pub use error::{Error, Outcome};
pub use jobs::{Ctx, Done, Job, JobId, Priority, Shared, Verdict, Worker};
