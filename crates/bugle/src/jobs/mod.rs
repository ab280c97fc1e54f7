//! Jobs: work that an application hands to its own code, to be run later, at least once.
//!
//! The path of one job: [`enqueue`](mod@enqueue) writes it, [`Queue::claim`] leases it, a [`Worker`] runs its handler, [`Queue::ack`] ends it,
//! [`Handle::wait`] waits for that.
//!
//! ```
//! use bugle::pg::embedded::{Options, Server};
//! use bugle::{Bugle, Ctx, Job};
//! use tokio_util::sync::CancellationToken;
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Greet {
//!     name: String,
//! }
//!
//! impl Job for Greet {
//!     const KIND: &'static str = "greet";
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = Server::start(Options::ephemeral()).await?; // or your own: Bugle::connect("postgres://...")
//!     let bugle = Bugle::connect(&server.url()).await?;
//!
//!     let mut tx = bugle.begin().await?;
//!     let id = bugle.enqueue(&Greet { name: "Ann".into() }).on(&mut *tx).await?;
//!     tx.commit().await?;
//!
//!     let stop = CancellationToken::new();
//!     let last = stop.clone();
//!     let worker = bugle.worker("default").handle(move |job: Greet, _: Ctx| {
//!         println!("Hello, {}!", job.name);
//!         last.cancel(); // this example ends with its first job
//!         async {}
//!     });
//!     worker.run(stop).await?;
//!
//!     let shown = bugle.show_job(id).await?.ok_or("the job is gone")?;
//!     assert_eq!(shown.row.state, "done");
//!     bugle.pool().close().await;
//!     server.stop().await?;
//!     Ok(())
//! }
//! ```

mod claim;
mod copy;
mod ends;
pub mod enqueue;
mod fuse;
mod handle;
mod hints;
pub mod inspect;
mod job;
mod look;
mod queue;
mod retry;
mod settle;
mod source;
mod statements;
pub mod sweep;
pub mod worker;
mod write;

pub use claim::{Claimed, Look, Receipt};
pub use copy::{EnqueueBulk, Payload};
pub use enqueue::Enqueue;
pub use handle::{End, Ending, Handle, NotDone};
pub use job::{Job, JobId, Priority, State};
pub(crate) use queue::ENGINE_QUEUE;
pub use queue::Queue;
pub use retry::Backoff;
pub(crate) use retry::{TABLE_MAX, Written};
pub(crate) use settle::storable;
pub use settle::{Ended, Failure};
pub use worker::{Ctx, Done, Shared, Verdict, Worker};

pub(crate) use ends::EndSource;
pub(crate) use enqueue::interval;
pub(crate) use fuse::Enqueues;
pub(crate) use queue::Carries;
pub(crate) use source::JobSource;
pub(crate) use statements::Statements;
pub(crate) use worker::Company;
