//! How far this machine's clock is from the database's, which alone decides what is due.

use super::Patient;
use super::finding::Finding;
use chrono::{DateTime, TimeDelta, Utc};

const SAMPLES: u32 = 5;
const OFFSET_MAX: TimeDelta = TimeDelta::seconds(1);

pub(super) async fn check(patient: &Patient<'_>) -> Result<Vec<Finding>, sqlx::Error> {
    let mut best: Option<(TimeDelta, TimeDelta)> = None;
    for _ in 0..SAMPLES {
        let asked = Utc::now();
        let theirs: DateTime<Utc> =
            sqlx::query_scalar(include_str!("sql/clock.sql")).fetch_one(&patient.pool).await?;
        let round_trip = Utc::now() - asked;
        // The answer was written about half-way; the quickest answer says it best.
        let offset = theirs - (asked + round_trip / 2);
        if best.is_none_or(|(quickest, _)| round_trip < quickest) {
            best = Some((round_trip, offset));
        }
    }
    let Some((round_trip, offset)) = best else { return Ok(Vec::new()) };
    let apart = format!(
        "the database's clock is {:.1} ms {} this machine's (within {:.1} ms)",
        milliseconds(offset.abs()),
        if offset < TimeDelta::zero() { "behind" } else { "ahead of" },
        milliseconds(round_trip / 2)
    );
    Ok(vec![if offset.abs() > OFFSET_MAX + round_trip / 2 {
        Finding::warn(
            "clock",
            apart,
            "set both by NTP; the database's clock decides what is due, so jobs are right, but moments computed here (--due-at) are not",
        )
    } else {
        Finding::ok("clock", apart)
    }])
}

fn milliseconds(length: TimeDelta) -> f64 {
    length.as_seconds_f64() * 1_000.0
}
