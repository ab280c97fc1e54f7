//! Where a page of a list ends.

use crate::Error;
use chrono::{DateTime, Utc};
use std::fmt;
use std::str::FromStr;

/// A place in a list of runs or events, as text for whoever asks for the next page. Every list has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub(super) at: DateTime<Utc>,
    pub(super) number: i64,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.at.timestamp_micros(), self.number)
    }
}

impl FromStr for Mark {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let read = || {
            let (at, number) = text.split_once('-')?;
            let at = DateTime::from_timestamp_micros(at.parse().ok()?)?;
            Some(Self { at, number: number.parse().ok()? })
        };
        read().ok_or_else(|| Error::Invalid {
            what: "place in the list",
            fault: format!("is {:?}", text.chars().take(80).collect::<String>()),
            next: "use the one that came with the page before",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let mark = Mark { at: DateTime::from_timestamp_micros(1_700_000_000_123_456).unwrap(), number: 42 };
        assert_eq!(mark.to_string(), "1700000000123456-42");
        assert_eq!(mark.to_string().parse::<Mark>().unwrap(), mark);
        for wrong in ["", "7", "x-7", "7-x", "99999999999999999999-1"] {
            let error = wrong.parse::<Mark>().unwrap_err().to_string();
            assert!(error.contains("place in the list") && error.contains(wrong), "{error}");
        }
    }
}
