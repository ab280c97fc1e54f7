//! A correct queue in a hundred lines: what PostgreSQL and Bugle do together, as far as clients can see.

use std::collections::BTreeMap;

use bugle_testkit::checker::{Counters, QueueSnapshot, Row, Snapshot};
use bugle_testkit::history::Item;
use chrono::{DateTime, Duration, Utc};

use super::script::QUEUE;

pub(crate) const LEASE_MS: i64 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Scheduled(DateTime<Utc>),
    Leased(i64),
    Done,
    Dead,
    Cancelled,
}

#[derive(Clone, Debug)]
struct Job {
    state: State,
    x: i64,
    /// Attempts used up.
    attempt: i32,
    item: Item,
}

/// The database. A clone of it is what a crash may go back to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Db {
    jobs: BTreeMap<i64, Job>,
    keys: BTreeMap<Box<str>, i64>,
    leases: BTreeMap<i64, DateTime<Utc>>,
    last_x: i64,
}

impl Db {
    fn new_x(&mut self) -> i64 {
        self.last_x += 1;
        self.last_x
    }

    pub(crate) fn enqueue(&mut self, items: &[Item], new_id: &mut i64) -> Vec<Item> {
        let x = self.new_x();
        let mut answer = Vec::new();
        for item in items {
            let known = item.key.as_ref().and_then(|key| self.keys.get(key)).copied();
            let id = known.unwrap_or_else(|| {
                *new_id += 1;
                let state = item.due.map_or(State::Ready, State::Scheduled);
                self.jobs.insert(*new_id, Job { state, x, attempt: 0, item: item.clone() });
                if let Some(key) = &item.key {
                    self.keys.insert(key.clone(), *new_id);
                }
                *new_id
            });
            answer.push(Item::job(id));
        }
        answer
    }

    /// Sweeps, moves what is due, and leases what was there before: rows written now are for the next claim.
    pub(crate) fn claim(&mut self, token: i64, wanted: usize, now: DateTime<Utc>) -> Vec<Item> {
        let x = self.new_x();
        let expired: Vec<i64> =
            self.leases.iter().filter(|(_, until)| **until <= now).map(|it| *it.0).collect();
        for job in self.jobs.values_mut() {
            match job.state {
                State::Leased(token) if expired.contains(&token) => {
                    job.attempt += 1;
                    job.x = x;
                    job.state = if job.attempt >= max(job) { State::Dead } else { State::Ready };
                }
                State::Scheduled(due) if due <= now => (job.x, job.state) = (x, State::Ready),
                _ => {}
            }
        }
        self.leases.retain(|token, _| !expired.contains(token));
        let mut ready: Vec<(i64, i64)> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.state == State::Ready && job.x < x)
            .map(|it| (it.1.x, *it.0))
            .collect();
        ready.sort_unstable();
        let mut items = Vec::new();
        for (_, id) in ready {
            if items.len() < wanted && self.may_start(id) {
                items.extend(self.lease(id, token, now));
            }
        }
        if !items.is_empty() {
            self.leases.insert(token, now + Duration::milliseconds(LEASE_MS));
        }
        items
    }

    /// Under an order key: nobody else runs, and nobody enqueued earlier is still to start.
    fn may_start(&self, id: i64) -> bool {
        let Some(order_key) = self.jobs.get(&id).and_then(|job| job.item.order_key.as_ref()) else {
            return true;
        };
        let siblings = self.jobs.iter().filter(|(_, job)| job.item.order_key.as_ref() == Some(order_key));
        let mut others = siblings.filter(|(other, _)| **other != id);
        !others.any(|(other, job)| match job.state {
            State::Leased(_) => true,
            State::Ready | State::Scheduled(_) => *other < id && job.attempt == 0,
            _ => false,
        })
    }

    fn lease(&mut self, id: i64, token: i64, now: DateTime<Utc>) -> Option<Item> {
        let job = self.jobs.get_mut(&id)?;
        job.state = State::Leased(token);
        Some(Item {
            x: Some(job.x),
            attempt: Some(job.attempt + 1),
            mark: job.item.mark,
            key: job.item.key.clone(),
            lease_until: Some(now + Duration::milliseconds(LEASE_MS)),
            ..Item::job(id).token(token)
        })
    }

    fn held(&mut self, item: &Item) -> Option<&mut Job> {
        let token = item.token?;
        self.jobs.get_mut(&item.job?).filter(|job| job.state == State::Leased(token))
    }

    pub(crate) fn ack(&mut self, item: &Item) -> bool {
        self.held(item).map(|job| job.state = State::Done).is_some()
    }

    pub(crate) fn fail(&mut self, item: &Item, due: DateTime<Utc>) -> bool {
        let failed = self.held(item).map(|job| {
            job.attempt += 1;
            job.state = if job.attempt >= max(job) { State::Dead } else { State::Scheduled(due) };
        });
        failed.is_some()
    }

    pub(crate) fn release(&mut self, item: &Item) -> bool {
        let x = self.new_x();
        self.held(item).map(|job| (job.x, job.state) = (x, State::Ready)).is_some()
    }

    pub(crate) fn renew(&mut self, token: i64, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let until = self.leases.get_mut(&token).filter(|until| **until > now)?;
        *until = now + Duration::milliseconds(LEASE_MS);
        Some(*until)
    }

    pub(crate) fn cancel(&mut self, item: &Item) -> bool {
        let open = |job: &&mut Job| !matches!(job.state, State::Done | State::Dead | State::Cancelled);
        let job = item.job.and_then(|id| self.jobs.get_mut(&id)).filter(open);
        job.map(|job| job.state = State::Cancelled).is_some()
    }

    pub(crate) fn all_ended(&self) -> bool {
        self.jobs.values().all(|job| matches!(job.state, State::Done | State::Dead | State::Cancelled))
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut queue = QueueSnapshot::default();
        for (&id, job) in &self.jobs {
            let row = Row { id, attempt: job.attempt, x: job.x };
            match job.state {
                State::Ready => queue.ready.push(row),
                State::Scheduled(_) => queue.scheduled.push(row),
                State::Leased(_) => queue.leased.push(row),
                State::Done => queue.done.push(id),
                State::Dead => queue.dead.push(id),
                State::Cancelled => queue.cancelled.push(id),
            }
        }
        let count = |rows: usize| u64::try_from(rows).unwrap_or(0);
        queue.counters = Some(Counters {
            enqueued: count(self.jobs.len()),
            ready: count(queue.ready.len()),
            scheduled: count(queue.scheduled.len()),
            leased: count(queue.leased.len()),
            done: count(queue.done.len()),
            dead: count(queue.dead.len()),
            cancelled: count(queue.cancelled.len()),
        });
        Snapshot { queues: BTreeMap::from([(QUEUE.to_owned(), queue)]) }
    }
}

fn max(job: &Job) -> i32 {
    job.item.max_attempts.unwrap_or(i32::MAX)
}
