//! Jobs: work that an application hands to its own code, to be run later, at least once.
//!
//! The path of one job: [`enqueue`](mod@enqueue) writes it, [`Queue::claim`] leases it, a [`Worker`] runs its handler, [`Queue::ack`] ends it.

mod claim;
pub mod enqueue;
pub mod inspect;
mod job;
mod queue;
mod retry;
mod settle;
mod statements;
pub mod sweep;
pub mod worker;

pub use claim::{Claimed, Look, Receipt};
pub use enqueue::Enqueue;
pub use job::{Job, JobId, Priority, State};
pub use queue::Queue;
pub use retry::Backoff;
pub use settle::{Ended, Failure};
pub use worker::{Ctx, Verdict, Worker};

pub(crate) use statements::Statements;
