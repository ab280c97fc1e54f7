//! Which of the jobs that were lost with a worker may run beside each other.
//!
//! When a worker dies, any job that it held may be the one that killed it, and nobody knows which. They come back together, and as long as
//! they have attempts to spare they run together: most workers die of something else. At its last attempt such a job would be dead because of
//! another. Then it is alone: no other job that was lost before runs beside it in this process, and the database is told that it has begun.
//! Should the process die, that costs an attempt of what had begun, and of none that waited for its turn.

use crate::jobs::Claimed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The shortest and the longest time after which a job that has to wait comes back.
const WAIT_MIN: Duration = Duration::from_millis(500);
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The jobs of one process that were lost before.
#[derive(Default)]
pub(crate) struct Company(Mutex<Present>);

#[derive(Default)]
struct Present {
    jobs: usize,
    /// There is one, at its last attempt.
    lone: bool,
    since: Option<Instant>,
}

impl Company {
    /// A place for a job that was lost before; or how long it has to wait at least, which is the longer the longer the others have run.
    pub(super) fn admit(self: &Arc<Self>, lost: Lost) -> Result<Place, Duration> {
        let mut present = self.present();
        let lone = lost == Lost::AtItsLast;
        if present.jobs > 0 && (lone || present.lone) {
            let ran = present.since.map(|since| since.elapsed()).unwrap_or_default();
            return Err(ran.clamp(WAIT_MIN, WAIT_MAX).mul_f64(rand::random_range(0.5..1.5)));
        }
        *present = Present { jobs: present.jobs + 1, lone, since: Some(Instant::now()) };
        Ok(Place { company: self.clone(), lone })
    }

    fn present(&self) -> std::sync::MutexGuard<'_, Present> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job's place, from before it begins until it is settled: one that has ended and is not settled would be lost with its worker as well.
pub(super) struct Place {
    company: Arc<Company>,
    pub(super) lone: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut present = self.company.present();
        present.jobs -= 1;
        present.lone &= present.jobs > 0;
    }
}

/// A job was lost with a worker before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// It has attempts to spare.
    Before,
    /// This attempt is its last.
    AtItsLast,
}

impl Lost {
    /// `None`: it was not. `bugle.sweep` marks those that were.
    pub(super) fn of(job: &Claimed) -> Option<Self> {
        let extra = job.extra.as_ref()?;
        let mark = serde_json::from_str::<Mark>(extra.get()).ok()?;
        mark.lost.then_some(if job.attempt < job.max_attempts { Self::Before } else { Self::AtItsLast })
    }
}

#[derive(serde::Deserialize)]
struct Mark {
    #[serde(default)]
    lost: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_its_last_attempt_a_job_has_no_company() {
        let company = Arc::new(Company::default());
        let some = [company.admit(Lost::Before).ok().unwrap(), company.admit(Lost::Before).ok().unwrap()];
        assert!(company.admit(Lost::AtItsLast).is_err(), "it waits for them");
        drop(some);
        let lone = company.admit(Lost::AtItsLast).ok().unwrap();
        for next in [Lost::Before, Lost::AtItsLast] {
            let wait = company.admit(next).err().unwrap();
            assert!((WAIT_MIN / 2..2 * WAIT_MIN).contains(&wait), "they wait for it: {wait:?}");
        }
        drop(lone);
        assert!(company.admit(Lost::Before).is_ok());
    }
}
