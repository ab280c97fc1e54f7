//! Rows 6, 7, 8, 11 and 15: connections and servers that die.
use crate::place::{Nodes, again_and_again, demand, own_run, shared_run};
use bugle_testkit::chaos::{Run, seconds};
use bugle_testkit::checker::{Report, Rule};
use bugle_testkit::history::{FaultKind, RecorderClient};
use bugle_testkit::postgres::TestServer;
use bugle_testkit::proxy::{Fault, Proxy};
use sqlx::{Connection as _, PgConnection, PgPool};
use std::time::Duration;

/// What is not flushed is lost with some luck only: so many runs may pass before it counts as kept.
const RUNS_MAX: usize = 6;
/// How long a commit waits for the disk where that matters.
pub(crate) const SLOW_FLUSH: Duration = Duration::from_millis(20);

/// A backend of one of the nodes.
const SOME_BACKEND: &str = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1";

/// Kills a backend of one of the nodes, and waits until the server is back.
pub(crate) async fn kill_some_backend(server: &TestServer, pool: &PgPool, nemesis: &RecorderClient) {
    let Ok(Some(pid)) = sqlx::query_scalar::<_, i32>(SOME_BACKEND).fetch_optional(pool).await else {
        return;
    };
    let Ok(mut witness) = PgConnection::connect_with(&server.connect_options().unwrap()).await else {
        return;
    };
    let window = nemesis.fault(FaultKind::BackendKilled, None).unwrap();
    server.kill_backend(pid).unwrap();
    // PostgreSQL ends all its backends, a moment later, and comes back.
    while witness.ping().await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    while sqlx::query("SELECT 1").execute(pool).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    window.end().unwrap();
}

#[tokio::test]
async fn row_6_a_killed_backend_takes_all_connections_and_nothing_is_lost() {
    let (server, mut run) = own_run(&[]).await;
    let pool = server.pool().unwrap();
    // Commits that take their time: there is always one under way when the blow falls.
    server.slow_flush(SLOW_FLUSH).await.unwrap();
    let nodes = Nodes::start(&mut run, &server.url().unwrap(), 2, 3);
    let nemesis = run.nemesis();
    again_and_again(seconds(8), Duration::from_millis(1_500), async || {
        kill_some_backend(&server, &pool, &nemesis).await;
    })
    .await;
    let report = run.finish(nodes.producers, nodes.workers).await.unwrap();
    demand(&report, &FaultKind::BackendKilled, 1, 1);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn row_7_a_killed_postmaster_comes_back_with_everything_that_was_accepted() {
    let (mut server, mut run) = own_run(&[]).await;
    // Commits that take their time: there is always one under way when the blow falls.
    server.slow_flush(SLOW_FLUSH).await.unwrap();
    let nodes = Nodes::start(&mut run, &server.url().unwrap(), 2, 3);
    let nemesis = run.nemesis();
    again_and_again(seconds(6), Duration::from_millis(1200), async || {
        let window = nemesis.fault(FaultKind::ServerCrash, None).unwrap();
        server.crash().await.unwrap();
        server.restart().await.unwrap();
        window.end().unwrap();
    })
    .await;
    let report = run.finish(nodes.producers, nodes.workers).await.unwrap();
    demand(&report, &FaultKind::ServerCrash, 1, 1);
    server.stop().await.unwrap();
}

/// Stops and starts the server again and again, for this time, while nodes work at `url`.
async fn stop_and_start(time: Duration, mut server: TestServer, mut run: Run, url: &str) -> Report {
    let nodes = Nodes::start(&mut run, url, 2, 3);
    let nemesis = run.nemesis();
    // Nodes find it again within a second: the next blow shall meet them at work.
    again_and_again(time, Duration::from_millis(1_500), async || {
        let window = nemesis.fault(FaultKind::ServerCrash, None).unwrap();
        server.stop_at_once().await.unwrap();
        server.restart().await.unwrap();
        window.end().unwrap();
    })
    .await;
    let report = run.finish(nodes.producers, nodes.workers).await.unwrap();
    server.stop().await.unwrap();
    report
}

#[tokio::test]
async fn row_8_a_server_stopped_at_once_again_and_again_keeps_what_it_accepted() {
    let (server, run) = own_run(&[]).await;
    server.slow_flush(SLOW_FLUSH).await.unwrap();
    let url = server.url().unwrap();
    let report = stop_and_start(seconds(10), server, run, &url).await;
    demand(&report, &FaultKind::ServerCrash, 2, 1);
}

#[tokio::test]
async fn row_8_is_red_when_answers_do_not_wait_for_the_disk() {
    let mut seen = Vec::new();
    for _ in 0..RUNS_MAX {
        let (server, mut run) = own_run(&[("wal_writer_delay", "10s")]).await;
        let url = format!("{}?options[synchronous_commit]=off", server.url().unwrap());
        run.expect_red(Duration::from_secs(5));
        let found = stop_and_start(Duration::from_secs(4), server, run, &url).await.broken_rules();
        if found.contains(&Rule::I1) {
            return;
        }
        seen.push(found);
    }
    panic!("nothing was lost: {seen:?}");
}

#[tokio::test]
async fn row_11_terminated_backends_lose_nothing() {
    let (db, mut run) = shared_run().await;
    let url = format!("{}?application_name={}_node", db.url(), db.name());
    let nodes = Nodes::start(&mut run, &url, 2, 3);
    let nemesis = run.nemesis();
    let terminate =
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1";
    again_and_again(seconds(4), Duration::from_millis(150), async || {
        let window = nemesis.fault(FaultKind::BackendTerminated, None).unwrap();
        sqlx::query(terminate).bind(format!("{}_node", db.name())).execute(db.pool()).await.unwrap();
        window.end().unwrap();
    })
    .await;
    let report = run.finish(nodes.producers, nodes.workers).await.unwrap();
    demand(&report, &FaultKind::BackendTerminated, 5, 1);
}

#[tokio::test]
async fn row_15_a_cut_between_commit_and_its_answer_is_unknown_and_a_key_makes_it_one_job() {
    let (db, mut run) = shared_run().await;
    let server = format!("{}:{}", db.connect_options().get_host(), db.connect_options().get_port());
    let proxy = Proxy::start(server.parse().unwrap()).await.unwrap();
    let url = db.url().replacen(&server, &proxy.addr().to_string(), 1);
    assert_ne!(url, db.url());
    let nodes = Nodes::start(&mut run, &url, 2, 3);
    let nemesis = run.nemesis();
    let mut cuts = Vec::new();
    again_and_again(seconds(4), Duration::from_millis(100), async || {
        let window = nemesis.fault(FaultKind::CutAfterCommit, None).unwrap();
        let statement =
            ["enqueue(", "enqueue_many(", "COMMIT", ".ack(", ".look(", "single ask", ".fail(", ".release("]
                [cuts.len() % 8];
        let cut = proxy.set(Fault::cut_after_answer(statement).next(1));
        let _ = tokio::time::timeout(Duration::from_millis(300), cut.has_hit(1)).await;
        cut.lift();
        cuts.push(cut.hits());
        window.end().unwrap();
    })
    .await;
    let report = run.finish(nodes.producers, nodes.workers).await.unwrap();
    let hits: u64 = cuts.iter().sum();
    assert!(hits >= 3, "only {hits} answers were cut off");
    demand(&report, &FaultKind::CutAfterCommit, 3, hits / 3);
}
