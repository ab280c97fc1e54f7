//! Chaos: producers and workers in processes of their own, faults while they are at work, and a verdict afterwards.
//!
//! A [`Run`] has a place in a database, a recorder and any number of [`Node`]s. The test breaks something, heals it, and calls
//! [`Run::finish`]: what is left is drained, the tables are read, and the checker judges what every client saw.

mod books;
pub mod broken;
mod calls;
mod clock;
mod flow;
mod flow_run;
mod message_run;
mod messages;
mod node;
mod producer;
mod run;
mod worker;

pub use books::read as read_books;
pub use calls::{Due, Recorded, Within};
pub use clock::Clock;
pub use flow_run::FlowReport;
pub use messages::{GROUPS, LAG_MAX, Messenger, PARTITIONS, token as message_token};
pub use node::{Config, Flaw, Node, Role, main as node_main};
pub use producer::NAMESAKES;
pub use run::{QUEUE, Run, seconds, seed};
pub use worker::POISON;
