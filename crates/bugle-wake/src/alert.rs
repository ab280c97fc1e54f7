//! Alert: fast looks after a fault, until it has been quiet long enough. One state machine for each pump.

use std::time::{Duration, Instant};

/// What puts a pump on alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Faults alone: a look failed, the listener was lost, a ring was not answered in time, a fallback look found work.
    #[default]
    OnFault,
    /// Every wake as well: rings, timers and heartbeats.
    OnWake,
}

impl Policy {
    /// The policy of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::OnFault, Self::OnWake].into_iter().find(|policy| policy.as_str() == name)
    }

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OnFault => "on_fault",
            Self::OnWake => "on_wake",
        }
    }
}

/// What happened. The faults enter under either policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Ring,
    Timer,
    Heartbeat,
    /// The heartbeat's look found work that no wake had announced.
    FallbackHit,
    /// More notifications came at once than are read one by one.
    InboxFull,
    ListenerLost,
    /// No look began in time after a ring.
    DeliveryTimeout,
    LookFailed,
}

impl Event {
    fn is_fault(self) -> bool {
        !matches!(self, Self::Ring | Self::Timer | Self::Heartbeat)
    }
}

/// How a look ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looked {
    Failed,
    Found,
    Empty,
}

/// Is this pump on alert, since when, and how quiet has it been?
#[derive(Debug)]
pub(crate) struct Alert {
    policy: Policy,
    minimum: Duration,
    empty_looks: u32,
    since: Option<Since>,
}

#[derive(Debug)]
struct Since {
    at: Instant,
    /// Successful empty looks in a row.
    empty: u32,
}

impl Alert {
    pub(crate) fn new(policy: Policy, minimum: Duration, empty_looks: u32) -> Self {
        Self { policy, minimum, empty_looks, since: None }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// Enters on an event that the policy names; one during an alert begins it anew. True when it was not on before.
    pub(crate) fn note(&mut self, event: Event, now: Instant) -> bool {
        if !event.is_fault() && self.policy == Policy::OnFault {
            return false;
        }
        self.since.replace(Since { at: now, empty: 0 }).is_none()
    }

    /// Nobody waits, so nobody looks: then the minimum alone ends it.
    pub(crate) fn nobody_waits(&mut self, now: Instant) {
        if self.since.as_ref().is_some_and(|since| now.duration_since(since.at) >= self.minimum) {
            self.since = None;
        }
    }

    /// Notes how a look ended. It leaves when the minimum has passed AND enough looks in a row succeeded and were empty; true when it leaves.
    pub(crate) fn looked(&mut self, looked: Looked, now: Instant) -> bool {
        let Some(since) = &mut self.since else { return false };
        since.empty = if looked == Looked::Empty { since.empty + 1 } else { 0 };
        let quiet = since.empty >= self.empty_looks && now.duration_since(since.at) >= self.minimum;
        if quiet {
            self.since = None;
        }
        quiet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMUM: Duration = Duration::from_secs(1);

    fn alert(policy: Policy) -> (Alert, Instant) {
        (Alert::new(policy, MINIMUM, 3), Instant::now())
    }

    #[test]
    fn every_fault_enters() {
        for event in [
            Event::FallbackHit,
            Event::InboxFull,
            Event::ListenerLost,
            Event::DeliveryTimeout,
            Event::LookFailed,
        ] {
            let (mut alert, now) = alert(Policy::OnFault);
            assert!(alert.note(event, now), "{event:?}");
            assert!(alert.is_on());
            assert!(!alert.note(event, now), "it is on already");
        }
    }

    #[test]
    fn a_plain_wake_enters_only_where_the_policy_says_so() {
        for event in [Event::Ring, Event::Timer, Event::Heartbeat] {
            let (mut calm, now) = alert(Policy::OnFault);
            assert!(!calm.note(event, now) && !calm.is_on(), "{event:?}");
            let (mut eager, now) = alert(Policy::OnWake);
            assert!(eager.note(event, now) && eager.is_on(), "{event:?}");
        }
    }

    #[test]
    fn it_stays_while_looks_fail_now_and_then() {
        let (mut alert, now) = alert(Policy::OnFault);
        alert.note(Event::LookFailed, now);
        let late = now + 2 * MINIMUM;
        for _ in 0..10 {
            assert!(!alert.looked(Looked::Empty, late));
            assert!(!alert.looked(Looked::Empty, late));
            assert!(!alert.looked(Looked::Failed, late));
        }
        assert!(alert.is_on());
    }

    #[test]
    fn it_stays_while_work_is_found() {
        let (mut alert, now) = alert(Policy::OnWake);
        alert.note(Event::Ring, now);
        let late = now + 2 * MINIMUM;
        for _ in 0..10 {
            alert.looked(Looked::Empty, late);
            alert.looked(Looked::Empty, late);
            alert.looked(Looked::Found, late);
        }
        assert!(alert.is_on());
    }

    #[test]
    fn it_leaves_when_the_minimum_has_passed_and_enough_looks_were_empty() {
        let (mut alert, now) = alert(Policy::OnFault);
        alert.note(Event::ListenerLost, now);
        for _ in 0..10 {
            assert!(!alert.looked(Looked::Empty, now + MINIMUM / 2), "too early, however many looks");
        }
        assert!(alert.looked(Looked::Empty, now + MINIMUM), "the counted looks are still in a row");
        assert!(!alert.is_on());
    }

    #[test]
    fn where_nobody_waits_time_alone_ends_it() {
        let (mut alert, now) = alert(Policy::OnFault);
        alert.note(Event::ListenerLost, now);
        alert.nobody_waits(now + MINIMUM / 2);
        assert!(alert.is_on());
        alert.nobody_waits(now + MINIMUM);
        assert!(!alert.is_on());
    }

    #[test]
    fn time_alone_is_not_enough() {
        let (mut alert, now) = alert(Policy::OnFault);
        alert.note(Event::LookFailed, now);
        assert!(!alert.looked(Looked::Empty, now + 10 * MINIMUM));
        assert!(!alert.looked(Looked::Empty, now + 10 * MINIMUM));
        assert!(alert.looked(Looked::Empty, now + 10 * MINIMUM));
    }
}
