//! What a node notes while instances run.

use super::now_ns;
use super::wire::Seen;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Moments by instance. Orchestrations are replayed at every turn: only the first time that they come by counts.
#[derive(Clone, Default)]
pub(super) struct Stamps(Arc<Mutex<HashMap<String, Noted>>>);

#[derive(Default)]
struct Noted {
    seen: Seen,
    is_reported: bool,
}

impl Stamps {
    pub(super) fn turn(&self, instance: &str) {
        self.note(instance, |seen| &mut seen.turn_ns);
    }

    pub(super) fn work(&self, instance: &str) {
        self.note(instance, |seen| &mut seen.work_ns);
    }

    pub(super) fn end(&self, instance: &str) {
        self.note(instance, |seen| &mut seen.end_ns);
    }

    fn note(&self, instance: &str, moment: impl Fn(&mut Seen) -> &mut i64) {
        let now = now_ns();
        let mut all = self.all();
        let noted = all.entry(instance.to_owned()).or_default();
        let moment = moment(&mut noted.seen);
        if *moment == 0 {
            *moment = now;
        }
    }

    /// Those that have ended since the last report.
    pub(super) fn report(&self) -> Vec<Seen> {
        let mut ended = Vec::new();
        for (instance, noted) in &mut *self.all() {
            if noted.seen.end_ns != 0 && !noted.is_reported {
                noted.is_reported = true;
                ended.push(Seen { instance: instance.clone(), ..noted.seen.clone() });
            }
        }
        ended
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Noted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
