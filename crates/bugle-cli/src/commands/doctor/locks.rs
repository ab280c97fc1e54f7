//! Who sits on one of Bugle's advisory locks.

use super::Patient;
use super::finding::Finding;
use crate::span;
use std::time::Duration;

/// Bugle holds its locks for milliseconds; a migration may take longer.
const HELD_SECONDS_MAX: f64 = 3.0;

pub(super) async fn check(patient: &Patient<'_>) -> Result<Vec<Finding>, sqlx::Error> {
    let found: Vec<(String, i32, String, bool, f64)> =
        sqlx::query_as(patient.sql(include_str!("sql/locks.sql")))
            .bind(HELD_SECONDS_MAX)
            .fetch_all(&patient.pool)
            .await?;
    if found.is_empty() {
        return Ok(vec![Finding::ok(
            "locks",
            format!("nobody has held one of Bugle's for more than {HELD_SECONDS_MAX} s"),
        )]);
    }
    Ok(found
        .into_iter()
        .map(|(lock, pid, who, granted, seconds)| {
            let long = span::short(Duration::try_from_secs_f64(seconds).unwrap_or_default());
            let verb = if granted { "holds" } else { "waits for" };
            Finding::warn(
                "locks",
                format!("process {pid} of {who} {verb} the {lock} lock, in a transaction of {long}"),
                if granted {
                    format!("end what it does, or: SELECT pg_terminate_backend({pid})")
                } else {
                    "see who holds it".to_owned()
                },
            )
        })
        .collect())
}
