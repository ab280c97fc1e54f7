//! A run's events in order, and their file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use super::{Event, Phase};

/// The events of a run, sorted by time and numbered from 1. A red run is saved and can be judged again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    events: Vec<Event>,
}

impl History {
    /// Sorts and numbers `events`.
    ///
    /// Of two events in the same nanosecond, an invoke goes first: their calls then count as concurrent, which
    /// accuses nobody.
    #[must_use]
    pub fn new(mut events: Vec<Event>) -> Self {
        events.sort_by_key(|event| (event.t_ns, event.phase != Phase::Invoke));
        for (n, event) in (1..).zip(&mut events) {
            event.n = n;
        }
        Self { events }
    }

    /// The events, in order.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The events, to be changed and made a history again.
    #[must_use]
    pub fn into_events(self) -> Vec<Event> {
        self.events
    }

    /// Writes one JSON line per event.
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        for event in &self.events {
            serde_json::to_writer(&mut file, event)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    }

    /// Reads what [`History::save`] wrote.
    pub fn load(path: impl AsRef<Path>) -> io::Result<Self> {
        let mut events = Vec::new();
        for line in BufReader::new(File::open(path)?).lines() {
            events.push(serde_json::from_str(&line?)?);
        }
        Ok(Self::new(events))
    }
}
