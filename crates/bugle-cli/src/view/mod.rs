//! What Bugle is doing right now, for a person to watch.
//!
//! A [`Poller`] asks the database once a second and fills a [`Snapshot`]; [`render()`] draws one, and so does [`line()`] where there is
//! no terminal to draw on. Nothing in here knows who runs the workers, so that every live view can use it.

mod line;
mod poll;
mod render;
mod snapshot;

pub(crate) use line::line;
pub(crate) use poll::Poller;
pub(crate) use render::render;
pub(crate) use snapshot::{Counts, History, Percentiles, Snapshot, WorkerLine};
