//! Waking, as the command line shows and sets it.

use super::doctor::{create_reader, drop_reader};
use super::{Site, eventually};

#[tokio::test]
async fn the_status_shows_who_sleeps_for_which_queue() {
    let site = Site::new().await;
    site.enqueue("mail", "1");
    assert_eq!(site.json(&["wake", "status"])["queues"][0]["sentinel"], serde_json::Value::Null);
    let worker = site.start(&["work", "--queue", "mail", "--exec", "true"]);
    let status = || site.json(&["wake", "status"]);
    eventually("the worker sleeps as sentinel", || !status()["queues"][0]["sentinel"].is_null());
    let seen = status();
    let node = seen["queues"][0]["sentinel"].as_str().unwrap().to_owned();
    let bucket = &seen["queues"][0]["bucket"];
    let row = seen["nodes"].as_array().unwrap().iter().find(|row| row["node"] == node.as_str()).unwrap();
    assert!(row["sentinel"].as_array().unwrap().contains(bucket), "{row}");
    assert_eq!(row["alert"], false);
    site.json(&["enqueue", "mail", "test", "1", "--delay", "1h"]);
    assert!(status()["queues"][0]["next_due"].is_string());
    let table = site.run(&["wake", "status", "--output", "table"]).stdout;
    assert!(table.contains("SENTINEL OF") && table.contains(&node), "{table}");
    assert!(seen["producers"].is_null() && table.contains("rings sent and saved are not counted"), "{table}");
    drop(worker);
    eventually("its locks go with it", || status()["queues"][0]["sentinel"].is_null());
}

#[tokio::test]
async fn the_status_shows_rings_sent_and_saved_where_postgresql_counts() {
    let site = Site::new().await;
    site.enqueue("mail", "1");
    let mut session = site.db.pool().acquire().await.unwrap().detach();
    let enqueue = format!("SELECT {}.enqueue('mail', 'k')", site.db.name());
    for sql in ["SET track_functions = 'pl'", &enqueue, &enqueue] {
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut session).await.unwrap();
    }
    sqlx::Connection::close(session).await.unwrap();
    let status = || site.json(&["wake", "status"])["producers"].clone();
    eventually("it is told", || !status().is_null());
    assert_eq!(
        (&status()["checks"], &status()["sent"], &status()["saved"]),
        (&2.into(), &0.into(), &2.into())
    );
    let table = site.run(&["wake", "status", "-o", "table"]).stdout;
    assert!(table.contains("producers asked 2 times") && table.contains("0 rings sent, 2 saved"), "{table}");
}

/// PostgreSQL hides from it when the nodes' sessions began.
#[tokio::test]
async fn the_status_is_shown_to_a_role_that_may_only_read() {
    let site = Site::new().await;
    site.enqueue("mail", "1");
    let _worker = site.start(&["work", "--queue", "mail", "--exec", "true"]);
    let sentinel = |status: &serde_json::Value| !status["queues"][0]["sentinel"].is_null();
    eventually("the worker sleeps as sentinel", || sentinel(&site.json(&["wake", "status"])));
    let url = create_reader(&site).await;
    let ran = site.run(&["wake", "status", "--database-url", &url]);
    for command in [
        &["queue", "ls"][..],
        &["queue", "show", "mail"],
        &["job", "ls"],
        &["dead", "ls"],
        &["dead", "purge"],
    ] {
        let ran = site.run(&[command, &["--database-url", &url]].concat());
        assert!([0, 4].contains(&ran.code), "{command:?}: {}", ran.stderr);
    }
    drop_reader(&site).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(sentinel(&serde_json::from_str(&ran.stdout).unwrap()), "{}", ran.stdout);
}

#[tokio::test]
async fn a_mode_is_set_shown_and_refused() {
    let site = Site::new().await;
    site.enqueue("mail", "1");
    assert_eq!(site.json(&["queue", "mode", "mail"])["mode"], "hybrid");
    assert_eq!(
        site.json(&["queue", "mode", "mail", "polling_only", "--poll", "500ms"])["mode"],
        "polling_only"
    );
    assert_eq!(site.json(&["queue", "ls"])[0]["mode"], "polling_only");
    let ran = site.run(&["queue", "mode", "typo", "shadow"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.stderr.contains("\"typo\" does not exist") && ran.stderr.contains("queue ls"),
        "{}",
        ran.stderr
    );
    let ran = site.run(&["queue", "mode", "mail", "push"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("\"push\"") && ran.stderr.contains("event_driven_only"), "{}", ran.stderr);
    let ran = site.run(&["queue", "mode", "mail", "shadow", "--poll", "0s"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
}

#[tokio::test]
async fn options_are_shown_and_bad_ones_refused() {
    let site = Site::new().await;
    let shown = site.json(&["--wake", "heartbeat=5s", "--json", "config", "show"]);
    let row = shown.as_array().unwrap().iter().find(|row| row["option"] == "heartbeat").unwrap();
    assert_eq!((row["value"].as_str(), row["default"].as_str()), (Some("5s"), Some("15s")));
    for (bad, said) in [
        ("heartbeet=5s", "there is no such option"),
        ("heartbeat=5", "no length of time"),
        ("heartbeat=0s", "is zero"),
        ("heartbeat", "write NAME=VALUE"),
        ("alert=never", "neither on_fault nor on_wake"),
        ("looks_max=x", "no whole number"),
    ] {
        let ran = site.run(&["--wake", bad, "config", "show"]);
        assert_eq!(ran.code, 1, "{bad}");
        assert!(ran.stderr.contains(said), "{bad}: {}", ran.stderr);
    }
}
