//! What a process counts, as Prometheus reads it.

mod engine;
mod text;

pub use text::{CONTENT_TYPE, Kind, Text};

use crate::Bugle;

impl Bugle {
    /// What this process has counted in waking and workflows, in Prometheus' text format ([`CONTENT_TYPE`]). It asks no database, and names neither
    /// namespaces nor queues.
    #[must_use]
    pub fn metrics(&self) -> String {
        let mut text = Text::default();
        self.write_metrics(&mut text);
        text.finish()
    }

    /// The same, into a text that says more.
    pub fn write_metrics(&self, text: &mut Text) {
        if let Some(node) = self.node() {
            engine::write(node, text);
        }
        self.flow_counters().write(text);
    }
}
