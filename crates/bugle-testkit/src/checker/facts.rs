//! What a history says about each job: complete, so that the rules need not look twice.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use super::faults::Faults;
use crate::history::Op;

/// What became of a call, as far as its caller knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Happened,
    Refused,
    /// Answered *unknown*, or not at all.
    Maybe,
}

/// One job of one enqueue call.
#[derive(Debug)]
pub(super) struct Enqueue<'h> {
    pub(super) invoked: u64,
    pub(super) answered: Option<u64>,
    pub(super) answered_t: i64,
    pub(super) outcome: Outcome,
    pub(super) queue: &'h str,
    pub(super) job: Option<i64>,
    pub(super) key: Option<&'h str>,
    pub(super) mark: Option<u64>,
    pub(super) order_key: Option<&'h str>,
    pub(super) due: Option<DateTime<Utc>>,
    pub(super) max_attempts: Option<i32>,
}

/// One job of one claim that was answered.
#[derive(Debug)]
pub(super) struct HandOut<'h> {
    pub(super) invoked: u64,
    pub(super) answered: u64,
    pub(super) answered_t: i64,
    pub(super) who: &'h str,
    pub(super) token: i64,
    pub(super) x: i64,
    pub(super) attempt: i32,
    pub(super) max_attempts: Option<i32>,
    pub(super) db_now: DateTime<Utc>,
    pub(super) lease_until: DateTime<Utc>,
    pub(super) key: Option<&'h str>,
    pub(super) mark: Option<u64>,
}

/// One job of an ack, fail, release or cancel.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) op: Op,
    /// `None` for a cancel, which needs no lease.
    pub(super) token: Option<i64>,
    pub(super) invoked: u64,
    pub(super) answered: Option<u64>,
    pub(super) answered_t: i64,
    pub(super) outcome: Outcome,
    pub(super) due: Option<DateTime<Utc>>,
}

impl Ending {
    /// Whether it happened, or may have.
    pub(super) fn possible(&self) -> bool {
        self.outcome != Outcome::Refused
    }

    /// The event that answered it, if it was accepted.
    pub(super) fn accepted(&self) -> Option<u64> {
        self.answered.filter(|_| self.outcome == Outcome::Happened)
    }
}

/// One token of one renew.
#[derive(Debug)]
pub(super) struct Renewal {
    pub(super) invoked: u64,
    pub(super) answered: Option<u64>,
    pub(super) outcome: Outcome,
    /// `None` if unknown.
    pub(super) lease_until: Option<DateTime<Utc>>,
}

/// Everything about one job.
#[derive(Debug)]
pub(super) struct Job<'h> {
    pub(super) id: i64,
    pub(super) queue: &'h str,
    /// The first enqueue that was answered with this id, in [`Facts::enqueues`].
    pub(super) accepted: Option<usize>,
    pub(super) hand_outs: Vec<HandOut<'h>>,
    pub(super) endings: Vec<Ending>,
}

impl Job<'_> {
    /// Accepted acks, fails, releases and cancels of this kind.
    pub(super) fn accepted_of(&self, op: Op) -> impl Iterator<Item = (&Ending, u64)> {
        let of_kind = self.endings.iter().filter(move |ending| ending.op == op);
        of_kind.filter_map(|ending| ending.accepted().map(|answered| (ending, answered)))
    }

    /// Whether such an ending happened or may have.
    pub(super) fn possibly(&self, op: Op) -> bool {
        self.endings.iter().any(|ending| ending.op == op && ending.possible())
    }

    /// The endings that were asked for under `token`.
    pub(super) fn endings_under(&self, token: i64) -> impl Iterator<Item = &Ending> {
        self.endings.iter().filter(move |ending| ending.token == Some(token))
    }
}

/// A claim call that was answered, with or without jobs.
#[derive(Debug)]
pub(super) struct Wait<'h> {
    pub(super) queue: &'h str,
    pub(super) invoked_t: i64,
    pub(super) answered: u64,
    pub(super) answered_t: i64,
}

/// The claims of one queue that may have handed out jobs without anybody seeing it.
#[derive(Debug, Default)]
pub(super) struct SilentClaims {
    pub(super) invoked: Vec<u64>,
    /// When it was given up; claims never answered are not here.
    pub(super) given_up: Vec<u64>,
}

/// Everything a history says.
#[derive(Debug, Default)]
pub(super) struct Facts<'h> {
    pub(super) enqueues: Vec<Enqueue<'h>>,
    pub(super) jobs: Vec<Job<'h>>,
    pub(super) by_id: HashMap<i64, usize>,
    /// The first invoke under each key of a queue that was not refused.
    first_of_key: HashMap<(&'h str, &'h str), u64>,
    pub(super) renewals: HashMap<i64, Vec<Renewal>>,
    pub(super) waits: Vec<Wait<'h>>,
    pub(super) silent: HashMap<&'h str, SilentClaims>,
    pub(super) faults: Faults<'h>,
    /// What to add to the database's clock (in nanoseconds) to get a time of the history that is not too early:
    /// a clock reading is older than the event that tells of it, so the smallest difference seen is the truest.
    pub(super) clock_offset: Option<i64>,
    pub(super) last_t: i64,
}

impl<'h> Facts<'h> {
    /// Puts each job's hand-outs in the order in which the database made them; answers may be recorded late. Call
    /// it once, when all is gathered.
    pub(super) fn sort(&mut self) {
        for job in &mut self.jobs {
            job.hand_outs.sort_by_key(|hand_out| (hand_out.db_now, hand_out.x, hand_out.answered));
        }
        for silent in self.silent.values_mut() {
            silent.invoked.sort_unstable();
            silent.given_up.sort_unstable();
        }
        for enqueue in self.enqueues.iter().filter(|it| it.outcome != Outcome::Refused) {
            if let Some(key) = enqueue.key {
                self.first_of_key.entry((enqueue.queue, key)).or_insert(enqueue.invoked);
            }
        }
    }

    /// When the job of this enqueue may first have been written: under a key, any earlier enqueue with the same
    /// key may have made it, although its answer was lost.
    pub(super) fn enqueued_from(&self, enqueue: &Enqueue<'_>) -> u64 {
        let first = enqueue.key.and_then(|key| self.first_of_key.get(&(enqueue.queue, key)));
        first.map_or(enqueue.invoked, |first| enqueue.invoked.min(*first))
    }

    /// The job's slot, made if this is the first mention.
    pub(super) fn slot(&mut self, id: i64, queue: &'h str) -> usize {
        *self.by_id.entry(id).or_insert_with(|| {
            self.jobs.push(Job { id, queue, accepted: None, hand_outs: Vec::new(), endings: Vec::new() });
            self.jobs.len() - 1
        })
    }

    /// The enqueue by which the job was accepted.
    pub(super) fn accepted(&self, job: &Job<'_>) -> Option<&Enqueue<'h>> {
        job.accepted.map(|index| &self.enqueues[index])
    }

    /// How many silent claims may have held a job of `queue` after event `from` and before event `to`.
    pub(super) fn silent_between(&self, queue: &str, from: u64, to: u64) -> usize {
        let Some(silent) = self.silent.get(queue) else { return 0 };
        let invoked_before = silent.invoked.partition_point(|n| *n < to);
        invoked_before.saturating_sub(silent.given_up.partition_point(|n| *n <= from))
    }

    /// The end of a lease as far as it was surely extended before event `later`.
    pub(super) fn lease_until(&self, hand_out: &HandOut<'_>, later: u64) -> DateTime<Utc> {
        let renewals = self.renewals.get(&hand_out.token).into_iter().flatten();
        let sure = renewals.filter(|renewal| {
            let answered = renewal.answered.filter(|_| renewal.outcome == Outcome::Happened);
            renewal.invoked < later
                && answered.is_some_and(|n| !self.faults.may_be_lost((renewal.invoked, n), later))
        });
        sure.filter_map(|renewal| renewal.lease_until).fold(hand_out.lease_until, Ord::max)
    }

    /// The history's time at which the database's clock shows `moment`, or a little later.
    pub(super) fn t_of(&self, moment: DateTime<Utc>) -> Option<i64> {
        Some(self.clock_offset?.saturating_add(moment.timestamp_nanos_opt()?))
    }

    /// The most attempts the job may have, where anybody said so.
    pub(super) fn max_attempts(&self, job: &Job<'_>) -> Option<i32> {
        let enqueued = self.accepted(job).and_then(|enqueue| enqueue.max_attempts);
        enqueued.or_else(|| job.hand_outs.iter().find_map(|hand_out| hand_out.max_attempts))
    }
}
