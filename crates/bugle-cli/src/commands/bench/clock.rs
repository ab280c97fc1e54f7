//! Clocks: one that all processes of a machine share, and how far the database's is from it.

use crate::failure::Failure;
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::time::Duration;

pub(super) use super::scene::now_ns;

/// Round trips of which the fastest is believed.
const ROUND_TRIPS: usize = 50;

/// How long after `from` it was at `to`; nothing when it was before.
pub(super) fn between(from: i64, to: i64) -> Duration {
    Duration::from_nanos(u64::try_from(to.saturating_sub(from)).unwrap_or(0))
}

/// Milliseconds of a difference of two clocks in microseconds, before or after.
pub(super) fn signed_ms(microseconds: i64) -> f64 {
    let size = Duration::from_micros(microseconds.unsigned_abs()).as_secs_f64() * 1e3;
    if microseconds < 0 { -size } else { size }
}

/// The database's clock, read off the monotonic one.
#[derive(Debug, Clone, Copy)]
pub(super) struct DatabaseClock {
    /// Microseconds to add to the monotonic clock.
    offset_us: i64,
    /// At most so much is it wrong: half the round trip.
    pub(super) error: Duration,
}

impl DatabaseClock {
    /// Asks the database for the time, often, and believes the fastest answer.
    pub(super) async fn measure(pool: &PgPool) -> Result<Self, Failure> {
        let mut connection = pool.acquire().await?;
        let mut best: Option<Self> = None;
        for _ in 0..ROUND_TRIPS {
            let asked = now_ns();
            let said: DateTime<Utc> =
                sqlx::query_scalar(include_str!("sql/clock.sql")).fetch_one(&mut *connection).await?;
            let answered = now_ns();
            let middle_us = (asked / 2 + answered / 2) / 1_000;
            let error = between(asked, answered) / 2;
            if best.is_none_or(|best| error < best.error) {
                best = Some(Self { offset_us: said.timestamp_micros() - middle_us, error });
            }
        }
        best.ok_or_else(|| Failure::server("the database's clock could not be read"))
    }

    /// Microseconds since 1970 by the database's clock, at a moment of the monotonic one.
    pub(super) fn at_us(self, monotonic_ns: i64) -> i64 {
        monotonic_ns / 1_000 + self.offset_us
    }
}
