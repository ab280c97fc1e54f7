//! What the jobs' tasks have reported, and the slots that they have left.

use super::report::Report;
use super::run::Slots;
use std::sync::{Arc, Weak};
use tokio::sync::mpsc;

/// More jobs than this that wait to be settled free no more slots.
const PENDING_MAX: usize = 2_000;
/// Most reports received at once.
const RECEIVE_MAX: usize = 1_000;

/// What was reported and is not settled yet. Receiving a report frees its job's slot: the next claim does not wait for the settlement.
pub(super) struct Inbox {
    reports: mpsc::UnboundedReceiver<Report>,
    closed: bool,
    pending: Vec<Report>,
    /// Slots of jobs that have ended.
    free: usize,
    slots: Weak<Slots>,
}

impl Inbox {
    pub(super) fn new(reports: mpsc::UnboundedReceiver<Report>, slots: &Arc<Slots>) -> Self {
        Self { reports, closed: false, pending: Vec::new(), free: 0, slots: Arc::downgrade(slots) }
    }

    /// Waits for reports, and takes all that are there: a burst frees its slots together. May be cancelled.
    pub(super) async fn fill(&mut self) {
        let before = self.pending.len();
        self.closed = self.reports.recv_many(&mut self.pending, RECEIVE_MAX).await == 0;
        self.note(before);
        // Those that are about to end come along: whole claims cost less than their jobs one by one.
        tokio::task::yield_now().await;
        let before = self.pending.len();
        while let Ok(report) = self.reports.try_recv() {
            self.pending.push(report);
        }
        self.note(before);
    }

    /// The next batch, at most so many; not half a claim, for one that is settled as a whole costs less.
    pub(super) fn take(&mut self, most: usize) -> Vec<Report> {
        let token = |at: usize| self.pending.get(at).map(|report| report.receipt.token());
        let full = self.pending.len().min(most);
        let end = (1..=full).rev().find(|at| token(*at) != token(at - 1)).unwrap_or(full);
        let later = self.pending.split_off(end);
        let batch = std::mem::replace(&mut self.pending, later);
        self.free_slots();
        batch
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Does none wait?
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Will no more come?
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Counts the slots of those that have come since there were so many.
    fn note(&mut self, before: usize) {
        self.free += self.pending.len() - before;
        self.free_slots();
    }

    fn free_slots(&mut self) {
        if self.free == 0 || self.pending.len() > PENDING_MAX {
            return;
        }
        if let Some(slots) = self.slots.upgrade() {
            slots.add(u32::try_from(self.free).unwrap_or(u32::MAX));
        }
        self.free = 0;
    }
}
