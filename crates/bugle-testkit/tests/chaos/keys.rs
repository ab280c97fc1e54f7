//! Row 24: fifty enqueues at once with one key, on two nodes.
use crate::place::shared_run;
use bugle_testkit::chaos::{Run, broken};
use bugle_testkit::checker::{Report, Rule};
use bugle_testkit::postgres::TestDb;

async fn fifty_at_once(db: &TestDb, run: Run) -> Report {
    let second_node = db.bugle().await.unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for round in 0..5 {
        for i in 0..50_u64 {
            let bugle = if i % 2 == 0 { run.bugle.clone() } else { second_node.clone() };
            let client = run.client(bugle, &format!("caller-{round}-{i}")).await.unwrap();
            calls.spawn(async move {
                client.enqueue_with_key(round * 100 + i + 1, &format!("key-{round}"), 5).await.unwrap()
            });
        }
    }
    let answers = calls.join_all().await;
    assert!(answers.iter().all(Option::is_some), "every call was answered");
    run.finish(vec![], vec![]).await.unwrap()
}

#[tokio::test]
async fn row_24_fifty_enqueues_with_one_key_make_one_job() {
    let (db, run) = shared_run().await;
    let bugle = run.bugle.clone();
    let report = fifty_at_once(&db, run).await;
    report.demand(0, 0).unwrap();
    assert_eq!(bugle.list_queues().await.unwrap()[0].done, 5, "one job for each of the five keys");
}

#[tokio::test]
async fn row_24_is_red_when_keys_are_ignored() {
    let (db, mut run) = shared_run().await;
    broken::KEYS_IGNORED.apply(&run.bugle).await.unwrap();
    run.expect_red(std::time::Duration::from_secs(5));
    let report = fifty_at_once(&db, run).await;
    assert!(report.broken_rules().contains(&Rule::I3), "{report}");
}
