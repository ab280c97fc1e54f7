//! Runs in a file, and from it into another database: [`Flow::export`](crate::flow::Flow::export) and [`Flow::import`](crate::flow::Flow::import).
//!
//! The file is a line of JSON for each thing: a header, the definitions, and of each run what it was started with, its values, its log, and what the log does
//! not say (`format.rs`). The steps are not in it: whoever imports works them out from the log (`rebuild.rs`), and the tables are those of the database that
//! the run came from.

mod export;
mod fault;
mod format;
mod import;
mod lines;
mod rebuild;
mod write;

pub use export::{Exported, Which};
pub use fault::{Cause, ExportError, ImportError};
pub use format::FORMAT;
pub use import::{ImportOptions, Imported};
