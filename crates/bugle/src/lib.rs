#![doc = include_str!("../../../README.md")]
mod bugle;
pub mod crash;
mod error;
pub mod jobs;
pub mod limits;
pub mod name;
pub mod pg;

pub use bugle::{Bugle, Options};
pub use error::{Error, Outcome};
pub use jobs::{Ctx, Job, JobId, Priority, Verdict, Worker};
