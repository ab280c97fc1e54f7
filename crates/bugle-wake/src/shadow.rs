//! Shadow mode: would the work that a poll found have been announced, had the queue been woken by rings?

use std::time::Instant;

/// What a queue in shadow mode knows of the wakes that it does not act on.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    /// From this instant on a queue that is woken would have had a reason to look.
    announced: Option<Instant>,
    /// So it was before the look under way began.
    look_announced: bool,
}

impl Shadow {
    /// Something would wake the queue at this instant: a ring, a seat taken, a job that becomes due.
    pub(crate) fn announce(&mut self, at: Instant) {
        self.announced = Some(self.announced.map_or(at, |earlier| earlier.min(at)));
    }

    /// A look begins. Lowered here and not at its end, as flags are (rule 2): what is announced meanwhile may be found by the next look only.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.look_announced = self.announced.take_if(|at| *at <= now).is_some();
    }

    /// The look found work that nothing has announced so far.
    pub(crate) fn is_surprised(&self, now: Instant) -> bool {
        !self.look_announced && self.announced.is_none_or(|at| at > now)
    }
}

#[cfg(test)]
#[cfg(not(feature = "explore"))]
mod tests {
    use crate::counters::{Counters, Why};
    use crate::mode::{Mode, Setting};
    use crate::number::Number;
    use crate::options::Options;
    use crate::registry::Wish;
    use crate::registry::{RING_WITHIN, Registry};
    use crate::round::{Answer, Round};
    use crate::seat::{Errand, Seated};
    use crate::seats::Seats;
    use crate::wake::Wake;
    use std::collections::HashMap;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    const QUEUE: Number = Number(1);
    const POLL: Duration = Duration::from_secs(1);

    /// One consumer of one queue, and time that passes when told.
    struct Place {
        registry: Registry<(), ()>,
        now: Instant,
    }

    impl Place {
        /// Of a node that listens.
        fn in_mode(mode: Mode) -> Self {
            let (options, counters) = (Options::default(), Arc::new(Counters::default()));
            let seats = Arc::new(Seats::new(options.clone()));
            seats.listening();
            let place = Self { registry: Registry::new(options, seats, counters), now: Instant::now() };
            place.switch(mode);
            place
                .registry
                .register(QUEUE, Wish { want: (), most: 9, once: false, share: None }, place.now)
                .unwrap();
            place
        }

        /// In shadow mode, and seated since before the last look.
        fn asleep() -> Self {
            let mut place = Self::in_mode(Mode::Shadow);
            place.look(None);
            place.sit();
            place.poll(None);
            place
        }

        fn switch(&self, mode: Mode) {
            let setting = Setting { mode, poll: Some(POLL) };
            self.registry.set_modes(&HashMap::from([(QUEUE, setting)]), self.now);
        }

        /// The listener's part.
        fn sit(&self) {
            let seats = &self.registry.seats;
            assert!(matches!(seats.next_errand(self.now), Some(Errand::Sit { .. })));
            for bucket in seats.seated(&[(QUEUE.bucket(), Seated::Bell)], self.now) {
                self.registry.wake_bucket(bucket, Why::Seated, self.now);
            }
        }

        fn begin(&self) -> Round {
            self.registry.arm(self.now).expect("a reason to look").0
        }

        fn end(&self, round: Round, found: Option<()>, again: Option<Duration>) {
            // It goes on wanting as much: what it gets counts as nothing.
            let answer = Answer { item: found, again, ..Answer::default() };
            self.registry.hand_out(round, vec![answer], self.now);
        }

        fn look(&self, found: Option<()>) {
            self.end(self.begin(), found, None);
        }

        /// The look after the interval.
        fn poll(&mut self, found: Option<()>) {
            self.now += POLL;
            self.look(found);
        }

        /// When every ring has had the time to come.
        fn misses(&mut self) -> u64 {
            self.now += RING_WITHIN;
            self.registry.tick(self.now);
            self.registry.counters.shadow_misses.get()
        }
    }

    const FOUND: Option<()> = Some(());

    #[test]
    fn work_that_nothing_announced_is_a_miss() {
        let mut place = Place::asleep();
        place.poll(FOUND);
        assert_eq!(place.misses(), 1);
        assert_eq!(place.registry.counters.fallback_hits.get(), 0, "and no alarm of those who rely on rings");
    }

    #[test]
    fn work_that_was_rung_for_before_the_look_is_none() {
        let mut place = Place::asleep();
        place.registry.ring(QUEUE, place.now);
        place.poll(FOUND);
        assert_eq!(place.misses(), 0);
        place.poll(FOUND);
        assert_eq!(place.misses(), 1, "a ring announces once");
    }

    #[test]
    fn a_ring_during_a_look_counts_for_it_and_for_the_next() {
        for found_at_once in [true, false] {
            let mut place = Place::asleep();
            place.now += POLL;
            let round = place.begin();
            place.registry.ring(QUEUE, place.now);
            place.end(round, found_at_once.then_some(()), None);
            place.poll((!found_at_once).then_some(()));
            assert_eq!(place.misses(), 0, "found at once: {found_at_once}");
        }
    }

    #[test]
    fn a_ring_that_comes_late_is_no_miss() {
        let mut place = Place::asleep();
        place.poll(FOUND);
        place.now += RING_WITHIN / 2;
        place.registry.ring(QUEUE, place.now);
        assert_eq!(place.misses(), 0);
    }

    #[test]
    fn work_of_this_very_process_is_announced_by_it() {
        for before in [true, false] {
            let mut place = Place::asleep();
            if before {
                place.registry.local(QUEUE, place.now);
            }
            place.poll(FOUND);
            if !before {
                place.registry.local(QUEUE, place.now);
            }
            assert_eq!(place.misses(), 0, "before the look: {before}");
        }
    }

    #[test]
    fn nobody_rings_before_the_seat_is_taken() {
        let mut place = Place::in_mode(Mode::Shadow);
        place.look(None);
        place.sit(); // what was written since the look rang nobody
        place.poll(FOUND);
        assert_eq!(place.misses(), 0);
    }

    #[test]
    fn work_that_became_due_is_announced_by_the_look_before() {
        let mut place = Place::asleep();
        place.now += POLL;
        place.end(place.begin(), None, Some(POLL * 3 / 2));
        place.poll(None);
        place.poll(FOUND);
        assert_eq!(place.misses(), 0);
    }

    #[test]
    fn what_was_written_before_the_mode_began_is_no_miss() {
        let mut place = Place::in_mode(Mode::PollingOnly);
        place.look(None);
        place.switch(Mode::Shadow);
        place.look(FOUND);
        assert_eq!(place.misses(), 0);
    }

    #[test]
    fn a_node_that_lost_its_session_cannot_be_rung_for() {
        let mut place = Place::asleep();
        place.registry.seats.lost(crate::seat::Session::Away);
        place.registry.fault(crate::alert::Event::ListenerLost, place.now);
        for _ in 0..3 {
            place.poll(FOUND);
            assert_eq!(place.misses(), 0);
        }
    }
}
