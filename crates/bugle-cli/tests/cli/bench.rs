//! The benchmarks work and print their figures; how high they are is nobody's business here.

use super::{Ran, Site, bugle};
use bugle_testkit::postgres::TestDb;
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

#[tokio::test]
async fn the_storage_benchmark_prints_a_ratio_for_each_figure() {
    // A database of its own: it works in a schema of a fixed name.
    let db = TestDb::database().await.unwrap();
    let mut command = bugle();
    command.env("BUGLE_DATABASE_URL", db.url());
    command.args(["bench", "storage", "--jobs", "1000", "--rounds", "1", "--batch", "100"]);
    let ran = Ran::of(command);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let figures: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let figures = figures.as_array().unwrap();
    assert_eq!(figures.len(), 2);
    for figure in figures {
        assert!(figure["ratio"].as_f64().unwrap() > 0.0, "{figure}");
    }
}

/// Runs the short form of a benchmark, in databases beside one of its own, and reads its JSON.
async fn quick(args: &[&str]) -> Value {
    let db = TestDb::database().await.unwrap();
    let mut command = bugle();
    command.env("BUGLE_DATABASE_URL", db.url()).arg("bench").args(args).args(["--quick", "--output", "json"]);
    let ran = Ran::of(command);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let left: Vec<String> = sqlx::query_scalar(
        "SELECT datname FROM pg_database WHERE datname LIKE current_database() || '_bench%'",
    )
    .fetch_all(db.pool())
    .await
    .unwrap();
    assert!(left.is_empty(), "left behind: {left:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

fn assert_above_zero(row: &Value, fields: &[&str]) {
    for field in fields {
        let value = row.pointer(field).and_then(Value::as_f64);
        assert!(value.is_some_and(|value| value > 0.0), "{field} in {row}");
    }
}

#[tokio::test]
async fn the_wake_benchmark_compares_producers_with_a_bare_insert() {
    let answer = quick(&["wake", "--length", "50ms", "--clients", "1,4"]).await;
    let cost = answer["cost"].as_array().unwrap();
    let names: Vec<_> = cost.iter().map(|row| row["side"].as_str().unwrap()).collect();
    assert!(names.starts_with(&["bare INSERT", "bare INSERT, NOTIFY", "enqueue, awake"]), "{names:?}");
    for row in cost {
        assert_above_zero(row, &["/tx_per_s/median", "/ratio/min", "/clients"]);
        let notifies = row["notifies_per_tx"]["median"].as_f64().unwrap();
        match row["side"].as_str().unwrap() {
            "bare INSERT" | "enqueue, awake" => assert!(notifies < 0.01, "{row}"),
            _ => assert!(notifies > 0.99, "{row}"),
        }
    }
    for row in answer["counts"].as_array().unwrap() {
        assert_above_zero(row, &["/rate", "/jobs_per_s/median"]);
    }
}

#[tokio::test]
async fn the_latency_benchmark_puts_bugle_beside_listen_and_polling() {
    let answer = quick(&["latency", "--length", "500ms"]).await;
    let rows = answer.as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["side"].as_str().unwrap()).collect();
    let sparse = ["bare LISTEN", "bugle", "bugle, one process", "polling 50 ms", "polling 1 s"];
    assert_eq!(names, [&sparse[..], &sparse[..3]].concat());
    for row in rows {
        assert_above_zero(row, &["/jobs", "/sent_per_s/median", "/max_ms", "/p99_ms/median"]);
    }
}

#[tokio::test]
async fn the_due_benchmark_tells_how_late_and_how_early() {
    let answer = quick(&["due", "--jobs", "20", "--burst", "50"]).await;
    let rows = answer.as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["side"].as_str().unwrap()).collect();
    assert_eq!(names, ["spread", "one second", "one instant"]);
    for row in rows {
        assert_above_zero(row, &["/jobs", "/p50_ms/median", "/p99_ms/median", "/max_ms", "/clock_error_ms"]);
        let (earliest, error) =
            (row["earliest_ms"].as_f64().unwrap(), row["clock_error_ms"].as_f64().unwrap());
        assert!(earliest >= -error, "a job started before it was due: {row}");
    }
}

#[tokio::test]
async fn the_idle_benchmark_counts_and_wakes_three_fleets() {
    let answer = quick(&["idle", "--silence", "1", "--settle", "0"]).await;
    let fleets = answer["fleets"].as_array().unwrap();
    assert_eq!(fleets.len(), 3);
    for row in fleets {
        assert_above_zero(row, &["/jobs", "/max_ms"]);
        assert!(row.get("statements_per_s").is_some() && row.get("fallback_hits").is_some(), "{row}");
    }
}

#[tokio::test]
async fn the_processes_of_a_benchmark_end_with_it_even_when_it_is_killed() {
    let db = TestDb::database().await.unwrap();
    let mut command = bugle();
    command.env("BUGLE_DATABASE_URL", db.url()).args(["bench", "idle"]);
    let mut parent =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // A worker of the last fleet has looked.
    until(&db, "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() || '_bench_idle_c' AND query ~ '(claim|look)\\('").await;
    parent.kill().unwrap();
    parent.wait().unwrap();
    until(
        &db,
        "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname LIKE current_database() || '_bench%'",
    )
    .await;
    for name in ["idle_meter", "idle_a", "idle_b", "idle_c"] {
        let sql = format!("DROP DATABASE IF EXISTS {}_bench_{name} WITH (FORCE)", db.name());
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(db.pool()).await.unwrap();
    }
}

#[tokio::test]
async fn a_benchmark_of_nothing_is_refused() {
    let site = Site::new().await;
    let ran = site.run(&["bench", "storage", "--jobs", "0"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("at least 1"), "{}", ran.stderr);
}

/// Waits until the database says yes.
async fn until(db: &TestDb, question: &'static str) {
    let asked = async {
        while !sqlx::query_scalar::<_, bool>(question).fetch_one(db.pool()).await.unwrap() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), asked)
        .await
        .unwrap_or_else(|_| panic!("never true: {question}"));
}

#[tokio::test]
async fn the_succession_benchmark_measures_who_comes_after_a_node_that_goes() {
    let answer = quick(&["succession"]).await;
    let rows = answer.as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["side"].as_str().unwrap()).collect();
    assert_eq!(names, ["sentinel stopped", "sentinel killed", "dead worker's lease"]);
    for row in rows {
        assert_above_zero(row, &["/late_ms/median"]);
    }
}
