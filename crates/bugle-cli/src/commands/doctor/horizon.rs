//! Who keeps dead rows from being removed.

use super::Patient;
use super::finding::Finding;
use crate::span;
use std::time::Duration;

/// From this on a slot that nobody reads is a fault: in transactions.
const SLOT_AGE_MAX: i64 = 1_000_000;

#[derive(sqlx::FromRow)]
struct Holder {
    kind: String,
    who: String,
    holds_back: Option<i64>,
    seconds: Option<f64>,
    remedy: String,
}

pub(super) async fn check(patient: &Patient<'_>) -> Result<Vec<Finding>, sqlx::Error> {
    let holders: Vec<Holder> =
        sqlx::query_as(include_str!("sql/horizon.sql")).fetch_all(&patient.pool).await?;
    let limit = patient.args.max_transaction;
    let findings: Vec<Finding> = holders
        .iter()
        .filter(|h| match h.seconds {
            Some(seconds) => seconds >= limit.as_secs_f64(),
            None => h.holds_back.unwrap_or_default() >= SLOT_AGE_MAX,
        })
        .map(|h| {
            let age = h.seconds.map_or_else(String::new, |seconds| {
                format!(
                    ", open for {}",
                    span::short(Duration::try_from_secs_f64(seconds).unwrap_or_default())
                )
            });
            Finding::warn(
                "snapshots",
                format!(
                    "{} {} keeps the dead rows of {} transactions{age}: tables grow and vacuum cannot help",
                    h.kind,
                    h.who,
                    h.holds_back.unwrap_or_default()
                ),
                format!("end what it does, or: {}", h.remedy),
            )
        })
        .collect();
    Ok(if findings.is_empty() {
        let limit = span::short(limit);
        vec![Finding::ok(
            "snapshots",
            format!("no transaction, prepared transaction or slot older than {limit} keeps dead rows"),
        )]
    } else {
        findings
    })
}
