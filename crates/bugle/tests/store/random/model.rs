//! What should be: the life of jobs as docs/state-machines.md tells it.

use bugle::jobs::Receipt;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Scheduled,
    Ready,
    Leased,
    Done,
    Dead,
    Cancelled,
}

const STATES: [(State, &str); 6] = [
    (State::Scheduled, "scheduled"),
    (State::Ready, "ready"),
    (State::Leased, "leased"),
    (State::Done, "done"),
    (State::Dead, "dead"),
    (State::Cancelled, "cancelled"),
];

#[derive(Debug)]
struct Job {
    state: State,
    /// Attempts used up.
    attempt: u16,
    max_attempts: u16,
    receipt: Option<Receipt>,
    /// Scheduled, and its time has come: the next claim makes it ready.
    is_due: bool,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    jobs: BTreeMap<i64, Job>,
    keys: BTreeMap<u8, i64>,
    pub(super) paused: bool,
}

impl Model {
    pub(super) fn enqueue(&mut self, id: i64, later: bool, max_attempts: u16, key: Option<u8>) {
        if let Some(key) = key {
            let first = *self.keys.entry(key).or_insert(id);
            assert_eq!(first, id, "same key, same job");
            if self.jobs.contains_key(&id) {
                return;
            }
        }
        let state = if later { State::Scheduled } else { State::Ready };
        let new = Job { state, attempt: 0, max_attempts, receipt: None, is_due: false };
        assert!(self.jobs.insert(id, new).is_none(), "a number of its own");
    }

    /// A claim hands out what is ready, as much as it may; what has become due is ready for the next one.
    pub(super) fn claim(&mut self, most: u32, claimed: &[(i64, u16)]) {
        let ready = self.jobs.values().filter(|job| job.state == State::Ready).count();
        let expected = if self.paused { 0 } else { ready.min(usize::try_from(most).unwrap()) };
        assert_eq!(claimed.len(), expected, "how many");
        for (id, attempt) in claimed {
            let job = self.jobs.get_mut(id).unwrap();
            assert_eq!((job.state, job.attempt + 1), (State::Ready, *attempt), "{id}");
            job.state = State::Leased;
        }
        if !self.paused {
            for job in self.jobs.values_mut().filter(|job| job.state == State::Scheduled && job.is_due) {
                job.state = State::Ready;
            }
        }
    }

    pub(super) fn held(&mut self, id: i64, receipt: Receipt) {
        self.jobs.get_mut(&id).unwrap().receipt = Some(receipt);
    }

    pub(super) fn is_held_by(&self, id: i64, receipt: Receipt) -> bool {
        let job = &self.jobs[&id];
        job.state == State::Leased && job.receipt == Some(receipt)
    }

    pub(super) fn end(&mut self, id: i64, state: State) {
        let job = self.jobs.get_mut(&id).unwrap();
        job.state = state;
        job.is_due = false;
    }

    pub(super) fn fail(&mut self, id: i64, retry: bool) {
        let job = self.jobs.get_mut(&id).unwrap();
        job.attempt += 1;
        let again = retry && job.attempt < job.max_attempts;
        self.end(id, if again { State::Scheduled } else { State::Dead });
    }

    /// Every lease ends. How many jobs that concerns.
    pub(super) fn expire(&mut self) -> usize {
        let mut ended = 0;
        for job in self.jobs.values_mut().filter(|job| job.state == State::Leased) {
            job.attempt += 1;
            job.state = if job.attempt < job.max_attempts { State::Ready } else { State::Dead };
            ended += 1;
        }
        ended
    }

    pub(super) fn come_due(&mut self) {
        for job in self.jobs.values_mut().filter(|job| job.state == State::Scheduled) {
            job.is_due = true;
        }
    }

    /// The state that it was in, if it could be cancelled.
    pub(super) fn cancel(&mut self, id: i64) -> Option<String> {
        let was = self.jobs[&id].state;
        let open = matches!(was, State::Scheduled | State::Ready | State::Leased);
        if open {
            self.end(id, State::Cancelled);
        }
        open.then(|| name(was))
    }

    /// The state that it was in, if it could be tried again.
    pub(super) fn retry(&mut self, id: i64) -> Option<String> {
        let job = self.jobs.get_mut(&id).unwrap();
        let was = job.state;
        if was == State::Dead {
            job.attempt = 0;
        }
        let waits = matches!(was, State::Scheduled | State::Dead);
        if waits {
            self.end(id, State::Ready);
        }
        waits.then(|| name(was))
    }

    pub(super) fn pick(&self, which: usize) -> Option<i64> {
        (!self.jobs.is_empty()).then(|| *self.jobs.keys().nth(which % self.jobs.len()).unwrap())
    }

    pub(super) fn states(&self) -> BTreeMap<i64, String> {
        self.jobs.iter().map(|(id, job)| (*id, name(job.state))).collect()
    }

    pub(super) fn counts(&self) -> [i64; 6] {
        STATES.map(|(state, _)| {
            i64::try_from(self.jobs.values().filter(|job| job.state == state).count()).unwrap()
        })
    }
}

fn name(state: State) -> String {
    STATES.iter().find(|(known, _)| *known == state).map(|(_, name)| (*name).to_owned()).unwrap()
}
