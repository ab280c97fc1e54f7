//! Dead rows, and the partitions of the days.

use super::Patient;
use super::finding::Finding;
use chrono::{DateTime, SecondsFormat, Utc};

/// Fewer are not worth a word.
const DEAD_ROWS_MAX: i64 = 50_000;

#[derive(sqlx::FromRow)]
struct Bloated {
    name: String,
    live: i64,
    dead: i64,
    vacuumed_at: Option<DateTime<Utc>>,
}

pub(super) async fn check_bloat(patient: &Patient<'_>) -> Result<Vec<Finding>, sqlx::Error> {
    let bloated: Vec<Bloated> = sqlx::query_as(include_str!("sql/bloat.sql"))
        .bind(patient.schema.as_str())
        .bind(DEAD_ROWS_MAX)
        .fetch_all(&patient.pool)
        .await?;
    if bloated.is_empty() {
        return Ok(vec![Finding::ok(
            "dead rows",
            format!("no table has more than {DEAD_ROWS_MAX} and twice its live ones"),
        )]);
    }
    Ok(bloated
        .iter()
        .map(|t| {
            let vacuumed = t
                .vacuumed_at
                .map_or_else(|| "never".to_owned(), |at| at.to_rfc3339_opts(SecondsFormat::Secs, true));
            Finding::warn(
                "dead rows",
                format!(
                    "table {} has {} dead rows and {} live ones; last vacuumed: {vacuumed}",
                    t.name, t.dead, t.live
                ),
                format!(
                    "VACUUM {}.{}; if that does not help, see who keeps them (snapshots)",
                    patient.schema, t.name
                ),
            )
        })
        .collect())
}

pub(super) async fn check_partitions(patient: &Patient<'_>) -> Result<Vec<Finding>, sqlx::Error> {
    let fix = format!("run a worker, or SELECT {}.make_partitions()", patient.schema);
    let days: i32 =
        sqlx::query_scalar(patient.sql(include_str!("sql/days_ahead.sql"))).fetch_one(&patient.pool).await?;
    let stray: bool = sqlx::query_scalar(patient.sql(include_str!("sql/default_partitions.sql")))
        .fetch_one(&patient.pool)
        .await?;
    let mut findings = vec![if days < 1 {
        Finding::warn(
            "partitions",
            "history, failure or flow_event has no partition for tomorrow",
            fix.clone(),
        )
    } else {
        Finding::ok("partitions", format!("made for {days} days ahead"))
    }];
    if stray {
        findings.push(Finding::warn(
            "partitions",
            "a default partition has rows: no partition was there for their day, and they are not dropped by age",
            fix,
        ));
    }
    Ok(findings)
}
