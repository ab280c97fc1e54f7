//! The periodic pass: partitions, and small tables kept small.
use crate::fixture::{Fixture, receipts};
use bugle::jobs::sweep::Swept;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::Connection as _;

async fn partitions(f: &Fixture, table: &str) -> Vec<String> {
    let sql = format!(
        "SELECT coalesce(array_agg(right(c.relname, 8) ORDER BY c.relname), '{{}}') FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'bugle.{table}'::regclass AND c.relname ~ '_[0-9]{{8}}$'"
    );
    f.one(&sql).await
}

fn day(at: DateTime<Utc>) -> String {
    at.format("%Y%m%d").to_string()
}

#[tokio::test]
async fn partitions_are_made_ahead_and_dropped_when_forty_days_pass() {
    let f = Fixture::new().await;
    let mut now: DateTime<Utc> = f.one("SELECT now()").await;
    f.enqueue(1).await;
    let look = f.claim(1).await;
    f.queue.ack(&receipts(&look.jobs), &[look.token]).await.unwrap();
    for _ in 0..=40 {
        f.bugle.sweep(Some(now)).await.unwrap();
        for table in ["history", "failure"] {
            let days = partitions(&f, table).await;
            assert!(days.contains(&day(now)), "today's is there");
            assert_eq!(days.last().unwrap(), &day(now + TimeDelta::days(7)), "and a week ahead");
            assert!(days[0] >= day(now - TimeDelta::days(7)), "nothing older than a week: {days:?}");
        }
        now += TimeDelta::days(1);
    }
    assert_eq!(f.one::<i64>("SELECT count(*) FROM bugle.history").await, 0, "the old job went with its day");
    // Everything was off for forty days: the first pass makes what is needed.
    let after_a_sleep = now + TimeDelta::days(40);
    let swept = f.bugle.sweep(Some(after_a_sleep)).await.unwrap();
    assert!(swept.made > 0 && swept.dropped > 0);
    assert_eq!(partitions(&f, "history").await.len(), 9);
    assert_eq!(
        f.bugle.sweep(Some(after_a_sleep)).await.unwrap(),
        Swept::default(),
        "and then there is nothing to do"
    );
}

#[tokio::test]
async fn jobs_that_end_on_a_day_without_a_partition_are_kept_and_moved() {
    let f = Fixture::new().await;
    f.execute("SELECT bugle.drop_partitions(now() + interval '40 days')").await;
    assert!(partitions(&f, "history").await.is_empty());
    f.enqueue(2).await;
    let look = f.claim(2).await;
    f.queue.ack(&receipts(&look.jobs), &[look.token]).await.unwrap();
    assert_eq!(f.one::<i64>("SELECT count(*) FROM bugle.history_default").await, 2);
    f.bugle.sweep(None).await.unwrap();
    assert_eq!(f.one::<i64>("SELECT count(*) FROM bugle.history_default").await, 0);
    assert_eq!(f.counts().await, "done 2");
}

#[tokio::test]
async fn a_dump_that_holds_an_old_partition_delays_only_its_drop() {
    let f = Fixture::new().await;
    let old = partitions(&f, "history").await[0].clone();
    let mut dump = f.session().await;
    let hold = f.db.sql(&format!("BEGIN; SELECT count(*) FROM bugle.history_{old}")).unwrap();
    sqlx::raw_sql(hold).execute(&mut dump).await.unwrap();
    let later: DateTime<Utc> = f.one("SELECT now() + interval '40 days'").await;
    f.bugle.sweep(Some(later)).await.unwrap();
    assert!(partitions(&f, "history").await.contains(&old), "left for the next pass");
    sqlx::raw_sql("COMMIT").execute(&mut dump).await.unwrap();
    f.bugle.sweep(Some(later)).await.unwrap();
    assert!(!partitions(&f, "history").await.contains(&old));
}

#[tokio::test]
async fn small_tables_stay_small() {
    let f = Fixture::new().await;
    for _ in 0..1100 {
        f.execute("SELECT bugle.enqueue('q', 'k', '1')").await;
    }
    for _ in 0..150 {
        let look = f.claim(1).await;
        f.queue.ack(&receipts(&look.jobs), &[look.token]).await.unwrap();
    }
    f.execute("SELECT bugle.enqueue('q', 'k', '1', key => 'old', key_window => '1 microsecond')").await;
    let before = f.counts().await;
    f.bugle.sweep(None).await.unwrap();
    assert!(f.one::<i64>("SELECT count(*) FROM bugle.tally").await < 10);
    assert!(f.one::<i64>("SELECT count(*) FROM bugle.cursor").await <= 1 + 101);
    assert_eq!(f.one::<i64>("SELECT count(*) FROM bugle.job_key").await, 0);
    assert_eq!(f.counts().await, before, "nothing was forgotten");
    assert_eq!(f.claim(1).await.jobs.len(), 1);
}

#[tokio::test]
async fn only_one_node_sweeps_at_a_time() {
    let f = Fixture::new().await;
    let mut other = f.session().await;
    let lock = f.db.sql("BEGIN; SELECT pg_advisory_xact_lock(bugle.sweep_class(), 1)").unwrap();
    sqlx::raw_sql(lock).execute(&mut other).await.unwrap();
    let later: DateTime<Utc> = f.one("SELECT now() + interval '40 days'").await;
    assert_eq!(f.bugle.sweep(Some(later)).await.unwrap(), Swept::default(), "somebody else is at it");
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    assert_ne!(f.bugle.sweep(Some(later)).await.unwrap(), Swept::default());
}

#[tokio::test]
async fn a_key_that_is_just_taken_anew_is_not_trimmed() {
    let f = Fixture::new().await;
    let enqueue =
        |window: &str| format!("SELECT bugle.enqueue('q', 'k', '1', key => 'a', key_window => '{window}')");
    f.execute(&enqueue("1 microsecond")).await;
    let mut session = f.session().await;
    let mut tx = session.begin().await.unwrap();
    let anew: i64 =
        sqlx::query_scalar(f.db.sql(&enqueue("1 hour")).unwrap()).fetch_one(&mut *tx).await.unwrap();
    let swept = tokio::time::timeout(std::time::Duration::from_secs(10), f.bugle.sweep(None)).await;
    swept.expect("the sweep does not wait for an open transaction").unwrap();
    tx.commit().await.unwrap();
    f.bugle.sweep(None).await.unwrap();
    assert_eq!(f.one::<i64>(&enqueue("1 hour")).await, anew, "same key, same job");
}

#[tokio::test]
async fn what_is_old_leaves_the_default_partition_as_well() {
    let f = Fixture::new().await;
    f.enqueue(1).await;
    let look = f.claim(1).await;
    f.queue.ack(&receipts(&look.jobs), &[look.token]).await.unwrap();
    f.execute("UPDATE bugle.history SET finished_at = now() - interval '20 days'").await;
    assert_eq!(f.one::<i64>("SELECT count(*) FROM bugle.history_default").await, 1);
    f.bugle.sweep(None).await.unwrap();
    assert_eq!(f.one::<i64>("SELECT count(*) FROM bugle.history").await, 0);
}
