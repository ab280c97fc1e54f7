//! The process that is never killed and keeps what the others saw.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::clock::monotonic_ns;
use super::{Event, History, RecorderClient};

/// What a recorder sends through its own endpoint to learn that every connection before it has been accepted.
const LAST_IN_LINE: &[u8] = b"last in line\n";

/// Keeps the events of a run; cheap to clone.
#[derive(Clone, Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    began_ns: u64,
    kept: Mutex<Kept>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Kept {
    events: Vec<Event>,
    endpoints: Vec<PathBuf>,
    connections: usize,
    heard_last_in_line: usize,
    torn: u64,
    malformed: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// An empty recorder; its history's time begins now.
    #[must_use]
    pub fn new() -> Self {
        let shared = Shared { began_ns: monotonic_ns(), kept: Mutex::default(), changed: Condvar::new() };
        Self { shared: Arc::new(shared) }
    }

    /// A client for this process.
    #[must_use]
    pub fn client(&self) -> RecorderClient {
        RecorderClient::in_process(self.clone())
    }

    /// Opens a Unix socket at `path` for child processes. Served by threads of its own, not by the runtime under
    /// test: a busy runtime must not hold up the witnesses.
    pub fn listen(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let listener = UnixListener::bind(path.as_ref())?;
        self.kept().endpoints.push(path.as_ref().to_owned());
        let recorder = self.clone();
        thread::Builder::new().name("recorder".into()).spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                recorder.kept().connections += 1;
                let reader = recorder.clone();
                thread::spawn(move || reader.read(stream));
            }
        })?;
        Ok(())
    }

    /// What has been recorded so far, sorted.
    #[must_use]
    pub fn history(&self) -> History {
        let mut events = self.kept().events.clone();
        for event in &mut events {
            event.t_ns = event.t_ns.saturating_sub(self.shared.began_ns);
        }
        History::new(events)
    }

    /// How many events have been recorded so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.kept().events.len()
    }

    /// Reads what the children wrote to the end, then gives the history. The children must have ended, or closed
    /// their clients; fails if a connection is still open after `timeout`.
    pub fn finish(&self, timeout: Duration) -> io::Result<History> {
        let endpoints = self.kept().endpoints.clone();
        let heard_before = self.kept().heard_last_in_line;
        for path in &endpoints {
            UnixStream::connect(path)?.write_all(LAST_IN_LINE)?;
        }
        let pending = |kept: &mut Kept| {
            kept.connections > 0 || kept.heard_last_in_line < heard_before + endpoints.len()
        };
        let waited = self.shared.changed.wait_timeout_while(self.kept(), timeout, pending);
        let (kept, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            let open = kept.connections;
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{open} connections still open")));
        }
        drop(kept);
        Ok(self.history())
    }

    /// How many children died in the middle of a line. The line is dropped: what it announced was not sent yet,
    /// or its answer counts as unknown.
    #[must_use]
    pub fn torn(&self) -> u64 {
        self.kept().torn
    }

    /// How many whole lines could not be read: a mistake in a client, never the work of a fault.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.kept().malformed
    }

    pub(super) fn keep(&self, event: Event) {
        self.kept().events.push(event);
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, stream: UnixStream) {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        // A read error is a connection that ended badly; what came before it counts all the same.
        while reader.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            self.keep_line(&line);
            line.clear();
        }
        self.kept().connections -= 1;
        self.shared.changed.notify_all();
    }

    fn keep_line(&self, line: &[u8]) {
        if line == LAST_IN_LINE {
            self.kept().heard_last_in_line += 1;
        } else if !line.ends_with(b"\n") {
            self.kept().torn += 1;
        } else if let Ok(event) = serde_json::from_slice(line) {
            self.keep(event);
        } else {
            self.kept().malformed += 1;
        }
    }
}
