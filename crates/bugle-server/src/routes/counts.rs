//! How many messages there are, as Queen's wire counts them.

use bugle::broker::operate::{PartitionRow, QueueRow};
use serde::Serialize;
use std::iter::Sum;
use std::ops::Add;
use utoipa::ToSchema;

/// Messages by what they are. All of it comes from probes of indexes: nothing here counts rows of the log.
#[derive(Clone, Copy, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    /// That are kept and visible.
    pub(super) total: i64,
    /// That the group furthest behind has neither done nor leased.
    pub(super) pending: i64,
    /// That are leased.
    pub(super) processing: i64,
    /// That all groups have done.
    pub(super) completed: i64,
    /// The same as `deadLetter`.
    pub(super) failed: i64,
    /// Dead letters.
    pub(super) dead_letter: i64,
}

impl Counts {
    fn of(total: i64, pending: i64, leased: i64, dead: i64) -> Self {
        Self {
            total,
            pending: (pending - leased).max(0),
            processing: leased,
            completed: (total - pending).max(0),
            failed: dead,
            dead_letter: dead,
        }
    }
}

impl From<&QueueRow> for Counts {
    fn from(row: &QueueRow) -> Self {
        Self::of(row.total, row.pending, row.leased, row.dead)
    }
}

impl From<&PartitionRow> for Counts {
    fn from(row: &PartitionRow) -> Self {
        Self::of(row.total, row.pending, row.leased, row.dead)
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            total: self.total + other.total,
            pending: self.pending + other.pending,
            processing: self.processing + other.processing,
            completed: self.completed + other.completed,
            failed: self.failed + other.failed,
            dead_letter: self.dead_letter + other.dead_letter,
        }
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), Add::add)
    }
}
