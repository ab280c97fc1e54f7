//! Looking at queues, pausing and resuming them.

use super::{Site, eventually};
use serde_json::json;

#[tokio::test]
async fn a_paused_queue_is_shown_everywhere_and_served_again_when_resumed() {
    let site = Site::new().await;
    let first = site.enqueue("mail", "1");
    let answer = site.json(&["queue", "pause", "mail"]);
    assert_eq!((&answer["paused"], &answer["changed"]), (&json!(true), &json!(true)));
    assert_eq!(site.json(&["queue", "pause", "mail"])["changed"], json!(false), "and no error");
    assert_eq!(site.json(&["queue", "ls"])[0]["paused"], json!(true));
    assert_eq!(site.json(&["queue", "show", "mail"])["paused"], json!(true));
    assert_eq!(site.json(&["wake", "status"])["queues"][0]["paused"], json!(true));
    for args in [["queue", "ls"], ["wake", "status"]] {
        let table = site.run(&[&args[..], &["-o", "table"]].concat()).stdout;
        assert!(table.contains("PAUSED"), "{table}");
    }

    let _worker = site.start(&["work", "--queue", "mail", "--exec", "true"]);
    eventually("the worker sleeps", || !site.json(&["wake", "status"])["queues"][0]["sentinel"].is_null());
    let second = site.enqueue("mail", "2");
    assert_eq!((site.state(&first), site.state(&second)), ("ready".into(), "ready".into()));
    let answer = site.json(&["queue", "resume", "mail"]);
    assert_eq!((&answer["paused"], &answer["changed"]), (&json!(false), &json!(true)));
    site.done(&[&first, &second]);
    assert_eq!(site.json(&["queue", "resume", "mail"])["changed"], json!(false));
}

#[tokio::test]
async fn pausing_says_how_many_jobs_go_on() {
    let site = Site::new().await;
    site.enqueue("q", "1");
    let _worker = site.start_stuck(&["--queue", "q", "--name", "ann"]);
    let told = site.run(&["queue", "pause", "q", "-o", "table"]).stdout;
    assert_eq!(told, "q: paused; 1 job is still in a worker's hands and goes on\n");
    let shown = site.json(&["queue", "show", "q"]);
    assert_eq!(
        (&shown["workers"][0]["worker"], &shown["workers"][0]["jobs"]),
        (&json!("ann"), &json!(1)),
        "{shown}"
    );
}

#[tokio::test]
async fn a_queue_is_shown_with_its_depth_lag_and_rate() {
    let site = Site::new().await;
    site.enqueue("q", "1");
    site.json(&["enqueue", "q", "k", "--delay", "1h"]);
    let shown = site.json(&["queue", "show", "q", "--rate", "10ms"]);
    assert_eq!(
        (&shown["ready"], &shown["scheduled"], &shown["mode"]),
        (&json!(1), &json!(1), &json!("hybrid"))
    );
    assert!(shown["oldest_ready"].is_string() && shown["next_due"].is_string(), "{shown}");
    assert_eq!(shown["rate"]["done"], json!(0.0), "{shown}");
    let sheet = site.run(&["queue", "show", "q", "-o", "table"]).stdout;
    for said in [
        "ready      1, the next in line has been due for",
        "scheduled  1, the first is due in 59m",
        "no worker holds",
    ] {
        assert!(sheet.contains(said), "{sheet}");
    }
    let table = site.run(&["queue", "ls", "-o", "table"]).stdout;
    assert!(table.contains("WAITS"), "{table}");
}

#[tokio::test]
async fn a_queue_that_is_not_there_is_named_with_the_next_step() {
    let site = Site::new().await;
    for act in ["pause", "resume", "show", "mode"] {
        let ran = site.run(&["queue", act, "typo"]);
        assert_eq!(ran.code, 1, "{act}");
        assert!(
            ran.stderr.contains("\"typo\" does not exist") && ran.stderr.contains("queue ls"),
            "{act}: {}",
            ran.stderr
        );
    }
}
