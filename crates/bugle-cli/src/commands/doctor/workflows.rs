//! Reading every run of a workflow.

use super::Patient;
use super::finding::Finding;

/// So many faults are told one by one: the rest are most likely of the same kind.
const TOLD_MAX: usize = 5;

#[derive(sqlx::FromRow)]
struct Miscounted {
    run: i64,
    step: Option<String>,
    fault: String,
}

pub(super) async fn check(patient: &Patient<'_>) -> Result<Vec<Finding>, sqlx::Error> {
    let faults: Vec<Miscounted> =
        sqlx::query_as(patient.sql(include_str!("sql/flow_faults.sql"))).fetch_all(&patient.pool).await?;
    if faults.is_empty() {
        return Ok(vec![Finding::ok("workflows", "every run is where its steps say that it is")]);
    }
    let mut findings: Vec<Finding> = faults.iter().take(TOLD_MAX).map(Miscounted::finding).collect();
    if faults.len() > TOLD_MAX {
        let rest = faults.len() - TOLD_MAX;
        let fix = format!("SELECT * FROM {}.audit_flow()", patient.schema);
        findings.push(Finding::fail("workflows", format!("{rest} more faults of runs"), fix));
    }
    Ok(findings)
}

impl Miscounted {
    fn finding(&self) -> Finding {
        let of = self.step.as_ref().map_or_else(String::new, |step| format!(", step {step}"));
        Finding::fail(
            "workflows",
            format!("run {}{of}: {}", self.run, self.fault),
            format!(
                "somebody wrote to Bugle's tables past its functions, or it is a mistake in Bugle, please report it; `bugle flow show {}`, then restart it from a step, or cancel it",
                self.run
            ),
        )
    }
}
