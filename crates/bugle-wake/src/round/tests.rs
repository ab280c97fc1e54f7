use super::*;
use crate::options::Options;
use crate::registry::Wish;
use crate::room::{Room, Share};
use crate::seats::Seats;
use crate::wake::{Found, Wake as _};
use std::sync::Arc;

const QUEUE: Number = Number(1);

/// A registry whose first waiter has been answered like this.
fn answered(answer: Answer<()>) -> (Registry<(), ()>, Instant) {
    let (options, now) = (Options::default(), Instant::now());
    let seats = Arc::new(Seats::new(options.clone()));
    seats.listening();
    let registry = Registry::new(options, seats, Arc::default());
    registry.register(QUEUE, Wish { want: (), most: 9, once: false, share: None }, now).unwrap();
    let (round, asks) = registry.arm(now).unwrap();
    assert_eq!(asks.len(), 1);
    registry.hand_out(round, vec![answer], now);
    (registry, now)
}

fn joins(registry: &Registry<(), ()>, now: Instant) -> bool {
    registry.register(QUEUE, Wish { want: (), most: 1, once: true, share: None }, now).unwrap();
    registry.arm(now).is_none()
}

#[test]
fn whoever_joins_those_who_wait_in_vain_needs_no_look() {
    let (registry, now) = answered(Answer { dry: true, ..Answer::default() });
    assert!(joins(&registry, now));
    registry.ring(QUEUE, now);
    let (_, asks) = registry.arm(now).expect("a ring is for all of them");
    assert_eq!(asks.len(), 2);
}

#[test]
fn he_needs_one_when_something_may_be_there_that_the_others_do_not_want() {
    let (registry, now) = answered(Answer::default());
    assert!(!joins(&registry, now));
}

#[test]
fn he_needs_one_when_something_was_heard_during_the_look() {
    let (registry, now) = answered(Answer::default());
    registry.ring(QUEUE, now);
    let (round, _) = registry.arm(now).unwrap();
    registry.ring(QUEUE, now);
    registry.hand_out(round, vec![Answer { dry: true, ..Answer::default() }], now);
    assert!(!joins(&registry, now));
}

#[test]
fn he_needs_one_when_nobody_is_left_who_would_have_been_told() {
    let (registry, now) = answered(Answer { dry: true, taken: 9, item: Some(()), ..Answer::default() });
    assert!(!joins(&registry, now), "the first one has got all that it wanted");
}

#[test]
fn what_a_ring_announces_during_the_heartbeats_look_is_no_missed_wake() {
    for (rings, hits) in [(true, 0), (false, 1)] {
        let (registry, now) = answered(Answer::default());
        registry.wake_all(Why::Heartbeat, now);
        let (round, _) = registry.arm(now).unwrap();
        if rings {
            registry.ring(QUEUE, now);
        }
        registry.hand_out(round, vec![Answer { item: Some(()), taken: 1, ..Answer::default() }], now);
        registry.tick(now + 2 * RING_WITHIN);
        assert_eq!(registry.counters.fallback_hits.get(), hits);
    }
}

#[test]
fn a_pause_after_failed_looks_ends_when_the_listener_is_back() {
    let (registry, now) = answered(Answer::default());
    for _ in 0..8 {
        registry.wake_all(Why::Connected, now);
        let (round, _) = registry.arm(now).expect("the server answers again");
        registry.failed(&round, now);
        assert!(registry.arm(now).is_none(), "it pauses");
        registry.ring(QUEUE, now);
        assert!(registry.arm(now).is_none(), "whoever rings does not know whether looks succeed");
    }
}

#[test]
fn who_finds_no_room_looks_when_there_is_some() {
    const OTHER: Number = Number(2);
    let (options, now) = (Options::default(), Instant::now());
    let registry =
        Registry::new(options.clone(), Arc::new(Seats::new(options)), Arc::<crate::Counters>::default());
    let room = Room::new(2);
    let ids = [QUEUE, OTHER].map(|number| {
        let share = Some(Share::new(room.clone(), 0));
        registry.register(number, Wish { want: (), most: 9, once: false, share }, now).unwrap()
    });
    let (round, asks) = registry.arm(now).unwrap();
    assert_eq!(asks.iter().map(|ask| (ask.number, ask.most)).collect::<Vec<_>>(), [(QUEUE, 2)]);
    registry.hand_out(round, vec![Answer { item: Some(()), taken: 2, full: true, ..Answer::default() }], now);
    assert!(registry.arm(now).is_none(), "all of it is in use");
    assert_eq!(registry.ring(OTHER, now), Found::AtRest);
    assert!(registry.arm(now).is_none(), "nor does a ring make room");

    registry.add(QUEUE, ids[0], 1, now);
    let (round, asks) = registry.arm(now).unwrap();
    assert_eq!(asks.len(), 1, "there is room for one, whoever looks first");
    registry.hand_out(round, vec![Answer::default()], now);
    let (round, asks) = registry.arm(now).expect("what the first did not need is the other's");
    assert_eq!(asks.iter().map(|ask| (ask.number, ask.most)).collect::<Vec<_>>(), [(OTHER, 1)]);
    registry.failed(&round, now);
    assert_eq!(room.taken(), 1, "a look that failed keeps nothing");
}
