//! What the protocol needs of PostgreSQL, for one bucket: rows, the bell and the mark, notifications. Each step that others can see is
//! one turn; what PostgreSQL promises about their order (the reference's facts) is built in.

use super::QUEUE;
use crate::number::Call;
use crate::seat::Seated;
use crate::sync::{Mutex, Signal};
use shuttle::future::yield_now;

pub(super) struct Database {
    state: Mutex<State>,
    heard: Vec<Signal>,
}

struct State {
    /// Committed and unclaimed.
    rows: u32,
    bell: Option<usize>,
    /// Producers that hold the shared side of the bell.
    shared: u32,
    marks: Vec<bool>,
    /// `None`: the node has gone.
    inbox: Vec<Option<Vec<Call>>>,
}

impl Database {
    pub(super) fn new(nodes: usize) -> Self {
        let state = State {
            rows: 0,
            bell: None,
            shared: 0,
            marks: vec![false; nodes],
            inbox: vec![Some(Vec::new()); nodes],
        };
        Self { state: Mutex::new(state), heard: (0..nodes).map(|_| Signal::default()).collect() }
    }

    /// A producer: writes and tries the bell, commits or rolls back, and only then gives back the lock or is heard.
    pub(super) async fn produce(&self, rows: u32, commits: bool) {
        yield_now().await;
        let rings = {
            let mut state = self.state.lock();
            let rings = state.bell.is_some();
            state.shared += u32::from(!rings);
            rings
        };
        yield_now().await;
        if commits {
            self.state.lock().rows += rows;
        }
        yield_now().await;
        if !rings {
            self.state.lock().shared -= 1;
        } else if commits {
            self.notify(Call::Ring(QUEUE.bucket(), QUEUE), None);
        }
    }

    pub(super) fn claim(&self, most: u32) -> u32 {
        let mut state = self.state.lock();
        let taken = state.rows.min(most);
        state.rows -= taken;
        taken
    }

    pub(super) fn left(&self) -> u32 {
        self.state.lock().rows
    }

    /// Rule 5, with a turn between each of its steps.
    pub(super) async fn sit(&self, node: usize, marked: bool) -> Seated {
        yield_now().await;
        if self.try_bell(node) {
            if marked {
                self.state.lock().marks[node] = false;
            }
            self.ring_if_marked(node).await;
            return Seated::Bell;
        }
        self.state.lock().marks[node] = true;
        yield_now().await;
        let covered = {
            let mut state = self.state.lock();
            let covered = state.bell.is_some();
            state.marks[node] = covered;
            covered
        };
        yield_now().await; // the answer is on its way
        if covered { Seated::Reserve } else { Seated::Shallow }
    }

    /// Does anybody sleep with the bell?
    pub(super) fn has_sentinel(&self) -> bool {
        self.state.lock().bell.is_some()
    }

    fn try_bell(&self, node: usize) -> bool {
        let mut state = self.state.lock();
        let free = state.bell.is_none() && state.shared == 0;
        if free {
            state.bell = Some(node);
        }
        free
    }

    /// Rule 8.
    pub(super) async fn leave(&self, node: usize, bell: bool) {
        yield_now().await;
        if !bell {
            self.state.lock().marks[node] = false;
            return;
        }
        self.state.lock().bell = None;
        yield_now().await;
        self.ring_if_marked(node).await;
    }

    async fn ring_if_marked(&self, node: usize) {
        yield_now().await;
        let marked = self.state.lock().marks.iter().enumerate().any(|(n, marked)| n != node && *marked);
        if marked {
            self.notify(Call::Handover(QUEUE.bucket()), Some(node));
        }
    }

    fn notify(&self, call: Call, from: Option<usize>) {
        for (node, inbox) in self.state.lock().inbox.iter_mut().enumerate() {
            if let Some(inbox) = inbox
                && Some(node) != from
            {
                inbox.push(call);
                self.heard[node].raise();
            }
        }
    }

    /// What a node has heard; `None` when it is to end.
    pub(super) fn heard(&self, node: usize) -> Option<Vec<Call>> {
        self.state.lock().inbox[node].as_mut().map(std::mem::take)
    }

    pub(super) async fn something_to_hear(&self, node: usize) {
        self.heard[node].raised().await;
    }

    /// The node ends: its locks go, its reserves are told by rule 12.
    pub(super) fn disconnect(&self, node: usize) {
        let mut state = self.state.lock();
        state.inbox[node] = None;
        state.marks[node] = false;
        if state.bell == Some(node) {
            state.bell = None;
        }
        drop(state);
        self.heard[node].raise();
    }
}
