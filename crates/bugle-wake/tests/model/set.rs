//! Sets of small numbers, one byte each: a state is copied and hashed millions of times.

/// A set of queues, rows or nodes, by their numbers (0 to 7).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Set(u8);

impl Set {
    pub(crate) const EMPTY: Self = Self(0);

    pub(crate) const fn one(member: u8) -> Self {
        Self(1 << member)
    }

    pub(crate) fn has(self, member: u8) -> bool {
        self.meets(Self::one(member))
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::EMPTY
    }

    /// Is there a member of both?
    pub(crate) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn add(&mut self, member: u8) {
        self.0 |= 1 << member;
    }

    pub(crate) fn add_all(&mut self, others: Self) {
        self.0 |= others.0;
    }

    pub(crate) fn remove(&mut self, member: u8) {
        self.0 &= !(1 << member);
    }

    pub(crate) fn without(mut self, member: u8) -> Self {
        self.remove(member);
        self
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = u8> {
        (0..8).filter(move |member| self.has(*member))
    }
}

impl FromIterator<u8> for Set {
    fn from_iter<I: IntoIterator<Item = u8>>(members: I) -> Self {
        let mut set = Self::EMPTY;
        for member in members {
            set.add(member);
        }
        set
    }
}

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
