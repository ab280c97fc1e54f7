//! The tests' PostgreSQL: places for tests, and each fault.

#![allow(clippy::unwrap_used)] // clippy sees no test in a helper

use bugle_testkit::postgres::{Backend, TestDb, TestServer, hold_snapshot, terminate_backend};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool};
use std::process::Command;
use std::time::{Duration, Instant};

async fn number(pool: &PgPool, sql: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(pool).await.unwrap()
}

async fn run(pool: &PgPool, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(pool).await.unwrap();
}

#[tokio::test]
async fn each_test_has_a_schema_of_its_own_and_leaves_nothing() {
    let (one, two) = (TestDb::schema().await.unwrap(), TestDb::schema().await.unwrap());
    assert_ne!(one.name(), two.name());
    run(one.pool(), &format!("CREATE TABLE {}.kept (n int)", one.name())).await;
    let schemas = format!("SELECT count(*) FROM pg_namespace WHERE nspname = '{}'", one.name());
    assert_eq!(number(two.pool(), &schemas).await, 1);
    drop(one);
    assert_eq!(number(two.pool(), &schemas).await, 0);
}

#[tokio::test]
async fn a_database_isolates_what_a_schema_does_not() {
    let (one, two) = (TestDb::database().await.unwrap(), TestDb::database().await.unwrap());
    let lock = "SELECT pg_try_advisory_lock(7)::int::bigint";
    let mut session = one.pool().acquire().await.unwrap();
    let got: i64 = sqlx::query_scalar(lock).fetch_one(&mut *session).await.unwrap();
    assert_eq!((got, number(two.pool(), lock).await), (1, 1));
    let mut outside = PgConnection::connect(one.url()).await.unwrap();
    let here: String =
        sqlx::query_scalar("SELECT current_database()::text").fetch_one(&mut outside).await.unwrap();
    assert_eq!(here, one.name());
    let name = one.name().to_owned();
    drop(one); // with sessions open
    let left = format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'");
    assert_eq!(number(two.pool(), &left).await, 0);
}

#[tokio::test]
async fn a_failing_test_keeps_its_schema() {
    let witness = TestDb::schema().await.unwrap();
    let failing = tokio::spawn(async {
        let db = TestDb::schema().await.unwrap();
        std::panic::panic_any(db.name().to_owned());
    });
    let name = failing.await.unwrap_err().into_panic().downcast::<String>().unwrap();
    let kept = format!("SELECT count(*) FROM pg_namespace WHERE nspname = '{name}'");
    assert_eq!(number(witness.pool(), &kept).await, 1);
    run(witness.pool(), &format!("DROP SCHEMA {name}")).await;
}

#[tokio::test]
async fn sessions_are_terminated_by_pid_and_by_name() {
    let db = TestDb::schema().await.unwrap();
    let mut victim = PgConnection::connect(db.url()).await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut victim).await.unwrap();
    assert_eq!(terminate_backend(db.connect_options(), Backend::Pid(pid)).await.unwrap(), 1);
    sqlx::query("SELECT 1").execute(&mut victim).await.unwrap_err();
    let mut bystander = PgConnection::connect(db.url()).await.unwrap();

    let name = format!("{}_victim", db.name());
    let options = db.connect_options().clone().application_name(&name);
    let mut one = PgConnection::connect_with(&options).await.unwrap();
    let mut two = PgConnection::connect_with(&options).await.unwrap();
    assert_eq!(terminate_backend(db.connect_options(), Backend::Application(&name)).await.unwrap(), 2);
    sqlx::query("SELECT 1").execute(&mut one).await.unwrap_err();
    sqlx::query("SELECT 1").execute(&mut two).await.unwrap_err();
    sqlx::query("SELECT 1").execute(&mut bystander).await.unwrap(); // others are left alone
}

#[tokio::test]
async fn a_held_snapshot_sees_the_past_and_holds_the_horizon() {
    let db = TestDb::schema().await.unwrap();
    let table = format!("{}.rows", db.name());
    run(db.pool(), &format!("CREATE TABLE {table} (n int); INSERT INTO {table} VALUES (1)")).await;
    let mut snapshot = hold_snapshot(db.connect_options()).await.unwrap();
    run(db.pool(), &format!("DELETE FROM {table}")).await;

    let count = format!("SELECT count(*) FROM {table}");
    let seen: i64 =
        sqlx::query_scalar(AssertSqlSafe(count.clone())).fetch_one(snapshot.connection()).await.unwrap();
    assert_eq!((seen, number(db.pool(), &count).await), (1, 0));
    let holds = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE pid = {} AND backend_xmin IS NOT NULL",
        snapshot.pid()
    );
    assert_eq!(number(db.pool(), &holds).await, 1);
    let pid = snapshot.pid();
    snapshot.release().await.unwrap();
    let left =
        format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND backend_xmin IS NOT NULL");
    assert_eq!(number(db.pool(), &left).await, 0);
}

#[tokio::test]
async fn what_is_committed_survives_a_crash() {
    let mut server = TestServer::own().await.unwrap();
    let (url, pool) = (server.url().unwrap(), server.pool().unwrap());
    run(&pool, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (42)").await;
    server.crash().await.unwrap();
    PgConnection::connect(&url).await.unwrap_err();
    server.restart().await.unwrap();
    assert_eq!(server.url().unwrap(), url);
    let pool = server.pool().unwrap();
    assert_eq!(number(&pool, "SELECT n::bigint FROM kept").await, 42);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_killed_backend_takes_the_others_with_it() {
    let server = TestServer::own().await.unwrap();
    let mut victim = PgConnection::connect(&server.url().unwrap()).await.unwrap();
    let mut bystander = PgConnection::connect(&server.url().unwrap()).await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut victim).await.unwrap();
    server.kill_backend(pid).unwrap();
    sqlx::query("SELECT pg_sleep(30)").execute(&mut bystander).await.unwrap_err();
    let stranger = i32::try_from(std::process::id()).unwrap();
    assert!(server.kill_backend(stranger).is_err(), "only processes of the server");

    let begun = Instant::now();
    while PgConnection::connect(&server.url().unwrap()).await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not recover");
    }
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_slow_flush_delays_commits_until_it_is_taken_back() {
    let server = TestServer::own().await.unwrap();
    let pool = server.pool().unwrap();
    run(&pool, "CREATE TABLE slow (n int)").await;
    let delay = Duration::from_millis(100);
    server.slow_flush(delay).await.unwrap();
    let begun = Instant::now();
    for _ in 0..3 {
        run(&pool, "INSERT INTO slow VALUES (1)").await;
    }
    assert!(begun.elapsed() >= delay * 3, "{:?}", begun.elapsed());

    server.normal_flush().await.unwrap();
    let mut setting = PgConnection::connect(&server.url().unwrap()).await.unwrap();
    let now: String = sqlx::query_scalar("SHOW commit_delay").fetch_one(&mut setting).await.unwrap();
    assert_eq!(now, "0");
    assert!(server.slow_flush(Duration::from_secs(1)).await.is_err(), "more than PostgreSQL can");
    setting.close().await.unwrap();
    server.stop().await.unwrap();
}

#[test]
fn a_command_runs_with_a_server_and_its_exit_code_is_returned() {
    let run = Command::new(env!("CARGO_BIN_EXE_with-postgres"))
        .args(["--", "sh", "-c", "echo \"$BUGLE_TEST_DATABASE_URL\"; exit 7"])
        .env_remove("BUGLE_TEST_DATABASE_URL")
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(7));
    let url = String::from_utf8(run.stdout).unwrap();
    assert!(url.starts_with("postgres://bugle:"), "{url}");
    let said = String::from_utf8(run.stderr).unwrap();
    assert!(said.contains("the command took"), "{said}");
}
