//! Moments as people read them.

use crate::span;
use chrono::{DateTime, SecondsFormat, Utc};

/// `3s ago`, `in 5m`, `now`. The clocks of this machine and the database may differ a little: it is for reading, not for deciding.
pub(super) fn relative(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let apart = now - at;
    if apart.num_seconds() == 0 {
        return "now".to_owned();
    }
    let length = span::short(apart.abs().to_std().unwrap_or_default());
    if apart.num_seconds() > 0 { format!("{length} ago") } else { format!("in {length}") }
}

/// RFC 3339, in UTC, to the millisecond.
pub(super) fn full(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;

    #[test]
    fn moments_are_shown_from_now() {
        let now = DateTime::UNIX_EPOCH;
        assert_eq!(relative(now, now), "now");
        assert_eq!(relative(now - TimeDelta::seconds(3), now), "3s ago");
        assert_eq!(relative(now + TimeDelta::minutes(5), now), "in 5m");
        assert_eq!(full(now), "1970-01-01T00:00:00.000Z");
    }
}
