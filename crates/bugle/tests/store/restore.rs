//! A logical dump brought into another cluster: its transaction numbers mean nothing there.

use crate::fixture::{LEASE, raw, receipts};
use bugle::pg::embedded;
use bugle::{Bugle, Error, Options};
use bugle_testkit::postgres::{TestDb, TestServer};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Where PostgreSQL's programs are, with those that dump and restore: not every build of other versions has them.
async fn programs(db: &TestDb) -> PathBuf {
    let own: String = sqlx::query_scalar("SELECT setting FROM pg_config WHERE name = 'BINDIR'")
        .fetch_one(db.pool())
        .await
        .unwrap();
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut places =
        std::iter::once(PathBuf::from(own)).chain(debian.map(|version| version.path().join("bin")));
    places.find(|place| place.join("pg_dump").exists()).expect("pg_dump is a part of PostgreSQL's client")
}

fn run(programs: &Path, program: &str, args: &[&str]) {
    let ran = Command::new(programs.join(program)).args(args).output().unwrap();
    assert!(ran.status.success(), "{program}: {}", String::from_utf8_lossy(&ran.stderr));
}

#[tokio::test]
async fn a_dump_restored_into_another_cluster_goes_on_after_a_rebase() {
    let programs = programs(&TestDb::schema().await.unwrap()).await;
    let server = || TestServer::with(embedded::Options::ephemeral().bin_dir(programs.clone()));
    let (source, target) = (server().await.unwrap(), server().await.unwrap());
    let bugle = Bugle::new(source.pool().unwrap(), Options::default()).await.unwrap();
    let queue = bugle.queue("q").await.unwrap();
    bugle.enqueue_many_raw("q", "k", (0..10).map(|n| raw(&n.to_string())).collect()).send().await.unwrap();
    bugle.enqueue_raw("q", "later", raw("1")).delay(Duration::from_hours(1)).send().await.unwrap();
    let keyed = bugle.enqueue_raw("q", "keyed", raw("1")).key("one").send().await.unwrap();
    let held = queue.claim("w", 3, LEASE).await.unwrap();
    queue.ack(&receipts(&held.jobs)[..1], &[]).await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("dump");
    let dump = dump.to_str().unwrap();
    let (from, to) = (source.url().unwrap(), target.url().unwrap());
    run(&programs, "pg_dump", &["--format=custom", "--schema=bugle", "--file", dump, &from]);
    run(&programs, "pg_restore", &["--exit-on-error", "--no-owner", "--dbname", &to, dump]);

    let pool = target.pool().unwrap();
    let refused = Bugle::new(pool.clone(), Options::default()).await.err().unwrap();
    assert!(matches!(&refused, Error::Unsafe(told) if told.contains("bugle.rebase()")), "{refused}");
    let rows: i64 = sqlx::query_scalar("SELECT bugle.rebase()").fetch_one(&pool).await.unwrap();
    assert_eq!(rows, 10, "nine of ten, and the one with the key");

    let there = Bugle::new(pool, Options::default()).await.unwrap();
    let queue = there.queue("q").await.unwrap();
    let look = queue.claim("w", 100, LEASE).await.unwrap();
    assert_eq!(look.jobs.len(), 10, "also those that were leased in the other cluster");
    assert!(look.look_again_in.is_some_and(|wait| wait <= LEASE), "its own lease ends first");
    let ended = queue.ack(&receipts(&look.jobs), &[look.token]).await.unwrap();
    assert_eq!(ended.len(), 10);
    let again = there.enqueue_raw("q", "keyed", raw("1")).key("one").send().await.unwrap();
    assert_eq!(again, keyed, "keys came along");
    let new = there.enqueue_raw("q", "k", raw("1")).send().await.unwrap();
    assert!(new > keyed, "and numbers go on");
    there.close().await;
    bugle.close().await;
    source.stop().await.unwrap();
    target.stop().await.unwrap();
}
