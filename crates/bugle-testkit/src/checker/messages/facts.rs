//! What a history says about messages, sorted by partition and group.

use crate::checker::facts::Outcome;
use crate::checker::faults::Faults;
use crate::history::Op;
use std::collections::BTreeMap;

/// A lane of one group: a group and a partition.
pub(super) type Lane<'h> = (&'h str, &'h str);

/// Everything.
#[derive(Default)]
pub(super) struct Facts<'h> {
    /// By mark; a push that was tried again has one entry.
    pub(super) pushes: BTreeMap<u64, Push<'h>>,
    pub(super) lanes: BTreeMap<Lane<'h>, History<'h>>,
    pub(super) faults: Faults<'h>,
    pub(super) last_t: i64,
}

/// A message that somebody wanted to push.
pub(super) struct Push<'h> {
    pub(super) who: &'h str,
    pub(super) partition: &'h str,
    /// Of the first try.
    pub(super) invoked: u64,
    /// Of the first yes.
    pub(super) answered: Option<u64>,
    pub(super) seq: Option<i64>,
}

/// What happened in one lane.
#[derive(Default)]
pub(super) struct History<'h> {
    pub(super) claims: Vec<Claim<'h>>,
    pub(super) endings: Vec<Ending>,
}

/// A partition that was handed to a consumer.
pub(super) struct Claim<'h> {
    pub(super) who: &'h str,
    pub(super) token: i64,
    pub(super) invoked: u64,
    pub(super) answered: u64,
    /// By the database's clock, in nanoseconds: when it was made, and when it ends.
    pub(super) from: i64,
    pub(super) until: i64,
    /// Places and marks, in the order of the answer.
    pub(super) messages: Vec<(i64, u64)>,
}

impl Claim<'_> {
    /// The place of its last message.
    pub(super) fn last(&self) -> i64 {
        self.messages.last().map_or(i64::MIN, |(seq, _)| *seq)
    }
}

/// A verdict about one message.
pub(super) struct Ending {
    pub(super) op: Op,
    pub(super) token: i64,
    pub(super) seq: i64,
    pub(super) invoked: u64,
    pub(super) answered: Option<u64>,
    pub(super) outcome: Outcome,
}

impl Ending {
    /// Whether it may have happened.
    pub(super) fn possible(&self) -> bool {
        self.outcome != Outcome::Refused
    }

    /// Whether it is known to have happened, and when that was answered.
    pub(super) fn accepted(&self) -> Option<u64> {
        self.answered.filter(|_| self.outcome == Outcome::Happened)
    }
}

impl Facts<'_> {
    pub(super) fn sort(&mut self) {
        for lane in self.lanes.values_mut() {
            lane.claims.sort_by_key(|claim| (claim.from, claim.answered));
        }
    }
}
