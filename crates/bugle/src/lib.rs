#![doc = include_str!("../../../README.md")]
mod bugle;
pub mod crash;
mod error;
pub mod jobs;
pub mod limits;
pub mod name;
pub mod pg;
mod wake;

pub use bugle::{Bugle, Options};
pub use bugle_wake as wake_engine;
pub use bugle_wake::Mode;
pub use error::{Error, Outcome};
pub use jobs::{Ctx, Done, End, Ending, Handle, Job, JobId, Priority, Shared, Verdict, Worker};
