//! What the coordinators of a process do, for those who watch them.

use bugle_wake::{Count, Room};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the coordinators of a process do, to be read while they run. Cheap to clone.
#[derive(Clone, Default)]
pub struct Board(Arc<Mutex<Written>>);

#[derive(Default)]
struct Written {
    active: HashMap<i32, Coordination>,
    started: u64,
    room: Option<Room>,
    stale: Option<Arc<Count>>,
    unlisted: Option<String>,
    /// By the numbers of namespaces.
    unserved: BTreeMap<i32, Unserved>,
}

/// One namespace on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coordination {
    /// Its name.
    pub namespace: String,
    /// Slots that are its own.
    pub least: u32,
    /// Most slots that it may take.
    pub most: u32,
}

/// A namespace that is not served, although it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unserved {
    /// Its name.
    pub namespace: String,
    /// Why not.
    pub why: String,
}

impl Board {
    /// The namespaces that are served now, by name.
    #[must_use]
    pub fn active(&self) -> Vec<Coordination> {
        let mut active: Vec<_> = self.written().active.values().cloned().collect();
        active.sort_by(|a, b| a.namespace.cmp(&b.namespace));
        active
    }

    /// How many coordinators were ever started.
    #[must_use]
    pub fn started(&self) -> u64 {
        self.written().started
    }

    /// Slots that all namespaces share.
    #[must_use]
    pub fn common_slots(&self) -> u32 {
        self.written().room.as_ref().map_or(0, Room::all)
    }

    /// Common slots that are in use now, or reserved for a look.
    #[must_use]
    pub fn common_slots_taken(&self) -> u32 {
        self.written().room.as_ref().map_or(0, Room::taken)
    }

    /// Steps that were ready for longer than they may while this node could have taken them.
    #[must_use]
    pub fn stale(&self) -> u64 {
        self.written().stale.as_ref().map_or(0, |count| count.get())
    }

    /// Why it is not known which namespaces there are; `None`: it is.
    #[must_use]
    pub fn unlisted(&self) -> Option<String> {
        self.written().unlisted.clone()
    }

    /// Namespaces whose coordinators have ended with an error, or could not be started, and have not been started since.
    #[must_use]
    pub fn unserved(&self) -> Vec<Unserved> {
        self.written().unserved.values().cloned().collect()
    }

    pub(super) fn begin(&self, room: Room, stale: Arc<Count>) {
        let mut written = self.written();
        written.room = Some(room);
        written.stale = Some(stale);
    }

    /// The namespaces were listed, or could not be.
    pub(super) fn listed(&self, fault: Option<String>) {
        self.written().unlisted = fault;
    }

    pub(super) fn start(&self, number: i32, coordination: Coordination) {
        let mut written = self.written();
        written.started += 1;
        written.unserved.remove(&number);
        written.active.insert(number, coordination);
    }

    /// A namespace is not served until it is started.
    pub(super) fn fail(&self, number: i32, namespace: String, why: String) {
        let mut written = self.written();
        written.active.remove(&number);
        written.unserved.insert(number, Unserved { namespace, why });
    }

    pub(super) fn end(&self) {
        let mut written = self.written();
        written.active.clear();
        written.unserved.clear();
        written.unlisted = None;
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board").field("active", &self.active().len()).finish_non_exhaustive()
    }
}
