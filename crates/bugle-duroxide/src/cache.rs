//! Histories in memory. History only grows within one incarnation and execution of an instance, so what is here need not be sent again.

use duroxide::Event;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// The histories of the instances used last, up to a number of bytes (of their text).
pub(crate) struct Cache {
    bytes_max: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<String, Entry>,
    /// When each was used, the longest ago first.
    uses: BTreeMap<u64, String>,
    bytes: usize,
    clock: u64,
}

struct Entry {
    stand: Stand,
    events: Arc<Vec<Event>>,
    bytes: usize,
    used: u64,
}

/// How far a history is known. Later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stand {
    pub(crate) incarnation: i64,
    pub(crate) execution: i64,
    pub(crate) last_event: i64,
}

impl Cache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, inner: Mutex::default() }
    }

    /// What is known of an instance's history.
    pub(crate) fn get(&self, instance: &str) -> Option<(Stand, Arc<Vec<Event>>)> {
        let mut inner = self.lock();
        inner.touch(instance);
        inner.entries.get(instance).map(|entry| (entry.stand, entry.events.clone()))
    }

    /// Keeps a history that was read as a whole.
    pub(crate) fn put(&self, instance: &str, stand: Stand, events: Arc<Vec<Event>>, bytes: usize) {
        let mut inner = self.lock();
        if inner.entries.get(instance).is_some_and(|entry| entry.stand >= stand) {
            return; // somebody else has read later
        }
        inner.remove(instance);
        inner.insert(instance, stand, events, bytes);
        inner.shrink(self.bytes_max);
    }

    /// Adds what was written or read behind event `before`, if all that comes before is known.
    pub(crate) fn append(&self, instance: &str, before: i64, stand: Stand, events: &[Event], bytes: usize) {
        if before == 0 {
            return self.put(instance, stand, Arc::new(events.to_vec()), bytes);
        }
        let mut inner = self.lock();
        let Some(entry) = inner.entries.get_mut(instance) else { return };
        if entry.stand != (Stand { last_event: before, ..stand }) {
            return;
        }
        entry.stand = stand;
        entry.bytes += bytes;
        Arc::make_mut(&mut entry.events).extend_from_slice(events);
        inner.bytes += bytes;
        inner.touch(instance);
        inner.shrink(self.bytes_max);
    }

    /// The database knows less than memory does: it has come back from a backup, or a standby took over that lacked something.
    pub(crate) fn forget_beyond(&self, instance: &str, stand: Stand) {
        let mut inner = self.lock();
        let ahead = |entry: &Entry| {
            (entry.stand.incarnation, entry.stand.execution) == (stand.incarnation, stand.execution)
                && entry.stand > stand
        };
        if inner.entries.get(instance).is_some_and(ahead) {
            inner.remove(instance);
        }
    }

    /// Histories in memory, and the bytes of their text.
    pub(crate) fn usage(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.entries.len(), inner.bytes)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn touch(&mut self, instance: &str) {
        self.clock += 1;
        if let Some(entry) = self.entries.get_mut(instance) {
            self.uses.remove(&entry.used);
            entry.used = self.clock;
            self.uses.insert(self.clock, instance.to_owned());
        }
    }

    fn insert(&mut self, instance: &str, stand: Stand, events: Arc<Vec<Event>>, bytes: usize) {
        self.entries.insert(instance.to_owned(), Entry { stand, events, bytes, used: 0 });
        self.bytes += bytes;
        self.touch(instance);
    }

    fn remove(&mut self, instance: &str) {
        if let Some(entry) = self.entries.remove(instance) {
            self.uses.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }

    fn shrink(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            let Some((_, oldest)) = self.uses.pop_first() else { return };
            self.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duroxide::EventKind;

    fn events(ids: std::ops::RangeInclusive<u64>) -> Vec<Event> {
        ids.map(|id| Event::with_event_id(id, "i", 1, None, EventKind::KeyValuesCleared)).collect()
    }

    fn stand(incarnation: i64, execution: i64, last_event: i64) -> Stand {
        Stand { incarnation, execution, last_event }
    }

    fn known(cache: &Cache, instance: &str) -> Option<(Stand, usize)> {
        cache.get(instance).map(|(stand, events)| (stand, events.len()))
    }

    #[test]
    fn what_is_written_behind_what_is_known_is_known() {
        let cache = Cache::new(1000);
        cache.append("a", 0, stand(1, 1, 2), &events(1..=2), 20);
        cache.append("a", 2, stand(1, 1, 3), &events(3..=3), 10);
        assert_eq!(known(&cache, "a"), Some((stand(1, 1, 3), 3)));
        assert_eq!(cache.usage().1, 30);
    }

    #[test]
    fn nothing_is_added_behind_a_gap_or_to_another_incarnation() {
        let cache = Cache::new(1000);
        cache.append("a", 0, stand(1, 1, 2), &events(1..=2), 20);
        cache.append("a", 3, stand(1, 1, 4), &events(4..=4), 10);
        cache.append("a", 2, stand(2, 1, 3), &events(3..=3), 10);
        cache.append("b", 2, stand(2, 1, 3), &events(3..=3), 10);
        assert_eq!(known(&cache, "a"), Some((stand(1, 1, 2), 2)));
        assert_eq!(known(&cache, "b"), None);
    }

    #[test]
    fn a_new_execution_or_incarnation_takes_the_place_of_the_old_one() {
        let cache = Cache::new(1000);
        cache.append("a", 0, stand(1, 1, 9), &events(1..=9), 90);
        cache.append("a", 0, stand(1, 2, 1), &events(1..=1), 10);
        assert_eq!((known(&cache, "a"), cache.usage().1), (Some((stand(1, 2, 1), 1)), 10));
        cache.put("a", stand(1, 1, 9), Arc::new(events(1..=9)), 90);
        assert_eq!(known(&cache, "a"), Some((stand(1, 2, 1), 1)), "read before");
        cache.append("a", 0, stand(5, 1, 2), &events(1..=2), 20);
        assert_eq!((known(&cache, "a"), cache.usage().1), (Some((stand(5, 1, 2), 2)), 20));
    }

    #[test]
    fn the_one_not_used_for_longest_goes_first() {
        let cache = Cache::new(100);
        cache.append("a", 0, stand(1, 1, 1), &events(1..=1), 40);
        cache.append("b", 0, stand(2, 1, 1), &events(1..=1), 40);
        cache.get("a");
        cache.append("c", 0, stand(3, 1, 1), &events(1..=1), 40);
        assert!(cache.get("a").is_some() && cache.get("b").is_none() && cache.get("c").is_some());
        cache.append("d", 0, stand(4, 1, 1), &events(1..=1), 101);
        assert_eq!(cache.usage().1, 0, "larger than all the room");
    }
}
