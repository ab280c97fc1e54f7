//! What people do with queues of messages and their groups, and what they see: behind the admin routes, the command line and the dashboard.

mod dead;
mod groups;
mod maintenance;
mod messages;
mod queues;

pub use dead::DeadMessage;
pub use groups::{GroupRow, LagRow, Seek};
pub use maintenance::Maintenance;
pub use messages::{Filter, GroupView, MessageRow, MessageView};
pub use queues::{PartitionRow, QueueOptions, QueueRow, Tags};
