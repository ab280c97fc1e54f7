#![doc = include_str!("../../../README.md")]
pub mod access;
pub mod broker;
mod bugle;
pub mod crash;
mod error;
pub mod flow;
#[doc(hidden)]
pub mod fuse;
pub mod health;
pub mod jobs;
pub mod limits;
pub mod metrics;
pub mod name;
pub mod pg;
pub mod span;
mod statements;
mod wake;

/// What a program sees of the wake engine (docs/wake.md): its options, what it does and what it counts.
pub mod wake_engine {
    pub use bugle_wake::{
        Count, Counters, Distribution, Gauge, Histogram, Holding, Lately, Listens, Node, Options, Path,
        Policy, Raised, Status, Times, TooMany, UnknownMode, Why,
    };
}

pub use bugle::{Bugle, Options};
pub use bugle_wake::Mode;
pub use error::{Error, Outcome};
pub use jobs::{Ctx, Done, End, Ending, Handle, Job, JobId, Priority, Shared, Verdict, Worker};
pub use wake::node_name;
