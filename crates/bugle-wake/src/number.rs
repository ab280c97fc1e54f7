//! What a ring names: a queue's number and the bucket that it falls into.

use std::fmt;

/// Buckets that queues fall into. Several share one: a bucket costs two advisory locks, a queue none. As many again are for their ends.
pub const BUCKETS: i32 = 64;

/// The number of a queue, as its table numbers it: from 1. The negative one stands for the ends of its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(pub i32);

/// The bucket of a queue, 1 to [`BUCKETS`], or of its ends, above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(pub(crate) i32);

impl Number {
    /// The number under which the ends of this queue's work are rung for: whoever waits for them holds other bells than whoever waits for
    /// work, and neither is woken by what only concerns the other.
    #[must_use]
    pub fn ends(self) -> Self {
        Self(-self.0)
    }

    /// The bucket that it falls into; `bugle.bucket_of` is the same in SQL.
    #[must_use]
    pub fn bucket(self) -> Bucket {
        if self.0 > 0 {
            Bucket(1 + (self.0 - 1) % BUCKETS)
        } else {
            Bucket(BUCKETS + 1 + !self.0 % BUCKETS) // !n is -n - 1, without overflow
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a notification on the bell channel says. A wake is a hint, never data: whatever cannot be read is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// A producer found the bell taken.
    Ring(Bucket, Number),
    /// A sleeper let go of the bell, or took it.
    Handover(Bucket),
    /// Something that every node must know has changed.
    Control,
}

impl Call {
    /// Reads a payload; anybody can send one.
    pub(crate) fn parse(payload: &str) -> Option<Self> {
        if payload == "0" {
            return Some(Self::Control);
        }
        let (bucket, what) = payload.split_once(':')?;
        let bucket = Bucket(bucket.parse().ok().filter(|b| (1..=2 * BUCKETS).contains(b))?);
        if what == "h" {
            return Some(Self::Handover(bucket));
        }
        let number = Number(what.parse().ok().filter(|n| *n != 0)?);
        (number.bucket() == bucket).then_some(Self::Ring(bucket, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_read() {
        assert_eq!(Call::parse("1:65"), Some(Call::Ring(Bucket(1), Number(65))));
        assert_eq!(Call::parse("65:-65"), Some(Call::Ring(Bucket(65), Number(65).ends())));
        assert_eq!(Call::parse("64:h"), Some(Call::Handover(Bucket(64))));
        assert_eq!(Call::parse("128:h"), Some(Call::Handover(Bucket(128))));
        assert_eq!(Call::parse("0"), Some(Call::Control));
    }

    #[test]
    fn ends_fall_into_buckets_of_their_own() {
        for n in [1, 64, 65, i32::MAX] {
            assert_eq!(Number(n).ends().bucket().0, Number(n).bucket().0 + BUCKETS);
        }
        assert!((BUCKETS + 1..=2 * BUCKETS).contains(&Number(i32::MIN).bucket().0));
    }

    #[test]
    fn garbage_is_ignored() {
        for garbage in [
            "",
            ":",
            "h",
            "1",
            "0:h",
            "129:h",
            "1:2",
            "1:",
            "-1:h",
            "1:-1",
            "65:1",
            "1:0",
            "1:h ",
            "é:h",
            "1:99999999999",
        ] {
            assert_eq!(Call::parse(garbage), None, "{garbage:?}");
        }
    }
}
