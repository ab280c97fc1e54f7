//! The server's version and the settings that decide whether an accepted job survives a crash.

use super::Patient;
use super::finding::Finding;
use sqlx::Row as _;

const VERSION_MIN: i32 = 140_000;

pub(super) async fn check(patient: &Patient<'_>) -> Result<Vec<Finding>, sqlx::Error> {
    let row = sqlx::query(include_str!("sql/server.sql")).fetch_one(&patient.pool).await?;
    let version: String = row.try_get("version")?;
    let mut findings = vec![if row.try_get::<i32, _>("version_num")? < VERSION_MIN {
        Finding::fail("server", format!("it is PostgreSQL {version}"), "upgrade it to 14 or newer")
    } else {
        Finding::ok("server", format!("PostgreSQL {version}"))
    }];
    if row.try_get("is_replica")? {
        findings.push(Finding::fail(
            "server",
            "it is a replica and cannot be written to",
            "name the primary in --database-url",
        ));
    }
    let mut off = Vec::new();
    for setting in ["fsync", "full_page_writes", "synchronous_commit"] {
        if row.try_get::<String, _>(setting)? == "off" {
            off.push(setting);
        }
    }
    if off.is_empty() {
        let kept = "fsync, full_page_writes and synchronous_commit are on: accepted jobs survive a crash";
        findings.push(Finding::ok("durability", kept));
    }
    for setting in off {
        findings.push(Finding::fail(
            "durability",
            format!("{setting} is off: the server may lose jobs that it has accepted"),
            format!("ALTER SYSTEM SET {setting} = on; SELECT pg_reload_conf(); (it may also be set for the role or the database)"),
        ));
    }
    Ok(findings)
}
