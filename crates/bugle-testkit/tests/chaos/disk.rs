//! Row 9: a disk that fails at the flush of a commit.
use crate::place::{Nodes, again_and_again, demand, own_run};
use bugle::Bugle;
use bugle_testkit::chaos::seconds;
use bugle_testkit::history::FaultKind;
use sqlx::postgres::PgPoolOptions;
use std::time::{Duration, Instant};

/// A flush of others may carry a commit along: so many may pass before one flushes itself.
const COMMITS_MAX: usize = 500;
/// In the mark of a second try.
const SECOND: u64 = 1 << 59;
/// How long the server may take to recover.
const BACK_WITHIN: Duration = Duration::from_secs(30);

#[tokio::test]
async fn row_9_a_commit_that_the_disk_refuses_to_flush_is_unknown_and_its_key_makes_one_job() {
    let (server, mut run) = own_run(&[]).await;
    let nodes = Nodes::start(&mut run, &server.url().unwrap(), 2, 3);
    // One connection, so that its backend is known.
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(server.connect_options().unwrap());
    let victim = Bugle::new(pool.clone(), bugle::Options::default()).await.unwrap();
    let client = run.client(victim, "victim").await.unwrap();
    let nemesis = run.nemesis();
    let mut marks = (1_u64 << 60)..; // beyond those of all producers
    let mut doubts = 0;
    again_and_again(seconds(5), Duration::from_millis(300), async || {
        let pid = sqlx::query_scalar::<_, i32>("SELECT pg_backend_pid()").fetch_one(&pool).await.unwrap();
        let window = nemesis.fault(FaultKind::FlushFailed, None).unwrap();
        let flush = server.fail_next_flush(pid).await.unwrap();
        for mark in marks.by_ref().take(COMMITS_MAX) {
            let key = format!("doubt-{mark}");
            if client.enqueue_with_key(mark, &key, 5).await.unwrap().is_some() {
                continue;
            }
            assert!(flush.has_hit().await, "the enqueue failed for another reason");
            doubts += 1;
            let begun = Instant::now();
            // Another mark: if the first is handed out although it was refused, the checker says so.
            while client.enqueue_with_key(mark | SECOND, &key, 5).await.unwrap().is_none() {
                assert!(begun.elapsed() < BACK_WITHIN, "the server does not come back");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            break;
        }
        window.end().unwrap();
    })
    .await;
    assert!(doubts > 0, "no commit met the failing disk");
    let report = run.finish(nodes.producers, nodes.workers).await.unwrap();
    demand(&report, &FaultKind::FlushFailed, doubts, doubts);
    server.stop().await.unwrap();
}
