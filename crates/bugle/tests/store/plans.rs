//! No statement of a job's path reads a table from end to end. The tables are empty or tiny when a session makes its plans, a sequential scan
//! is the cheapest then, and it would be kept while they grow.

use crate::fixture::{Fixture, LEASE, raw, receipts};
use bugle::Outcome;
use sqlx::{Connection as _, PgConnection};
use std::collections::BTreeMap;
use std::time::Duration;

const HOT: &str = "SELECT relname::text, seq_scan, coalesce(idx_scan, 0) FROM pg_stat_user_tables
    WHERE schemaname = current_schema() AND relname IN ('job', 'due', 'lease', 'cursor', 'job_key', 'dead')";

/// How often each table was read from end to end, and by an index. PostgreSQL counts what a session did when the session has ended.
async fn scans(f: &Fixture) -> BTreeMap<String, (i64, i64)> {
    let sql = HOT.replace("current_schema()", &format!("'{}'", f.db.schema_name().unwrap().as_str()));
    let rows: Vec<(String, i64, i64)> =
        sqlx::query_as(sqlx::AssertSqlSafe(sql)).fetch_all(f.db.pool()).await.unwrap();
    rows.into_iter().map(|(name, whole, index)| (name, (whole, index))).collect()
}

async fn expire(f: &Fixture, session: &mut PgConnection, token: i64) {
    let sql = f.db.sql("UPDATE bugle.lease SET until = clock_timestamp() WHERE token = $1").unwrap();
    sqlx::query(sql).bind(token).execute(session).await.unwrap();
}

/// Every way a job can go, more often than a session tries other plans.
async fn all_ways(f: &Fixture) {
    let pool = sqlx::PgPool::connect_with(f.db.connect_options().clone()).await.unwrap();
    let schema = f.db.schema_name().unwrap();
    let bugle = bugle::Bugle::new(pool, bugle::Options { schema, ..Default::default() }).await.unwrap();
    let queue = bugle.queue("q").await.unwrap();
    let mut clock = f.session().await;
    sqlx::query("SET enable_seqscan = off").execute(&mut clock).await.unwrap(); // it is not what is tested
    for n in 0..12 {
        let job = || bugle.enqueue_raw("q", "k", raw("1"));
        job().send().await.unwrap();
        job().key(&format!("key {n}")).send().await.unwrap();
        job().delay(Duration::from_millis(1)).send().await.unwrap();
        bugle.enqueue_many_raw("q", "k", vec![raw("1"), raw("2"), raw("3")]).send().await.unwrap();
        // By the function, and by the engine's own statement.
        let look = queue.claim("w", 2, LEASE).await.unwrap();
        queue.renew("w", &[look.token]).await.unwrap();
        queue.ack(&receipts(&look.jobs), &[look.token]).await.unwrap();
        let look = queue.claim_within("w", 2, LEASE, LEASE).await.unwrap().unwrap();
        queue.release(&receipts(&look.jobs), &[look.token]).await.unwrap();
        let look = queue.claim_within("w", 1, LEASE, LEASE).await.unwrap().unwrap();
        expire(f, &mut clock, look.token).await;
        let look = queue.claim("w", 1, LEASE).await.unwrap();
        let fail = look.jobs.iter().map(|job| bugle::jobs::Failure {
            receipt: job.receipt,
            retry_in: (n % 2 == 0).then_some(Duration::from_millis(1)),
            code: "c".to_owned(),
            message: "m".to_owned(),
        });
        queue.fail(&fail.collect::<Vec<_>>(), &[look.token]).await.unwrap();
        let look = queue.claim_within("w", 2, LEASE, LEASE).await.unwrap().unwrap();
        queue.held(&receipts(&look.jobs)).await.unwrap();
        let late = look.jobs.iter().map(|job| (job.receipt, Duration::from_millis(1)));
        queue.snooze(&late.collect::<Vec<_>>(), &[look.token]).await.unwrap();
        let missing = bugle.cancel_job(bugle::JobId(i64::MAX)).await;
        assert!(missing.is_ok_and(|was| was.is_none()));
    }
    let refused = bugle.enqueue_raw("q", "k", raw("1")).key("").send().await.unwrap_err();
    assert_eq!(refused.outcome(), Outcome::Refused);
    bugle.close().await;
}

#[tokio::test]
async fn no_statement_of_a_jobs_path_reads_a_whole_table() {
    let f = Fixture::new().await;
    f.enqueue(20).await;
    // So small that a planner who may would always read them whole.
    f.execute("ANALYZE bugle.job, bugle.due, bugle.lease, bugle.cursor, bugle.job_key, bugle.dead").await;
    let before = scans(&f).await;
    all_ways(&f).await;
    let begun = std::time::Instant::now();
    let after = loop {
        let after = scans(&f).await;
        if ["job", "due", "lease", "cursor"].iter().all(|name| after[*name].1 > before[*name].1 + 10) {
            break after;
        }
        assert!(begun.elapsed() < LEASE, "not counted: {after:?}, before {before:?}");
        tokio::task::yield_now().await;
    };
    for (name, (whole, _)) in &after {
        assert_eq!(*whole, before[name].0, "{name} was read from end to end: {after:?}, before {before:?}");
    }
}

const PINNED: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
    SET plan_cache_mode = force_generic_plan";

/// How many rows of jobs a statement reads that answers with so many rows. It is not committed.
async fn rows_read(f: &Fixture, statement: &str, answer: usize) -> i64 {
    let mut session = f.session().await;
    sqlx::raw_sql(PINNED).execute(&mut session).await.unwrap();
    let mut tx = session.begin().await.unwrap();
    let rows = sqlx::query(f.db.sql(statement).unwrap()).fetch_all(&mut *tx).await.unwrap();
    assert_eq!(rows.len(), answer, "{statement:.80}");
    let read = "SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relid = 'bugle.job'::regclass";
    let read = sqlx::query_scalar(f.db.sql(read).unwrap()).fetch_one(&mut *tx).await.unwrap();
    tx.rollback().await.unwrap(); // it holds the queue's lock
    read
}

#[tokio::test]
async fn a_look_that_waits_for_an_open_transaction_does_not_read_the_whole_queue() {
    let f = Fixture::new().await;
    let mut late = f.db.pool().begin().await.unwrap();
    f.bugle.enqueue_raw("q", "k", raw("1")).on(&mut *late).await.unwrap();
    f.enqueue(3_000).await;
    f.claim(1).await; // from now on the cursor waits for that transaction
    // And for those of other tests that were open just then.
    assert!(f.one::<i32>("SELECT cardinality(pend) FROM bugle.newest_cursor").await >= 1);
    let mut quick = include_str!("../../src/jobs/sql/quick_look.sql").to_owned();
    let given =
        ["7::bigint", "1", "'w'", "interval '30 s'", "'-infinity'::timestamptz", "'-infinity'::timestamptz"];
    for (n, value) in given.iter().enumerate() {
        quick = quick.replace(&format!("${}", n + 1), value);
    }
    let full = "SELECT * FROM bugle.look('{7}', '{1}', '{w}', '{10}', '{30 s}', '{f}', '{-infinity}', '{-infinity}')";
    let read = rows_read(&f, &quick, 0).await; // it leaves that to the other
    assert!(read < 100, "{read} rows");
    let read = rows_read(&f, full, 11).await; // ten jobs, and how it went
    assert!((10..100).contains(&read), "{read} rows");
}

#[tokio::test]
async fn what_ends_a_claim_does_not_read_the_rest_of_a_large_transaction() {
    let f = Fixture::new().await;
    let payloads = (0..50_000).map(|_| raw("1"));
    f.bugle.enqueue_bulk_raw("q", "k", payloads).send().await.unwrap();
    let look = f.claim(10).await;
    f.bugle.cancel_job(look.jobs[5].id).await.unwrap(); // so that it has fewer jobs than were claimed
    let (queue, token) = (f.one::<i32>("SELECT id FROM bugle.queue").await, look.token);
    f.expire(token).await;
    for statement in [
        format!("SELECT bugle.ack_claims({queue}, '{{{token}}}', '{{9}}')"),
        format!("SELECT bugle.bodies({token})"),
        format!("SELECT bugle.sweep({queue})"),
    ] {
        let touched = f.db.pages_touched(&statement).await.unwrap();
        assert!((9..200).contains(&touched), "{touched} pages: {statement}");
    }
}

/// While somebody holds a snapshot every lease that ever was is still there, and the planner takes the table for an empty one.
#[tokio::test]
async fn what_ends_a_job_does_not_read_the_leases_of_others() {
    let f = Fixture::new().await;
    f.enqueue(20).await;
    let mut holder = f.session().await;
    sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").execute(&mut holder).await.unwrap();
    let (whole, single) = (f.claim(9).await, f.claim(1).await);
    let queue = f.one::<i32>("SELECT id FROM bugle.queue").await;
    f.execute(
        "INSERT INTO bugle.lease SELECT t, l.queue, l.lane, l.lo_x, l.lo_id, l.hi_x, l.hi_id, l.skip, l.n, l.worker, l.claimed_at, l.dur, l.until
         FROM (SELECT * FROM bugle.lease LIMIT 1) l, generate_series(1, 20000) AS t",
    )
    .await;
    f.execute("DELETE FROM bugle.lease WHERE token BETWEEN 1 AND 20000").await;
    f.execute("VACUUM ANALYZE bugle.lease").await;
    let job = &single.jobs[0];
    let receipt = "(SELECT ARRAY[lane] FROM k), (SELECT ARRAY[x] FROM k), (SELECT ARRAY[id] FROM k)";
    let of_job = format!("WITH k AS (SELECT lane, x, id FROM bugle.job WHERE id = {})", job.id.0);
    let token = single.token;
    for statement in [
        format!("SELECT bugle.ack_claims({queue}, '{{{}}}', '{{9}}')", whole.token),
        format!("{of_job} SELECT bugle.ack({queue}, {receipt}, '{{{token}}}', '{{}}')"),
        format!("{of_job} SELECT bugle.take_held({queue}, {receipt}, '{{{token}}}')"),
        format!("{of_job} SELECT bugle.held({queue}, {receipt}, '{{{token}}}')"),
    ] {
        let touched = f.db.pages_touched(&statement).await.unwrap();
        assert!((3..200).contains(&touched), "{touched} pages: {statement}");
    }
}
