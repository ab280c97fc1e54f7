//! The benchmarks work and print their figures; how high they are is nobody's business here.

use super::{Ran, Site, bugle};
use bugle_testkit::postgres::TestDb;
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

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

/// The values of one field of all rows.
fn column<'a>(rows: &'a Value, field: &str) -> Vec<&'a str> {
    rows.as_array().unwrap().iter().map(|row| row[field].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_floor_benchmark_measures_bare_statements() {
    let rows = quick(&["floor", "--jobs", "1000", "--length", "50ms"]).await;
    let names = ["claim 1 + delete", "claim 100 + delete", "INSERT of 500", "COPY", "single INSERT"];
    assert_eq!(column(&rows, "statement"), names);
    for row in rows.as_array().unwrap() {
        assert_above_zero(row, &["/rows_per_s/median", "/sessions"]);
    }
}

#[tokio::test]
async fn the_jobs_benchmark_prints_a_ratio_for_each_figure() {
    let rows = quick(&["jobs", "--jobs", "1000", "--length", "50ms"]).await;
    let names = column(&rows, "figure");
    assert_eq!(names.len(), 7, "{names:?}");
    for row in rows.as_array().unwrap() {
        assert_above_zero(row, &["/floor_per_s/median", "/bugle_per_s/median", "/ratio/min"]);
    }
    let targets: Vec<_> =
        rows.as_array().unwrap().iter().filter_map(|row| row["at_least"].as_f64()).collect();
    assert_eq!(targets, [0.8, 2.0, 0.8, 1.2], "{rows}");
}

#[tokio::test]
async fn the_backlog_benchmark_compares_large_backlogs_with_a_small_one() {
    let rows = quick(&["backlog", "--jobs", "1000"]).await;
    let names = ["10 waiting", "1000 waiting", "the first 10 of 1000", "10 beside 1000 scheduled, 1000 done"];
    assert_eq!(column(&rows, "backlog"), names);
    for row in rows.as_array().unwrap() {
        assert_above_zero(row, &["/jobs_per_s/median", "/ratio/median"]);
    }
}

#[tokio::test]
async fn the_hold_benchmark_shows_every_window_and_the_dead_rows() {
    let answer = quick(&["hold", "--length", "400ms", "--window", "100ms"]).await;
    let round = &answer["rounds"][0];
    for side in ["held", "free"] {
        assert_eq!(round[side]["windows_per_s"].as_array().unwrap().len(), 4, "{round}");
        assert_above_zero(&round[side], &["/jobs_per_s"]);
    }
    // Nothing that the snapshot may see can be removed.
    assert_above_zero(round, &["/held/dead_rows/job"]);
    assert_eq!(answer["checks"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn the_crash_benchmark_kills_a_worker_and_sees_its_jobs_run_elsewhere() {
    let answer = quick(&["crash", "--lease", "600ms"]).await;
    assert_above_zero(&answer, &["/past_lease_ms/median", "/since_kill_ms/median"]);
}

#[tokio::test]
async fn all_benchmarks_print_one_table_of_figures_and_targets() {
    let answer = quick(&["all", "--only", "crash,jobs"]).await;
    assert_eq!(answer["failed"].as_array().unwrap().len(), 0, "{answer}");
    let checks = answer["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 5, "{answer}");
    for check in checks {
        assert!(check["met"].is_boolean() && check["target"].is_string(), "{check}");
        assert_above_zero(check, &["/value/median", "/value/min", "/value/max"]);
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
        assert_above_zero(row, &["/jobs"]);
        // Zero when the handler began before the producer had its answer.
        assert!(row["max_ms"].is_number(), "{row}");
        assert!(row.get("statements_per_s").is_some() && row.get("fallback_hits").is_some(), "{row}");
    }
}

/// A contender's command on an empty database, with little to do.
fn contender(db: &TestDb, phases: &str) -> std::process::Command {
    let mut command = bugle();
    command.args(["bench", "contender", db.url()]).env("BENCH_PHASES", phases);
    command.env("BENCH_N", "300").env("BENCH_BULK", "100").env("BENCH_CONC", "3").env("BENCH_IDLE_S", "1");
    command.env("BENCH_LAT_N", "5").env("BENCH_LAT_MS", "10").env("BENCH_DRAIN_MAX_S", "30");
    command
}

#[tokio::test]
async fn a_contender_answers_with_one_line_of_the_agreed_fields() {
    let db = TestDb::database().await.unwrap();
    let ran = Ran::of(contender(&db, "abcd"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
    let line: Value = serde_json::from_str(&ran.stdout).unwrap();
    let fields = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(fields(&line), "a b c d lang peer version");
    assert_eq!(fields(&line["a"]), "bulk_api bulk_per_s own_tx_per_s single_per_s");
    assert_eq!(fields(&line["b"]), "cut_off handled handlers_done_s jobs_per_s n seconds settings");
    assert_eq!(fields(&line["c"]), "max_ms n p50_ms p95_ms p99_ms settings");
    assert_eq!(fields(&line["d"]), "connections settings xact_per_s");
    assert_above_zero(
        &line,
        &["/a/single_per_s", "/a/own_tx_per_s", "/a/bulk_per_s", "/b/jobs_per_s", "/c/p50_ms"],
    );
    assert_above_zero(&line, &["/d/connections"]);
    assert_eq!((&line["b"]["handled"], &line["b"]["cut_off"]), (&Value::from(300), &Value::from(false)));
}

#[tokio::test]
async fn a_contender_does_only_the_phases_it_is_asked_for_and_only_on_an_empty_database() {
    let db = TestDb::database().await.unwrap();
    let ran = Ran::of(contender(&db, "b"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let line: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(line.get("b").is_some() && line.get("a").is_none() && line.get("d").is_none(), "{line}");
    let again = Ran::of(contender(&db, "b"));
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("empty"), "{}", again.stderr);
}

#[tokio::test]
async fn the_processes_of_a_benchmark_end_with_it_even_when_it_is_killed() {
    let db = TestDb::database().await.unwrap();
    let mut command = bugle();
    command.env("BUGLE_DATABASE_URL", db.url()).args(["bench", "idle"]);
    let mut parent =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // A worker of the last fleet has looked.
    until(&db, "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() || '_bench_idle_c' AND query ~ 'look\\(|single ask'").await;
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
    for nothing in [
        ["jobs", "--jobs", "0"],
        ["floor", "--rounds", "0"],
        ["backlog", "--jobs", "10"],
        ["hold", "--length", "10s"],
    ] {
        let ran = site.run(&[&["bench"], &nothing[..]].concat());
        assert_eq!(ran.code, 1, "{nothing:?}");
        assert!(ran.stderr.contains("leave them out"), "{nothing:?}: {}", ran.stderr);
    }
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
        // Who is woken before the producer's commit is answered counts as 0.
        assert!(row["late_ms"]["median"].as_f64().is_some_and(|late| late >= 0.0), "{row}");
    }
}

#[tokio::test]
async fn the_durable_benchmark_measures_every_part_of_an_instance() {
    let answer = quick(&["durable"]).await;
    assert_eq!(answer["contestants"], serde_json::json!(["bugle"]));
    let value = |figure: &str| {
        let row = answer["rows"].as_array().unwrap().iter().find(|row| row["figure"] == figure);
        row.and_then(|row| row["values"][0]["median"].as_f64())
            .unwrap_or_else(|| panic!("{figure}: {answer:#}"))
    };
    for figure in ["start to first turn, p50 ms", "turn to activity, p50 ms", "activity to turn, p50 ms"] {
        assert!(value(figure) > 0.0, "{figure}");
    }
    for figure in ["timer late, least ms", "lease of a dead node, ms late", "abandoned with a delay, ms late"]
    {
        assert!(value(figure) >= 0.0, "{figure}: it was early");
    }
    assert!(value("statements of an instance") >= 7.0);
    for dispatchers in ["4+4", "8+8"] {
        assert!(value(&format!("burst of fan-outs at {dispatchers}, instances/s")) > 0.0);
    }
}

#[tokio::test]
async fn providers_that_are_not_there_are_named() {
    let ran = Site::new().await.run(&["bench", "durable", "--peers", "/nowhere/durable-peers"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("/nowhere/durable-peers") && ran.stderr.contains("make bench-durable"),
        "{}",
        ran.stderr
    );
}

#[tokio::test]
async fn the_broker_benchmark_measures_rates_waiters_and_memory_over_http() {
    let answer = quick(&["broker"]).await;
    let rates = answer["rates"].as_array().unwrap();
    assert_eq!(rates.len(), 4, "{answer:#}");
    for row in rates {
        assert_above_zero(row, &["/floor_per_s/median", "/bugle_per_s/median", "/ratio/median"]);
    }
    let times = answer["times"].as_array().unwrap();
    assert_eq!(
        times.len(),
        4 + 4 + 1,
        "two numbers of waiters in two layouts, and in many queues: {answer:#}"
    );
    for row in times {
        assert_above_zero(row, &["/p50", "/p99", "/max"]);
    }
    assert_eq!(answer["held_windows_per_s"].as_array().unwrap().len(), 4);
    let checks = column(&answer["checks"], "figure");
    for part in
        ["idle statements/s", "memory of each of 50 waiting sockets", "memory of each of 200 waiting streams"]
    {
        assert!(checks.iter().any(|figure| figure.starts_with(part)), "{part} in {checks:?}");
    }
    for what in ["lost", "out of order"] {
        let figure = format!("{what} of 1600 by 16 producers on one partition");
        let check = answer["checks"].as_array().unwrap().iter().find(|check| check["figure"] == figure);
        assert_eq!(check.unwrap()["value"]["median"], 0.0, "{answer:#}");
    }
}
