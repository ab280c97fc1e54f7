//! What a node knows of one group of one queue: which partitions may be claimable, and when others will be. Hints, rebuilt by a search of
//! all partitions; the ledger in the database decides.
//!
//! A partition that is neither a candidate nor has a timer was empty when the node last looked, and whatever makes it claimable is news.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

/// After so long all partitions are searched anew, should news have been lost.
const SEARCH_EVERY: Duration = Duration::from_mins(5);
/// Partitions that a sight remembers: some megabytes. One that has more is forgotten and searched anew.
const PARTITIONS_MAX: usize = 200_000;
/// Candidates that one look tries beyond those that its asks could take: some will be held by others.
const SPARE: usize = 20;

/// One ask, as a sight sees it: the partition that it is bound to, and how many it may get.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    pub(super) part: Option<i32>,
    pub(super) parts: u32,
}

#[derive(Debug, Default)]
pub(super) struct Sight {
    /// The snapshot of the last look; `None`: everything is to be searched.
    seen: Option<String>,
    searched: Option<Instant>,
    /// May be claimable, in the order in which they are to be tried: who was served goes to the end.
    candidates: VecDeque<i32>,
    is_candidate: HashSet<i32>,
    /// Not claimable before.
    timers: HashMap<i32, Instant>,
    by_time: BTreeSet<(Instant, i32)>,
}

impl Sight {
    /// What the next look shall begin from. `None`: it searches everything.
    pub(super) fn begin(&mut self, now: Instant) -> Option<&str> {
        let is_stale = self.searched.is_none_or(|searched| now >= searched + SEARCH_EVERY);
        if is_stale || self.timers.len() + self.candidates.len() > PARTITIONS_MAX {
            *self = Self { searched: Some(now), ..Self::default() };
        }
        while let Some((at, part)) = self.by_time.first().copied().filter(|(at, _)| *at <= now) {
            self.by_time.remove(&(at, part));
            self.timers.remove(&part);
            self.add(part);
        }
        self.seen.as_deref()
    }

    /// The partitions that the next look shall try.
    pub(super) fn to_try(&self, wishes: &[Wish]) -> Vec<i32> {
        let bound: Vec<i32> = wishes
            .iter()
            .filter_map(|wish| wish.part)
            .filter(|part| self.is_candidate.contains(part))
            .collect();
        let free: u32 = wishes.iter().filter(|wish| wish.part.is_none()).map(|wish| wish.parts).sum();
        let free = usize::try_from(free).unwrap_or(usize::MAX);
        let any = if free == 0 { 0 } else { free.saturating_add(SPARE) };
        bound.iter().chain(self.candidates.iter().take(any)).copied().collect()
    }

    /// The look has seen so much.
    pub(super) fn saw(&mut self, snapshot: String) {
        self.seen = Some(snapshot);
    }

    /// There is news of a partition; a search also tells of one that is not claimable before some time.
    pub(super) fn note_news(&mut self, part: i32, at: Option<Instant>) {
        if let Some(at) = at {
            self.set_timer(part, at);
        } else {
            self.clear_timer(part); // whatever it waited for may have changed
            self.add(part);
        }
    }

    /// A partition was tried, and perhaps served. `None`: it is empty; a time that is past: it may be tried at any time.
    pub(super) fn note_fate(&mut self, part: i32, served: bool, again: Option<Instant>, now: Instant) {
        if !served && again.is_some_and(|at| at <= now) && self.is_candidate.contains(&part) {
            return; // it keeps its turn
        }
        if self.is_candidate.remove(&part) {
            self.candidates.retain(|candidate| *candidate != part);
        }
        self.clear_timer(part);
        match again {
            None => {}
            Some(at) if at <= now => self.add(part),
            Some(at) => self.set_timer(part, at),
        }
    }

    /// How soon an ask that got nothing shall be looked for again.
    pub(super) fn again(&self, wish: Wish, now: Instant) -> Option<Duration> {
        let (is_there, at) = match wish.part {
            Some(part) => (self.is_candidate.contains(&part), self.timers.get(&part).copied()),
            None => (!self.candidates.is_empty(), self.by_time.first().map(|(at, _)| *at)),
        };
        if is_there { Some(Duration::ZERO) } else { at.map(|at| at.saturating_duration_since(now)) }
    }

    /// May this partition be claimable?
    pub(super) fn is_candidate(&self, part: i32) -> bool {
        self.is_candidate.contains(&part)
    }

    /// Are there any that may be?
    pub(super) fn has_candidates(&self) -> bool {
        !self.candidates.is_empty()
    }

    /// The partitions of which anything is known.
    pub(super) fn known(&self) -> Vec<i32> {
        self.candidates.iter().chain(self.timers.keys()).copied().collect()
    }

    fn add(&mut self, part: i32) {
        if self.is_candidate.insert(part) {
            self.candidates.push_back(part);
        }
    }

    fn set_timer(&mut self, part: i32, at: Instant) {
        self.clear_timer(part);
        self.timers.insert(part, at);
        self.by_time.insert((at, part));
    }

    fn clear_timer(&mut self, part: i32) {
        if let Some(at) = self.timers.remove(&part) {
            self.by_time.remove(&(at, part));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Wish = Wish { part: None, parts: 1 };

    #[test]
    fn a_partition_that_was_served_is_tried_after_the_others() {
        let (mut sight, now) = (Sight::default(), Instant::now());
        sight.begin(now);
        for part in [1, 2, 3] {
            sight.note_news(part, None);
        }
        sight.note_fate(3, false, Some(now), now);
        sight.note_fate(2, false, Some(now), now);
        sight.note_fate(1, true, Some(now), now);
        assert_eq!(sight.to_try(&[ANY]), [2, 3, 1]);
    }

    #[test]
    fn a_timer_makes_a_candidate_when_its_time_has_come() {
        let (mut sight, now) = (Sight::default(), Instant::now());
        sight.begin(now);
        sight.note_fate(1, false, Some(now + Duration::from_secs(2)), now);
        assert_eq!(sight.again(ANY, now), Some(Duration::from_secs(2)));
        assert!(sight.to_try(&[ANY]).is_empty());
        sight.begin(now + Duration::from_secs(2));
        assert_eq!(sight.to_try(&[ANY]), [1]);
        assert_eq!(sight.again(ANY, now), Some(Duration::ZERO));
    }

    #[test]
    fn news_of_a_partition_overrides_its_timer() {
        let (mut sight, now) = (Sight::default(), Instant::now());
        sight.begin(now);
        sight.note_fate(1, false, Some(now + Duration::from_secs(2)), now);
        sight.note_news(1, None);
        assert_eq!(sight.to_try(&[ANY]), [1]);
        sight.note_fate(1, false, None, now);
        assert_eq!(sight.again(ANY, now), None);
    }

    #[test]
    fn whoever_is_bound_to_a_partition_waits_for_that_one_alone() {
        let (mut sight, now) = (Sight::default(), Instant::now());
        sight.begin(now);
        sight.note_news(1, None);
        let bound = Wish { part: Some(2), parts: 1 };
        assert!(sight.to_try(&[bound]).is_empty());
        assert_eq!(sight.again(bound, now), None);
        sight.note_news(2, None);
        assert_eq!(sight.to_try(&[bound]), [2]);
    }

    #[test]
    fn everything_is_searched_anew_from_time_to_time() {
        let (mut sight, now) = (Sight::default(), Instant::now());
        assert_eq!(sight.begin(now), None);
        sight.saw("1:1:".to_owned());
        assert_eq!(sight.begin(now), Some("1:1:"));
        assert_eq!(sight.begin(now + SEARCH_EVERY), None);
    }
}
