//! Reading every open job.

use super::Patient;
use super::finding::Finding;

#[derive(sqlx::FromRow)]
struct Miscounted {
    name: String,
    state: String,
    counted: i64,
    found: i64,
}

pub(super) async fn check(patient: &Patient<'_>) -> Result<Vec<Finding>, sqlx::Error> {
    let orphans: i64 =
        sqlx::query_scalar(patient.sql(include_str!("sql/orphans.sql"))).fetch_one(&patient.pool).await?;
    let miscounted: Vec<Miscounted> =
        sqlx::query_as(patient.sql(include_str!("sql/miscounted.sql"))).fetch_all(&patient.pool).await?;
    let mut findings = vec![if orphans == 0 {
        Finding::ok("orphans", "every job that was handed out is held by a lease")
    } else {
        Finding::fail(
            "orphans",
            format!("{orphans} jobs were handed out and nobody holds them: they would never run"),
            format!("stop all workers, then SELECT {}.rebase()", patient.schema),
        )
    }];
    if miscounted.is_empty() {
        findings.push(Finding::ok("counters", "they agree with the rows"));
    }
    for m in &miscounted {
        findings.push(Finding::warn(
            "counters",
            format!("queue {}: {} {} counted, {} found", m.name, m.state, m.counted, m.found),
            "somebody wrote to Bugle's tables past its functions; the counts are only for looking at",
        ));
    }
    Ok(findings)
}
