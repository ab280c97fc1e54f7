//! Faults while they are set: who asks, how many strikes are left, how often one hit.
use std::sync::{Arc, Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;

use super::fault::{Clients, Fault, Kind};

pub(super) type Rules = Vec<Arc<Rule>>;

/// A fault that is, or was, set.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) kind: Kind,
    clients: Clients,
    strikes: Mutex<Strikes>,
    hits: watch::Sender<u64>,
}

#[derive(Debug)]
struct Strikes {
    left: u64,
    dice: Option<(f64, StdRng)>,
}

impl Rule {
    pub(super) fn new(fault: Fault) -> Arc<Self> {
        let dice = fault.chance.map(|(probability, seed)| (probability, StdRng::seed_from_u64(seed)));
        let strikes = Mutex::new(Strikes { left: fault.hits_max, dice });
        Arc::new(Self { kind: fault.kind, clients: fault.clients, strikes, hits: watch::Sender::new(0) })
    }

    /// Takes one strike, if the dice and the limit allow it.
    ///
    /// Not yet a hit: between the decision and the deed PostgreSQL may go away.
    pub(super) fn admits(&self) -> bool {
        let mut strikes = self.strikes.lock().unwrap_or_else(PoisonError::into_inner);
        if strikes.left == 0 {
            return false;
        }
        let struck = strikes.dice.as_mut().is_none_or(|(probability, dice)| dice.random_bool(*probability));
        if struck {
            strikes.left -= 1;
        }
        struck
    }

    /// Records that the fault has really happened to somebody.
    pub(super) fn hit(&self) {
        self.hits.send_modify(|hits| *hits += 1);
    }

    pub(super) fn hits(&self) -> watch::Receiver<u64> {
        self.hits.subscribe()
    }
}

/// What one connection sees of the faults that are set.
#[derive(Clone)]
pub(super) struct View {
    index: usize,
    application: Arc<str>,
    rules: watch::Receiver<Rules>,
    /// Rules that had their one chance at this connection.
    asked: Rules,
}

impl View {
    pub(super) fn new(index: usize, application: &str, rules: watch::Receiver<Rules>) -> Self {
        Self { index, application: application.into(), rules, asked: Vec::new() }
    }

    /// The rules for this connection whose kind is `wanted`, whether or not they strike.
    pub(super) fn all(&self, wanted: impl Fn(&Kind) -> bool) -> Rules {
        let concerns =
            |rule: &&Arc<Rule>| rule.clients.cover(self.index, &self.application) && wanted(&rule.kind);
        // A copy, because a caller's predicate must be free to set and lift faults.
        let rules = self.rules.borrow().clone();
        rules.iter().filter(concerns).cloned().collect()
    }

    /// The first rule of a wanted kind that strikes now; the strike is taken.
    pub(super) fn strike(&self, wanted: impl Fn(&Kind) -> bool) -> Option<Arc<Rule>> {
        self.all(wanted).into_iter().find(|rule| rule.admits())
    }

    /// Like [`strike`](Self::strike), but no rule is asked twice: for what happens to a connection as a whole.
    pub(super) fn strike_once(&mut self, wanted: impl Fn(&Kind) -> bool) -> Option<Arc<Rule>> {
        for rule in self.all(wanted) {
            if self.asked.iter().any(|other| Arc::ptr_eq(&rule, other)) {
                continue;
            }
            self.asked.push(rule.clone());
            if rule.admits() {
                return Some(rule);
            }
        }
        None
    }

    /// Whether `rule` is still set.
    pub(super) fn holds(&self, rule: &Arc<Rule>) -> bool {
        self.rules.borrow().iter().any(|other| Arc::ptr_eq(rule, other))
    }

    /// Waits until faults are set or lifted. Changes before the view was made count as seen.
    pub(super) async fn changed(&mut self) {
        if self.rules.changed().await.is_err() {
            // The proxy is gone and its connections are about to be.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until `rule` is lifted.
    pub(super) async fn lifted(&mut self, rule: &Arc<Rule>) {
        while self.holds(rule) {
            self.changed().await;
        }
    }
}

/// A fault that was set on a proxy: what it hit, and the means to lift it.
///
/// Dropping it changes nothing; the fault stays until it is lifted or the proxy is healed.
#[derive(Clone, Debug)]
#[must_use = "a fault that hit nothing proves nothing: assert on its hits"]
pub struct ActiveFault {
    pub(super) rule: Arc<Rule>,
    pub(super) rules: watch::Sender<Rules>,
}

impl ActiveFault {
    /// How often the fault really happened.
    #[must_use]
    pub fn hits(&self) -> u64 {
        *self.rule.hits().borrow()
    }

    /// Waits until the fault has happened `count` times since it was set.
    pub async fn has_hit(&self, count: u64) {
        let mut hits = self.rule.hits();
        // The rule owns the sender: it cannot be closed while `self` lives.
        let _closed = hits.wait_for(|hits| *hits >= count).await;
    }

    /// Ends this fault alone.
    pub fn lift(&self) {
        self.rules.send_modify(|rules| rules.retain(|rule| !Arc::ptr_eq(rule, &self.rule)));
    }
}
