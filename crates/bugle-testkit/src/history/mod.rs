//! What clients and workers saw, event by event.
//!
//! Every operation is a *call*: an `invoke` recorded before it is sent, and the answer recorded after it came.
//! A call whose client died, or was cut off, has no second event: it may have happened.
//!
//! One event tells of one call, with an [`Item`] for each job it concerns: a claim of 500 is one line, one write
//! and one moment. A call that is answered in part has two answers: an `ok` with the accepted items and a
//! `refused` with the others.
//!
//! ```
//! use bugle_testkit::history::{Event, Item, Op, Recorder};
//!
//! let recorder = Recorder::new();
//! let client = recorder.client(); // in a child process: RecorderClient::connect(path)?
//! let call = client.invoke(Event::new("worker-3#2", Op::Ack).queue("mail").items([Item::job(7).token(41)]))?;
//! // ... send the ack, wait for the answer ...
//! call.ok(|answer| answer.items([Item::job(7).token(41)]))?;
//! assert_eq!(recorder.history().events().len(), 2);
//! # Ok::<(), std::io::Error>(())
//! ```

mod client;
mod clock;
mod event;
mod recorder;
mod timeline;

pub use client::{Call, FaultWindow, Moment, RecorderClient};
pub use event::{Event, Fault, FaultKind, Item, Op, Phase};
pub use recorder::Recorder;
pub use timeline::History;
