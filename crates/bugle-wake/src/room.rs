//! Slots that several intentions share: each has its least for itself, and takes of the common ones while it has work for them.
//!
//! What a look may bring is reserved before the look is sent, and what it did not bring is given back with its answer: however many queues
//! have work at once, no more is claimed than there is room for.

use crate::sync::Mutex;
use std::sync::Arc;

/// Common slots. Cheap to clone.
#[derive(Clone)]
pub struct Room(Arc<Mutex<Slots>>);

struct Slots {
    /// How many there are.
    all: u32,
    free: u32,
    /// Somebody was refused since something was last given back.
    refused: bool,
}

impl Room {
    /// Room for so many, beside what each intention has for itself.
    #[must_use]
    pub fn new(slots: u32) -> Self {
        Self(Arc::new(Mutex::new(Slots { all: slots, free: slots, refused: false })))
    }

    /// How many there are.
    #[must_use]
    pub fn all(&self) -> u32 {
        self.0.lock().all
    }

    /// How many are in use or reserved.
    #[must_use]
    pub fn taken(&self) -> u32 {
        let slots = self.0.lock();
        slots.all - slots.free
    }

    fn reserve(&self, wanted: u32) -> u32 {
        let mut slots = self.0.lock();
        let got = wanted.min(slots.free);
        slots.free -= got;
        slots.refused |= got < wanted;
        got
    }

    /// True: somebody was refused before, and may try again.
    fn give_back(&self, n: u32) -> bool {
        if n == 0 {
            return false;
        }
        let mut slots = self.0.lock();
        slots.free += n;
        std::mem::take(&mut slots.refused)
    }
}

/// One intention's part of a room.
pub(crate) struct Share {
    room: Room,
    /// It has so many slots for itself.
    least: u32,
    /// So many of its slots are in use.
    used: u32,
    /// Common slots that a look under way may need.
    reserved: u32,
}

impl Share {
    pub(crate) fn new(room: Room, least: u32) -> Self {
        Self { room, least, used: 0, reserved: 0 }
    }

    /// A look begins for one that wants so much: how much may it bring?
    pub(crate) fn begin(&mut self, most: u32) -> u32 {
        self.room.give_back(std::mem::take(&mut self.reserved)); // of a look that nobody answered
        let own = self.least.max(self.used);
        let wanted = (self.used + most).saturating_sub(own);
        self.reserved = self.room.reserve(wanted);
        (own - self.used).min(most) + self.reserved
    }

    /// It ended, and brought so much. True: others may try again.
    pub(crate) fn end(&mut self, taken: u32) -> bool {
        let before = self.common();
        self.used += taken;
        let needed = self.common() - before;
        // More than was asked for would be a mistake of the source: it must not make slots appear.
        self.room.give_back(std::mem::take(&mut self.reserved).saturating_sub(needed))
    }

    /// So many slots are free again. True: others may try again.
    pub(crate) fn free(&mut self, n: u32) -> bool {
        let before = self.common();
        self.used = self.used.saturating_sub(n);
        self.room.give_back(before - self.common())
    }

    /// The intention goes, with all that it had.
    pub(crate) fn leave(&mut self) -> bool {
        let all = std::mem::take(&mut self.reserved);
        let used = self.used;
        self.free(used) | self.room.give_back(all)
    }

    /// The common slots in use.
    fn common(&self) -> u32 {
        self.used.saturating_sub(self.least)
    }
}

#[cfg(all(test, not(feature = "explore")))]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_least_and_the_rest_goes_to_who_has_work() {
        let room = Room::new(4);
        let (mut one, mut other) = (Share::new(room.clone(), 1), Share::new(room.clone(), 1));
        assert_eq!(one.begin(10), 5, "its own and all common ones");
        assert_eq!(other.begin(10), 1, "they are reserved");
        assert!(!other.end(0));
        assert!(one.end(2), "three common ones are given back, and one was refused");
        assert_eq!(room.taken(), 1);
        assert_eq!(other.begin(10), 4);
    }

    #[test]
    fn what_was_taken_is_given_back_once() {
        let room = Room::new(4);
        let mut one = Share::new(room.clone(), 2);
        assert_eq!(one.begin(6), 6);
        one.end(6);
        assert_eq!(room.taken(), 4);
        assert_eq!(one.begin(1), 0, "nothing is left");
        one.end(0);
        assert!(one.free(3), "and that was a refusal");
        assert_eq!(room.taken(), 1);
        assert!(!one.free(3), "nobody was refused since");
        assert_eq!(room.taken(), 0);
        assert_eq!(one.begin(1), 1);
        one.leave();
        assert_eq!(room.taken(), 0);
    }

    #[test]
    fn a_look_that_brings_what_the_intention_has_for_itself_needs_no_room() {
        let room = Room::new(2);
        let mut one = Share::new(room.clone(), 3);
        assert_eq!(one.begin(3), 3);
        assert_eq!(room.taken(), 0);
        one.end(3);
        assert_eq!(room.taken(), 0);
    }
}
