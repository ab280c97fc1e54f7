//! Moments in the past as they are typed.

use crate::span;
use chrono::{DateTime, Utc};

/// `2030-01-31T09:00:00Z`, or how long ago: `5m`.
pub(super) fn parse(text: &str) -> Result<DateTime<Utc>, String> {
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        return Ok(at.to_utc());
    }
    let ago = span::parse(text.trim_end_matches("ago").trim_end()).map_err(|_| fault(text))?;
    Utc::now()
        .checked_sub_signed(chrono::TimeDelta::from_std(ago).map_err(|_| fault(text))?)
        .ok_or_else(|| fault(text))
}

fn fault(text: &str) -> String {
    format!(
        "{text:?} is no moment; write it like 2030-01-31T09:00:00Z, or how long ago, such as 30s, 5m or 2h"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;

    #[test]
    fn a_moment_is_a_date_or_so_long_ago() {
        assert_eq!(parse("1970-01-01T01:00:00+01:00"), Ok(DateTime::UNIX_EPOCH));
        for text in ["5m", "5m ago"] {
            let (before, moment) = (Utc::now(), parse(text).unwrap());
            let five_minutes = TimeDelta::minutes(5);
            assert!(before - five_minutes <= moment && moment <= Utc::now() - five_minutes, "{moment}");
        }
        assert!(parse("yesterday").unwrap_err().contains("\"yesterday\" is no moment"));
        assert!(parse("").is_err());
    }
}
