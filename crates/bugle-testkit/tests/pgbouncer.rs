//! A real pgbouncer: that it is in transaction mode, and that Bugle works through it.

#![allow(clippy::unwrap_used, clippy::expect_used)] // clippy sees no test in a helper

use bugle::pg::migrate::Policy;
use bugle::wake_engine::{Times, Why};
use bugle::{Bugle, Ctx};
use bugle_testkit::pgbouncer::PgBouncer;
use bugle_testkit::postgres::{TestDb, URL_VARIABLE};
use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::{Connection as _, PgConnection, PgPool};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

async fn place(server_connections: u32) -> (TestDb, PgBouncer) {
    let db = TestDb::schema().await.unwrap();
    let pooler = PgBouncer::start(db.url(), server_connections).await.unwrap();
    (db, pooler)
}

async fn pool(pooler: &PgBouncer) -> PgPool {
    PgPoolOptions::new().max_connections(8).connect(pooler.url()).await.unwrap()
}

/// A Bugle through the pooler, migrated on a session of its own, as docs/operations.md tells users to.
async fn through(db: &TestDb, pooler: &PgBouncer) -> Bugle {
    db.bugle().await.unwrap();
    let schema = db.schema_name().unwrap();
    let options = bugle::Options { schema, migrate: Policy::Verify, ..bugle::Options::default() };
    Bugle::new(pool(pooler).await, options).await.unwrap()
}

async fn backend(on: &mut PgConnection) -> i32 {
    sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(on).await.unwrap()
}

#[tokio::test]
async fn statements_and_transactions_pass() {
    let (db, pooler) = place(2).await;
    let mut client = PgConnection::connect(pooler.url()).await.unwrap();
    for n in 0..3_i32 {
        let answer: i32 = sqlx::query_scalar("SELECT $1::int").bind(n).fetch_one(&mut client).await.unwrap();
        assert_eq!(answer, n);
    }
    let mut tx = client.begin().await.unwrap();
    let first = backend(&mut tx).await;
    sqlx::query(db.sql("CREATE TABLE bugle.kept (n int)").unwrap()).execute(&mut *tx).await.unwrap();
    assert_eq!(backend(&mut tx).await, first, "one transaction, one backend");
    tx.rollback().await.unwrap();
    let kept: Option<String> = sqlx::query_scalar("SELECT to_regclass($1)::text")
        .bind(format!("{}.kept", db.name()))
        .fetch_one(db.pool())
        .await
        .unwrap();
    assert_eq!(kept, None);
}

#[tokio::test]
async fn clients_share_a_backend_between_transactions() {
    let (_db, pooler) = place(1).await;
    let mut one = PgConnection::connect(pooler.url()).await.unwrap();
    let mut two = PgConnection::connect(pooler.url()).await.unwrap();
    assert_eq!(backend(&mut one).await, backend(&mut two).await);
    // What one sets for its session is left to whoever comes next.
    sqlx::raw_sql("SET lock_timeout = 4711").execute(&mut one).await.unwrap();
    let seen: String = sqlx::query_scalar("SHOW lock_timeout").fetch_one(&mut two).await.unwrap();
    assert_eq!(seen, "4711ms");
}

#[tokio::test]
async fn a_session_is_another_one_while_its_backend_is_taken() {
    let (_db, pooler) = place(2).await;
    let mut one = PgConnection::connect(pooler.url()).await.unwrap();
    let mut two = PgConnection::connect(pooler.url()).await.unwrap();
    let before = backend(&mut one).await;
    let mut tx = two.begin().await.unwrap();
    assert_eq!(backend(&mut tx).await, before, "the one that is free");
    assert_ne!(backend(&mut one).await, before, "it was given away");
    tx.rollback().await.unwrap();
}

#[tokio::test]
async fn a_notification_reaches_nobody_who_listens_through_it() {
    let (db, pooler) = place(1).await;
    let mut through = PgListener::connect(pooler.url()).await.unwrap();
    let mut direct = PgListener::connect(db.url()).await.unwrap();
    through.listen(db.name()).await.unwrap();
    direct.listen(db.name()).await.unwrap();
    sqlx::query("SELECT pg_notify($1, 'x')").bind(db.name()).execute(db.pool()).await.unwrap();
    direct.recv().await.unwrap();
    let heard = tokio::time::timeout(Duration::from_millis(300), through.recv()).await;
    assert!(heard.is_err(), "{heard:?}");
}

#[tokio::test]
async fn the_pool_that_bugle_makes_connects_through_it() {
    let (_db, pooler) = place(2).await;
    let options = bugle::pg::connect::Options::parse(pooler.url()).unwrap();
    let pool = bugle::pg::connect::pool(&options).await.unwrap();
    let one: i32 = sqlx::query_scalar("SELECT 1").fetch_one(&pool).await.unwrap();
    assert_eq!(one, 1);
}

#[tokio::test]
async fn a_worker_does_its_jobs_through_it() {
    let (db, pooler) = place(3).await;
    let bugle = through(&db, &pooler).await;
    let stop = CancellationToken::new();
    let worker = bugle.worker("q").lease(Duration::from_millis(300)).handle_any(async |_, _: Ctx| {
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..50))).await;
    });
    let working = tokio::spawn(worker.run(stop.clone()));
    let mut producers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let bugle = bugle.clone();
        producers.spawn(async move {
            for n in 0..20 {
                bugle
                    .enqueue_raw("q", "k", serde_json::value::to_raw_value(&n).unwrap())
                    .send()
                    .await
                    .unwrap();
            }
        });
    }
    producers.join_all().await;
    let done = async {
        while bugle.list_queues().await.unwrap()[0].done < 160 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), done).await.unwrap();
    assert!(!bugle.node().unwrap().status().listening, "LISTEN is worthless here, and it knows");
    stop.cancel();
    working.await.unwrap().unwrap();
}

/// A node tries to listen before it knows where it is. What it set for its session would be left to somebody whose commits must be durable.
#[tokio::test]
async fn a_node_that_cannot_listen_through_it_leaves_no_setting_behind() {
    let (db, pooler) = place(2).await;
    let bugle = through(&db, &pooler).await;
    let queue = bugle.queue("q").await.unwrap();
    let waiting = queue.claim_within("w", 1, Duration::from_mins(1), Duration::from_secs(30));
    let gives_up = async {
        while bugle.node().is_none_or(|node| node.counters().looks_by(Why::Connected) == 0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = gives_up => {}
        got = waiting => panic!("{got:?}"),
    }
    bugle.close().await;
    let clients = pool(&pooler).await;
    let (mut one, mut two) = (clients.begin().await.unwrap(), clients.begin().await.unwrap());
    assert_ne!(backend(&mut one).await, backend(&mut two).await, "both of its backends");
    for client in [&mut one, &mut two] {
        let changed: Vec<String> = sqlx::query_scalar(
            "SELECT name FROM pg_settings WHERE source = 'session' AND name IN ('synchronous_commit', 'tcp_user_timeout')",
        )
        .fetch_all(&mut **client)
        .await
        .unwrap();
        assert_eq!(changed, [""; 0]);
    }
}

#[tokio::test]
async fn a_listener_that_goes_past_it_is_woken_by_push() {
    let (db, pooler) = place(3).await;
    db.bugle().await.unwrap();
    let no_fallback = Times { heartbeat: Duration::from_hours(1), ..Times::default() };
    let options = bugle::Options {
        schema: db.schema_name().unwrap(),
        migrate: Policy::Verify,
        wake: bugle::wake_engine::Options { times: no_fallback, ..Default::default() },
        listener: Some(db.connect_options().clone()),
        ..bugle::Options::default()
    };
    let bugle = Bugle::new(pool(&pooler).await, options).await.unwrap();
    let queue = bugle.queue("q").await.unwrap();
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.claim_within("w", 1, Duration::from_mins(1), Duration::from_secs(30)).await }
    });
    let asleep = async {
        while bugle.node().is_none_or(|node| node.status().seats.sentinel.is_empty()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), asleep).await.expect("it sleeps with the bell");
    let other = Bugle::new(
        pool(&pooler).await,
        bugle::Options { schema: db.schema_name().unwrap(), migrate: Policy::Verify, ..Default::default() },
    )
    .await
    .unwrap();
    other.enqueue_raw("q", "k", serde_json::value::to_raw_value(&1).unwrap()).send().await.unwrap();
    let look = waiting.await.unwrap().unwrap().expect("the job");
    assert_eq!(look.jobs.len(), 1);
    assert_eq!(bugle.node().unwrap().counters().rings.get(), 1, "by the ring");
}

#[tokio::test]
async fn it_is_gone_when_dropped() {
    let (_db, pooler) = place(1).await;
    let (pid, url) = (pooler.pid(), pooler.url().to_owned());
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    drop(pooler);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    PgConnection::connect(&url).await.unwrap_err();
}

/// Where the process that is to be killed says which pgbouncer it has; this test program, run again, is that process.
const REPORT: &str = "BUGLE_TEST_POOLER_REPORT";

#[tokio::test]
async fn owns_a_pooler_when_told_to() {
    let Some(report) = std::env::var_os(REPORT) else { return };
    let (_db, pooler) = place(1).await;
    std::fs::write(report, pooler.pid().to_string()).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn it_is_gone_when_its_owner_is_killed() {
    let db = TestDb::schema().await.unwrap(); // the owner uses the same server, not one that dies with it
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "owns_a_pooler_when_told_to"])
        .env(REPORT, &report)
        .env(URL_VARIABLE, db.url())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = || std::fs::read_to_string(&report).ok().filter(|pid| !pid.is_empty());
    eventually("the owner's report", || pid().is_some()).await;
    let process = format!("/proc/{}", pid().unwrap());
    assert!(Path::new(&process).exists());
    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("its end", || !is_alive(&process)).await;
}

/// Not merely waiting for its new parent to take notice, which a container's first process may never do.
fn is_alive(process: &str) -> bool {
    std::fs::read_to_string(format!("{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what} does not come");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
