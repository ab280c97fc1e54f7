//! Is there room for a node: its pool, its listener, its looks, and what its workers settle on?

use super::Patient;
use super::finding::Finding;
use bugle::limits::{NODE_CONNECTIONS_MAX, WORKER_CONNECTIONS_MAX};

pub(super) async fn check(patient: &Patient<'_>) -> Result<Vec<Finding>, sqlx::Error> {
    let (most, kept_back, used): (i64, i64, i64) =
        sqlx::query_as(include_str!("sql/connections.sql")).fetch_one(&patient.pool).await?;
    let (pool, workers) = (i64::from(patient.args.pool), i64::from(patient.args.workers));
    let (own, each) = (count(NODE_CONNECTIONS_MAX), count(WORKER_CONNECTIONS_MAX));
    let need = pool + own + workers * each;
    let open = most - kept_back;
    let free = open - used;
    let budget = format!(
        "a node needs up to {need} (pool {pool} + {own} to listen and to look + {each} for each of {workers} workers); of {most} connections {kept_back} are reserved, {used} in use, {free} free"
    );
    let fix = "raise max_connections, make the pools smaller, or put a pooler before the server";
    Ok(vec![if open < need {
        Finding::fail("connections", budget, fix)
    } else if free < need {
        Finding::warn("connections", budget, fix)
    } else {
        Finding::ok("connections", budget)
    }])
}

fn count(connections: usize) -> i64 {
    i64::try_from(connections).unwrap_or(i64::MAX)
}
