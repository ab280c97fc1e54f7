//! May this role do what a node does?

use super::Patient;
use super::finding::Finding;

/// More are not listed one by one.
const LISTED_MAX: usize = 6;

pub(super) async fn check(patient: &Patient<'_>) -> Result<Vec<Finding>, sqlx::Error> {
    let schema = patient.schema;
    let lacking: Vec<String> = sqlx::query_scalar(include_str!("sql/rights.sql"))
        .bind(schema.as_str())
        .fetch_all(&patient.pool)
        .await?;
    let owner: bool = sqlx::query_scalar(patient.sql(include_str!("sql/owns_partitions.sql")))
        .fetch_one(&patient.pool)
        .await?;
    let mut findings = Vec::new();
    if !lacking.is_empty() {
        let more = lacking.len().saturating_sub(LISTED_MAX);
        let listed: Vec<_> = lacking.into_iter().take(LISTED_MAX).collect();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        findings.push(Finding::fail(
            "rights",
            format!("this role lacks {}{more}", listed.join(", ")),
            format!(
                "GRANT USAGE ON SCHEMA {schema}, GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES, USAGE ON ALL SEQUENCES, EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO the role"
            ),
        ));
    }
    if !owner {
        findings.push(Finding::warn(
            "rights",
            "this role may not make and drop the partitions of the days",
            format!("let one node run as the owner of {schema}, or call {schema}.make_partitions() and {schema}.drop_partitions() daily"),
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::ok("rights", "this role may do all that a node does"));
    }
    Ok(findings)
}
