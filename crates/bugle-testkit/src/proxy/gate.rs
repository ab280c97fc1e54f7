//! Holding a statement until a test says go.
use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use super::rule::{ActiveFault, Rule};

/// Everybody may pass.
const OPEN: u64 = u64::MAX;

/// The two counters of a gate: who came, and how many of them may go on.
#[derive(Clone)]
pub(super) struct Hold {
    arrived: watch::Sender<u64>,
    admitted: watch::Sender<u64>,
}

impl Hold {
    pub(super) fn new() -> Self {
        Self { arrived: watch::Sender::new(0), admitted: watch::Sender::new(0) }
    }

    /// Announces a statement and waits until it may pass.
    pub(super) async fn wait(&self, rule: &Arc<Rule>) {
        let mut admitted = self.admitted.subscribe();
        let mut ticket = 0;
        self.arrived.send_modify(|arrived| {
            *arrived += 1;
            ticket = *arrived;
        });
        rule.hit();
        // `self` owns the sender: it cannot be closed while we wait.
        let _closed = admitted.wait_for(|admitted| *admitted >= ticket).await;
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} arrived", *self.arrived.borrow())
    }
}

/// Holds matching statements before anything of them reaches PostgreSQL, until the test lets them go.
///
/// Each connection that runs into the gate stands still with all that it sends afterwards; a client that gives
/// up meanwhile is not noticed, its statement is merely late. Dropping the gate opens it, so that a failed
/// assertion does not hang.
#[derive(Debug)]
#[must_use = "a gate that is dropped is open"]
pub struct Gate {
    pub(super) hold: Hold,
    pub(super) fault: ActiveFault,
}

impl Gate {
    /// Waits until a statement stands at the gate, or stood there before.
    pub async fn arrived(&self) {
        self.arrivals(1).await;
    }

    /// Waits until `count` statements have come to the gate since it was made.
    pub async fn arrivals(&self, count: u64) {
        let mut arrived = self.hold.arrived.subscribe();
        // `self` owns the sender: it cannot be closed while we wait.
        let _closed = arrived.wait_for(|arrived| *arrived >= count).await;
    }

    /// How many statements stand at the gate now.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.hold.arrived.borrow().saturating_sub(*self.hold.admitted.borrow())
    }

    /// Lets one statement go, in the order of arrival; if none is there, the next one does not have to wait.
    pub fn admit_one(&self) {
        self.hold.admitted.send_modify(|admitted| *admitted = admitted.saturating_add(1));
    }

    /// Lets all go, and those to come.
    pub fn open(&self) {
        self.fault.lift();
        self.hold.admitted.send_replace(OPEN);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}
