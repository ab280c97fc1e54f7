//! How many connections a node opens.
use crate::fixture::Fixture;
use crate::work::{Add, start};
use bugle::limits::{NODE_CONNECTIONS_MAX, WORKER_CONNECTIONS_MAX};
use bugle::{Bugle, Options};
use sqlx::postgres::PgPoolOptions;
use std::collections::HashSet;

const POOL: u32 = 2;

/// What `bugle doctor` reckons with.
#[tokio::test]
async fn a_node_opens_no_more_connections_than_the_doctor_counts() {
    let f = Fixture::new().await;
    let name = format!("{}_node", f.db.name());
    let options = f.db.connect_options().clone().application_name(&name);
    let pool = PgPoolOptions::new().max_connections(POOL).connect_with(options).await.unwrap();
    let schema = f.db.schema_name().unwrap();
    let bugle = Bugle::new(pool, Options { schema, ..Options::default() }).await.unwrap();
    let jobs: Vec<Add> = (0..10_000).map(|n| Add { n }).collect();
    f.bugle.enqueue_many(&jobs).send().await.unwrap();
    let last = bugle.enqueue(&Add { n: 0 }).send_handle().await.unwrap();
    let (stop, running) = start(bugle.worker("q").concurrency(500).handle(async |_: Add| ()));
    let waiting = tokio::spawn(async move { last.wait::<()>().await });
    let sessions = format!(
        "SELECT coalesce(array_agg(pid), '{{}}') FROM pg_stat_activity WHERE application_name = '{name}'"
    );
    let (mut most, mut all) = (0, HashSet::new());
    while !waiting.is_finished() {
        let now: Vec<i32> = f.one(&sessions).await;
        most = most.max(now.len());
        all.extend(now);
    }
    waiting.await.unwrap().unwrap();
    stop.cancel();
    running.await.unwrap().unwrap();
    let counted = NODE_CONNECTIONS_MAX + WORKER_CONNECTIONS_MAX + usize::try_from(POOL).unwrap();
    assert!(most <= counted, "{most} at once, {counted} counted");
    assert!(
        most > NODE_CONNECTIONS_MAX + 1,
        "the listener, both looks and one that settles: {most}, {} in all",
        all.len()
    );
    bugle.close().await;
}
