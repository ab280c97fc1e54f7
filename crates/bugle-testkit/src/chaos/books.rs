//! The tables, read as the checker wants them.

use crate::checker::{Counters, Row, Snapshot};
use bugle::Bugle;
use sqlx::{AssertSqlSafe, Row as _};

/// Reads rows and counters in one snapshot of the database.
pub async fn read(bugle: &Bugle) -> anyhow::Result<Snapshot> {
    let mut tx = bugle.pool().begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
    let place = |sql| AssertSqlSafe(bugle.schema().place_in(sql));
    let mut snapshot = Snapshot::default();
    for row in sqlx::query(place(include_str!("books.sql"))).fetch_all(&mut *tx).await? {
        let queue = snapshot.queues.entry(row.try_get("queue")?).or_default();
        let found = Row { id: row.try_get("id")?, attempt: row.try_get("attempt")?, x: row.try_get("x")? };
        match row.try_get::<&str, _>("state")? {
            "ready" => queue.ready.push(found),
            "leased" => queue.leased.push(found),
            "orphan" => queue.orphans.push(found),
            "scheduled" => queue.scheduled.push(found),
            "done" => queue.done.push(found.id),
            "dead" => queue.dead.push(found.id),
            "cancelled" => queue.cancelled.push(found.id),
            other => anyhow::bail!("job {} is in the unknown state {other}", found.id),
        }
    }
    for row in sqlx::query(place(include_str!("counters.sql"))).fetch_all(&mut *tx).await? {
        // Below nothing there is nothing right: such a counter equals no number of rows.
        let count = |name: &str| anyhow::Ok(u64::try_from(row.try_get::<i64, _>(name)?).unwrap_or(u64::MAX));
        let mut counters = Counters {
            enqueued: 0,
            ready: count("ready")?,
            scheduled: count("scheduled")?,
            leased: count("leased")?,
            done: count("done")?,
            dead: count("dead")?,
            cancelled: count("cancelled")?,
        };
        let c = &counters;
        let all = [c.ready, c.scheduled, c.leased, c.done, c.dead, c.cancelled];
        counters.enqueued = all.into_iter().fold(0, u64::saturating_add);
        snapshot.queues.entry(row.try_get("queue")?).or_default().counters = Some(counters);
    }
    // Ended here and not by dropping it, which would leave its locks to a runtime that may be busy.
    tx.rollback().await?;
    Ok(snapshot)
}
