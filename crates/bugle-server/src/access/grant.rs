//! What one caller may do.

use super::right::Rights;
use bugle::access::{Right, Scope};
use std::time::Instant;

/// What one caller may do, and who it is.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    scopes: Vec<Scope>,
    /// Who it is, by a proof: the producer of what it pushes.
    subject: Option<String>,
    /// From when on it does not hold any more.
    expires: Option<Instant>,
}

impl Grant {
    pub(crate) fn new(scopes: Vec<Scope>, subject: Option<String>) -> Self {
        Self { scopes, subject, expires: None }
    }

    /// It holds until then.
    pub(crate) fn until(mut self, expires: Option<Instant>) -> Self {
        self.expires = expires;
        self
    }

    /// These rights for every queue.
    pub(crate) fn of(rights: &[Right], subject: Option<String>) -> Result<Self, bugle::Error> {
        Ok(Self::new(vec![Scope::new("", rights.iter().copied())?], subject))
    }

    /// For a route that needs nobody's leave.
    pub(crate) fn nothing() -> Self {
        Self::new(Vec::new(), None)
    }

    /// Rights enough for this queue?
    pub(crate) fn allows(&self, rights: Rights, queue: &str) -> bool {
        has(rights, |right| self.scopes.iter().any(|scope| scope.allows(right, queue)))
    }

    /// Rights enough for some queue or other?
    pub(crate) fn allows_somewhere(&self, rights: Rights) -> bool {
        rights.is_empty()
            || has(rights, |right| self.scopes.iter().any(|scope| scope.rights().contains(&right)))
    }

    /// Rights enough for every queue?
    pub(crate) fn allows_everywhere(&self, rights: Rights) -> bool {
        self.allows(rights, "") // the name that only the empty prefix is a beginning of
    }

    /// Does it allow the same to the same caller?
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.scopes == other.scopes && self.subject == other.subject
    }

    pub(crate) fn expires(&self) -> Option<Instant> {
        self.expires
    }

    pub(crate) fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }
}

/// All rights of one of the ways?
fn has(rights: Rights, has: impl Fn(Right) -> bool) -> bool {
    rights.iter().any(|way| way.iter().all(|right| has(*right)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_reaches_as_far_as_its_prefix() {
        let scope = |queues: &str, right| Scope::new(queues, [right]).unwrap();
        let grant = Grant::new(vec![scope("shop.", Right::Push), scope("", Right::Inspect)], None);
        let (push, pop, look): (Rights, Rights, Rights) =
            (&[&[Right::Push]], &[&[Right::Pop]], &[&[Right::Inspect]]);
        assert!(grant.allows(push, "shop.orders"));
        assert!(grant.allows(&[&[Right::Push, Right::Inspect]], "shop.orders"));
        assert!(grant.allows(&[&[Right::Pop], &[Right::Push]], "shop.orders"), "one way is enough");
        assert!(!grant.allows(push, "shop"), "shorter than the prefix");
        assert!(!grant.allows(pop, "shop.orders"));
        assert!(grant.allows_somewhere(push) && !grant.allows_everywhere(push));
        assert!(grant.allows_everywhere(look));
        assert!(!Grant::nothing().allows_somewhere(look) && Grant::nothing().allows_somewhere(&[]));
    }
}
