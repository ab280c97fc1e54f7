//! Is the schema there, up to date, and of this very cluster?

use super::Patient;
use super::finding::Finding;
use bugle::jobs::inspect::same_cluster;
use bugle::pg::migrate::{CORE, Error};

/// Also says whether the schema can be looked into.
pub(super) async fn check(patient: &Patient<'_>) -> (bool, Vec<Finding>) {
    let schema = patient.schema;
    let found = match CORE.verify(&patient.pool, schema).await {
        Ok(()) => Finding::ok("schema", format!("{schema} has all {} migrations", CORE.files.len())),
        Err(error) => {
            let fix = match &error {
                Error::Behind { .. } => format!("bugle migrate up --schema {schema}"),
                Error::Changed { .. } => {
                    "run the version of Bugle that applied it, or restore the schema".to_owned()
                }
                Error::Foreign { .. } => "use a newer Bugle".to_owned(),
                _ => "check the connection and the role's rights on the schema".to_owned(),
            };
            let is_there = matches!(&error, Error::Behind { missing, .. } if *missing < CORE.files.len());
            return (is_there, vec![Finding::fail("schema", error.to_string(), fix)]);
        }
    };
    let newer = CORE.status(&patient.pool, schema).await.is_ok_and(|files| files.len() > CORE.files.len());
    let mut findings = vec![found];
    if newer {
        findings.push(Finding::warn(
            "schema",
            format!("{schema} is newer than this version of Bugle"),
            "finish the upgrade: run the newer version here too",
        ));
    }
    (true, findings)
}

pub(super) async fn check_cluster(patient: &Patient<'_>) -> Result<Vec<Finding>, bugle::Error> {
    Ok(vec![if same_cluster(&patient.pool, patient.schema).await? {
        Finding::ok("cluster", "the jobs were written in this very database cluster")
    } else {
        Finding::fail(
            "cluster",
            "the schema was restored from another database cluster: claims would pass over jobs",
            format!("stop all workers, then SELECT {}.rebase()", patient.schema),
        )
    }])
}
