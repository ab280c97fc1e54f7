//! What the tables held when the run was over, as plain data.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

/// The final state of every queue, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The queues.
    pub queues: BTreeMap<String, QueueSnapshot>,
}

/// The final state of one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSnapshot {
    /// Rows that the next claim may hand out.
    pub ready: Vec<Row>,
    /// Rows that a lease covers.
    pub leased: Vec<Row>,
    /// Rows that are not due yet.
    pub scheduled: Vec<Row>,
    /// Rows behind the claim cursor that no lease covers: nobody will ever see them again.
    pub orphans: Vec<Row>,
    /// Finished jobs.
    pub done: Vec<i64>,
    /// Jobs out of attempts.
    pub dead: Vec<i64>,
    /// Cancelled jobs.
    pub cancelled: Vec<i64>,
    /// The counters that the system maintains; `None` where it has none.
    pub counters: Option<Counters>,
}

/// A job that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The job.
    pub id: i64,
    /// The attempts that were used up.
    pub attempt: i32,
    /// The transaction number in the row's key; 0 where the row has none yet.
    pub x: i64,
}

/// What the system itself says it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Jobs ever accepted.
    pub enqueued: u64,
    /// Jobs waiting to be claimed.
    pub ready: u64,
    /// Jobs not due yet.
    pub scheduled: u64,
    /// Jobs under a lease.
    pub leased: u64,
    /// Jobs finished.
    pub done: u64,
    /// Jobs out of attempts.
    pub dead: u64,
    /// Jobs cancelled.
    pub cancelled: u64,
}

/// Where each job was found; more than one place is a mistake in the books.
pub(super) type States = HashMap<i64, Vec<State>>;

/// A place where a job can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    Leased,
    Scheduled,
    Orphan,
    Done,
    Dead,
    Cancelled,
}

impl QueueSnapshot {
    /// Every place where a job was found, in no order.
    pub(super) fn places(&self) -> impl Iterator<Item = (i64, State)> {
        let rows = [
            (&self.ready, State::Ready),
            (&self.leased, State::Leased),
            (&self.scheduled, State::Scheduled),
            (&self.orphans, State::Orphan),
        ];
        let ids = [(&self.done, State::Done), (&self.dead, State::Dead), (&self.cancelled, State::Cancelled)];
        let rows = rows.into_iter().flat_map(|(rows, state)| rows.iter().map(move |row| (row.id, state)));
        rows.chain(ids.into_iter().flat_map(|(ids, state)| ids.iter().map(move |id| (*id, state))))
    }
}

impl Snapshot {
    /// The places of every job found.
    pub(super) fn states(&self) -> States {
        let mut states = States::new();
        for (id, state) in self.queues.values().flat_map(QueueSnapshot::places) {
            states.entry(id).or_default().push(state);
        }
        states
    }
}
