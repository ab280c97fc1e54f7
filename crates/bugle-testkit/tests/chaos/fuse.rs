//! Single enqueues that are written together, by a process that is killed.
use crate::place::{LEASE, again_and_again, demand, replace, shared_run};
use bugle_testkit::chaos::{Role, seconds};
use bugle_testkit::history::FaultKind;
use std::time::Duration;

/// Kills, several a second: more prove nothing new, and every job takes its place in the history.
const ENOUGH: Duration = Duration::from_secs(20);

#[tokio::test]
async fn enqueues_that_are_written_together_survive_their_killed_process_once_they_are_answered() {
    let (db, mut run) = shared_run().await;
    let mut nodes: Vec<_> = (0..2).map(|_| run.node(Role::Chorus, db.url()).unwrap()).collect();
    let nemesis = run.nemesis();
    again_and_again(seconds(3).min(ENOUGH), Duration::from_millis(150), async || {
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..100))).await;
        replace(&mut run, &nemesis, &mut nodes, Role::Chorus, db.url());
    })
    .await;
    for node in nodes {
        node.stop().await.unwrap();
    }
    let fused = "SELECT count(*) - count(DISTINCT x) FROM bugle.job";
    let fused: i64 = sqlx::query_scalar(db.sql(fused).unwrap()).fetch_one(db.pool()).await.unwrap();
    assert!(fused > 100, "only {fused} jobs shared a transaction with another");
    // They are many: drained here, where nobody counts the time.
    let drainer = run.client(run.bugle.clone(), "fast-drainer").await.unwrap();
    while let Some(look) = drainer.claim(500, LEASE * 10, LEASE, Duration::ZERO).await.unwrap()
        && !look.jobs.is_empty()
    {
        let receipts: Vec<_> = look.jobs.iter().map(|job| job.receipt).collect();
        drainer.ack(&receipts, &[look.token]).await.unwrap();
    }
    let report = run.finish(Vec::new(), Vec::new()).await.unwrap();
    demand(&report, &FaultKind::Killed, 5, 5);
}
