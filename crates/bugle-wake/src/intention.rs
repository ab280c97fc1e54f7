//! One waiting consumer.

use crate::number::Number;
use crate::path::Given;
use crate::registry::Registry;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Instant;

/// One waiting consumer: registered before the look that serves it. Dropping it hands back at once whatever was claimed for it.
pub struct Intention<W, I> {
    registry: Arc<Registry<W, I>>,
    number: Number,
    id: u64,
}

impl<W, I> Intention<W, I> {
    pub(crate) fn new(registry: Arc<Registry<W, I>>, number: Number, id: u64) -> Self {
        Self { registry, number, id }
    }

    /// Waits for what it wants; `None` when the engine has stopped. One caller at a time.
    ///
    /// Cancelling the wait loses nothing: what was handed out meanwhile is returned by the next call, or handed back on drop.
    pub async fn next(&self) -> Option<I> {
        poll_fn(|context| self.registry.poll_ready(self.number, self.id, context)).await
    }

    /// How what it took last was given to it; `None`: it has taken nothing.
    #[must_use]
    pub fn given(&self) -> Option<Given> {
        self.registry.given(self.number, self.id)
    }

    /// It wants so much more.
    pub fn add(&self, more: u32) {
        self.registry.add(self.number, self.id, more, Instant::now());
    }
}

impl<W, I> Drop for Intention<W, I> {
    fn drop(&mut self) {
        self.registry.withdraw(self.number, self.id, Instant::now());
    }
}
