//! What a server counts, and how Prometheus reads it.

mod meter;
mod text;

pub(crate) use meter::{Meter, attend};
pub(crate) use text::{CONTENT_TYPE, Kind, Text};
