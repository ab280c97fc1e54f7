//! Are all indexes there, and usable?

use super::Patient;
use super::finding::Finding;
use bugle::pg::migrate::CORE;

pub(super) async fn check(patient: &Patient<'_>) -> Result<Vec<Finding>, sqlx::Error> {
    let schema = patient.schema;
    let found: Vec<(String, String, bool)> = sqlx::query_as(include_str!("sql/indexes.sql"))
        .bind(schema.as_str())
        .fetch_all(&patient.pool)
        .await?;
    let mut findings: Vec<Finding> = found
        .iter()
        .filter(|(_, _, usable)| !usable)
        .map(|(name, table, _)| {
            Finding::fail(
                "indexes",
                format!("index {name} on {table} is invalid: no query uses it, every write pays for it"),
                format!("REINDEX INDEX CONCURRENTLY {schema}.{name}"),
            )
        })
        .collect();
    for (name, statement) in expected() {
        if !found.iter().any(|(existing, _, _)| existing == name) {
            let fix = schema.place_in(statement).replacen("CREATE INDEX", "CREATE INDEX CONCURRENTLY", 1);
            findings.push(Finding::fail("indexes", format!("index {name} is missing"), fix));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok("indexes", format!("all {} are there and valid", found.len())));
    }
    Ok(findings)
}

/// The indexes that the migrations make, each with its statement.
fn expected() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = CORE.files.iter().flat_map(|file| file.sql.lines());
    lines.filter_map(|line| {
        let name = line.strip_prefix("CREATE INDEX ")?.split_whitespace().next()?;
        Some((name, line))
    })
}

#[cfg(test)]
mod tests {
    use super::expected;

    #[test]
    fn the_migrations_name_their_indexes() {
        let names: Vec<_> = expected().map(|(name, _)| name).collect();
        assert!(names.contains(&"due_id") && names.contains(&"lease_until"), "{names:?}");
        assert!(expected().all(|(_, statement)| statement.ends_with(';')), "one line each");
    }
}
