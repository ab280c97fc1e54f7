//! Is there room for a node: its pool and its listener?

use super::Patient;
use super::finding::Finding;

const LISTENERS: i32 = 1;

pub(super) async fn check(patient: &Patient<'_>) -> Result<Vec<Finding>, sqlx::Error> {
    let (most, kept_back, used): (i32, i32, i32) =
        sqlx::query_as(include_str!("sql/connections.sql")).fetch_one(&patient.pool).await?;
    let pool = i32::from(patient.args.pool);
    let need = pool + LISTENERS;
    let open = most - kept_back;
    let free = open - used;
    let budget = format!(
        "a node needs {need} (pool {pool} + {LISTENERS} listener); of {most} connections {kept_back} are reserved, {used} in use, {free} free"
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
