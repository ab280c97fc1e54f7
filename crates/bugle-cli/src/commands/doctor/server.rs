//! The server's version and the settings that decide whether an accepted job survives a crash.

use super::Patient;
use super::finding::Finding;
use bugle::pg::connect::Settings;

pub(super) async fn check(patient: &Patient<'_>) -> Result<Vec<Finding>, bugle::Error> {
    let settings = Settings::read(&patient.pool).await?;
    let version = &settings.server_version;
    let mut findings = vec![if settings.is_too_old() {
        Finding::fail("server", format!("it is PostgreSQL {version}"), "upgrade it to 14 or newer")
    } else {
        Finding::ok("server", format!("PostgreSQL {version}"))
    }];
    if settings.is_replica {
        findings.push(Finding::fail(
            "server",
            "it is a replica and cannot be written to",
            "name the primary in --database-url",
        ));
    }
    if settings.off.is_empty() {
        let kept = "fsync, full_page_writes and synchronous_commit are on: accepted jobs survive a crash";
        findings.push(Finding::ok("durability", kept));
    }
    for setting in &settings.off {
        findings.push(Finding::fail(
            "durability",
            format!("{setting} is off: the server may lose jobs that it has accepted"),
            format!("ALTER SYSTEM SET {setting} = on; SELECT pg_reload_conf(); (it may also be set for the role or the database)"),
        ));
    }
    Ok(findings)
}
