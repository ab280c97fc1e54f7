//! What an API key is for.

use crate::Error;
use crate::limits::NAME_BYTES_MAX;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What may be done. None includes another: a key has the rights that it was given, and no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Right {
    /// Push messages.
    Push,
    /// Pop and settle messages.
    Pop,
    /// See queues, groups, messages and dead letters.
    Inspect,
    /// Configure, move, clear and delete them.
    Admin,
}

impl Right {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Push, Self::Pop, Self::Inspect, Self::Admin];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Pop => "pop",
            Self::Inspect => "inspect",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Right {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|right| right.as_str() == text).ok_or_else(|| Error::Invalid {
            what: "right",
            fault: format!("is {text:?}"),
            next: "use push, pop, inspect or admin",
        })
    }
}

/// Rights to the queues whose names begin with a prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    queues: String,
    rights: Vec<Right>,
}

impl Scope {
    /// Rights to the queues whose names begin with `queues`; with nothing: to all of them.
    pub fn new(queues: &str, rights: impl IntoIterator<Item = Right>) -> Result<Self, Error> {
        let mut rights: Vec<Right> = rights.into_iter().collect();
        rights.sort_unstable();
        rights.dedup();
        let fault = if queues.len() > NAME_BYTES_MAX || queues.chars().any(char::is_control) {
            format!("is for queues {queues:?}")
        } else if rights.is_empty() {
            "has no right".to_owned()
        } else {
            return Ok(Self { queues: queues.to_owned(), rights });
        };
        let next = "name some of push, pop, inspect and admin, and a prefix of at most 255 bytes without control characters";
        Err(Error::Invalid { what: "scope", fault, next })
    }

    /// What the names of its queues begin with.
    #[must_use]
    pub fn queues(&self) -> &str {
        &self.queues
    }

    /// Its rights, each once.
    #[must_use]
    pub fn rights(&self) -> &[Right] {
        &self.rights
    }

    /// Is it for this?
    #[must_use]
    pub fn allows(&self, right: Right, queue: &str) -> bool {
        self.rights.contains(&right) && queue.starts_with(&self.queues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_for_its_rights_and_its_queues_alone() {
        let scope = Scope::new("orders.", [Right::Pop, Right::Push, Right::Pop]).unwrap();
        assert_eq!(scope.rights(), [Right::Push, Right::Pop]);
        assert!(scope.allows(Right::Push, "orders.new"));
        assert!(!scope.allows(Right::Inspect, "orders.new"));
        assert!(!scope.allows(Right::Push, "orders"));
        assert!(Scope::new("", Right::ALL).unwrap().allows(Right::Admin, "anything"));
        assert!(!Scope::new("", [Right::Admin]).unwrap().allows(Right::Push, "q"), "none includes another");
        for bad in
            [Scope::new("q", []), Scope::new("\n", Right::ALL), Scope::new(&"q".repeat(256), Right::ALL)]
        {
            assert!(bad.unwrap_err().to_string().contains("scope"));
        }
        assert!("write".parse::<Right>().unwrap_err().to_string().contains("use push"));
    }
}
