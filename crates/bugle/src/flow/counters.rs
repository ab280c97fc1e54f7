//! What a process has done for workflows, in all namespaces. Nothing of it names one: a thousand of them would be a thousand figures each.

use super::begin::Begun;
use super::board::Board;
use crate::metrics::{Kind, Text};
use bugle_wake::{Count, Gauge, Given, Histogram, Path};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a process has done for workflows since its start: [`Flow::counters`](super::Flow::counters). The words of seed 002 for these are in docs/flow.md.
#[derive(Debug, Default)]
pub struct Counters {
    /// Coordinators started, those with changed settings and those that had ended with an error included.
    pub coordinators_started: Count,
    /// Of these: started again because the one before ended with an error.
    pub coordinators_restarted: Count,
    /// Steps that run in handlers of this process.
    pub running: Gauge,
    /// Steps that were ready for longer than they may while this process could have taken them: an alarm.
    pub stale: Count,
    /// Claims of steps that were not their job's any more: cancelled, restarted, ended by hand, or taken over.
    pub gone: Count,
    /// Claims of steps whose last attempt never came back.
    pub lost: Count,
    /// Claims of steps whose run was paused meanwhile.
    pub paused: Count,
    claimed: [Count; Path::ALL.len()],
    ready: [Histogram; Path::ALL.len()],
    boards: Mutex<Vec<Board>>,
    stale_at: Mutex<Option<Instant>>,
}

impl Counters {
    /// Steps that were claimed by this path and begun.
    #[must_use]
    pub fn claimed(&self, path: Path) -> u64 {
        self.claimed[path as usize].get()
    }

    /// How long those had been ready that were claimed by this path, by the database's clock: from the moment at which whoever made them ready
    /// settled, its commit included, to the moment at which they were begun. Attempts after the first are left out: they had to wait.
    #[must_use]
    pub fn ready(&self, path: Path) -> &Histogram {
        &self.ready[path as usize]
    }

    /// Coordinators that run now.
    #[must_use]
    pub fn coordinators(&self) -> usize {
        self.boards().iter().map(|board| board.active().len()).sum()
    }

    /// Slots that namespaces share: how many are in use or reserved for a look, and how many there are.
    #[must_use]
    pub fn common_slots(&self) -> (u32, u32) {
        let boards = self.boards();
        let sum = |figure: fn(&Board) -> u32| boards.iter().map(figure).sum();
        (sum(Board::common_slots_taken), sum(Board::common_slots))
    }

    /// A step was stale.
    pub(super) fn note_stale(&self) {
        self.stale.one();
        *self.stale_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// How long ago a step was last stale.
    pub(crate) fn stale_ago(&self) -> Option<Duration> {
        let at = *self.stale_at.lock().unwrap_or_else(PoisonError::into_inner);
        at.map(|at| at.elapsed())
    }

    /// A claimed step was to begin. One who did not wait for it found it there.
    pub(super) fn note(&self, begun: &Begun, given: Option<Given>) {
        let path = given.map_or(Path::Demand, |given| given.why.path());
        match begun.verdict.as_str() {
            "run" => {
                self.claimed[path as usize].one();
                if let Some(time) = begun.was_ready_for() {
                    self.ready(path).note(time);
                }
            }
            "lost" => self.lost.one(),
            "paused" => self.paused.one(),
            _ => self.gone.one(),
        }
    }

    /// Coordinators run from here on, as long as what is returned is not dropped.
    pub(super) fn open(&self, board: &Board) -> Opened<'_> {
        self.boards().push(board.clone());
        Opened(self, board.clone())
    }

    pub(crate) fn boards(&self) -> MutexGuard<'_, Vec<Board>> {
        self.boards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes all of it.
    pub(crate) fn write(&self, text: &mut Text) {
        self.write_coordinators(text);
        text.family("bugle_flow_steps_running", Kind::Gauge, "Steps that run in handlers of this process.");
        text.sample(&[], self.running.get());
        text.family(
            "bugle_flow_steps_claimed_total",
            Kind::Counter,
            "Steps claimed and begun, by path: announced (event), there already when somebody came (demand), found by a poll, or by a look that makes sure (fallback).",
        );
        for path in Path::ALL {
            text.sample(&[("path", path.as_str())], self.claimed(path));
        }
        text.family(
            "bugle_flow_step_ready_seconds",
            Kind::Histogram,
            "How long steps had been ready when they were begun for the first time, by the database's clock.",
        );
        for path in Path::ALL {
            text.histogram(&[("path", path.as_str())], self.ready(path));
        }
        text.family(
            "bugle_flow_claims_refused_total",
            Kind::Counter,
            "Claims of steps that could not begin: not their job's any more (gone), out of attempts (lost), of a paused run.",
        );
        for (why, count) in [("gone", &self.gone), ("lost", &self.lost), ("paused", &self.paused)] {
            text.sample(&[("why", why)], count.get());
        }
        text.family(
            "bugle_flow_stale_steps_total",
            Kind::Counter,
            "Steps that were ready for longer than they may while this process could have taken them: an alarm.",
        );
        text.sample(&[], self.stale.get());
    }

    fn write_coordinators(&self, text: &mut Text) {
        let (taken, all) = self.common_slots();
        for (name, kind, value, help) in [
            (
                "bugle_flow_coordinators",
                Kind::Gauge,
                self.coordinators().try_into().unwrap_or(u64::MAX),
                "Coordinators that run.",
            ),
            (
                "bugle_flow_coordinators_started_total",
                Kind::Counter,
                self.coordinators_started.get(),
                "Coordinators started, those with changed settings included.",
            ),
            (
                "bugle_flow_coordinators_restarted_total",
                Kind::Counter,
                self.coordinators_restarted.get(),
                "Coordinators started again because the one before ended with an error.",
            ),
            (
                "bugle_flow_common_slots",
                Kind::Gauge,
                all.into(),
                "Slots that the namespaces of this process share.",
            ),
            (
                "bugle_flow_common_slots_taken",
                Kind::Gauge,
                taken.into(),
                "Of these: in use, or reserved for a look.",
            ),
        ] {
            text.family(name, kind, help);
            text.sample(&[], value);
        }
    }
}

/// Coordinators that run.
pub(super) struct Opened<'c>(&'c Counters, Board);

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        self.0.boards().retain(|board| !board.is(&self.1));
    }
}
