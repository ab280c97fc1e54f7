//! `bugle job why`: one sentence for somebody who was woken at night.

use super::{Site, eventually};
use serde_json::json;

fn why(site: &Site, id: &str) -> (String, String) {
    let answer = site.json(&["job", "why", id]);
    (answer["reason"].as_str().unwrap().to_owned(), answer["why"].as_str().unwrap().to_owned())
}

fn says(site: &Site, id: &str, reason: &str, parts: &[&str]) {
    let (found, sentence) = why(site, id);
    assert_eq!(found, reason, "{sentence}");
    for part in parts {
        assert!(sentence.contains(part), "no {part:?} in: {sentence}");
    }
    let line = site.run(&["job", "why", id, "-o", "table"]).stdout;
    assert_eq!(line.lines().count(), 1, "one sentence: {line}");
}

#[tokio::test]
async fn a_job_that_waits_says_for_what() {
    let site = Site::new().await;
    let (first, second) = (site.enqueue("q", "1"), site.enqueue("q", "2"));
    says(&site, &second, "no_worker", &["behind 1 other", "nobody is seen", "bugle work --queue q"]);
    let later = site.json(&["enqueue", "q", "k", "--delay", "1h"])["id"].to_string();
    says(&site, &later, "not_due", &["scheduled: due in 59m (2"]);
    site.json(&["queue", "pause", "q"]);
    says(&site, &first, "paused", &["queue q is paused", "`bugle queue resume q`"]);
    says(&site, &later, "not_due", &["its queue q is paused"]);
    site.json(&["queue", "resume", "q"]);

    let _worker = site.start_stuck(&["--queue", "q", "--concurrency", "1", "--name", "ann"]);
    says(&site, &first, "leased", &["by worker ann", "attempt 1 of 5", "unless it is renewed"]);
    says(&site, &second, "next", &["next in line", "worker ann is at work on 1 job"]);
}

#[tokio::test]
async fn a_job_that_failed_or_ended_says_how() {
    let site = Site::new().await;
    let id = site.json(&["enqueue", "q", "k", "--max-attempts", "3"])["id"].to_string();
    let mut worker = site.start(&[
        "work",
        "--queue",
        "q",
        "--exec",
        "sh",
        "--",
        "-c",
        "echo no route to host >&2; exit 7",
    ]);
    eventually("it backs off after the second attempt", || {
        let job = site.json(&["job", "show", &id]);
        job["state"] == "scheduled" && job["attempt"] == 2
    });
    worker.signal(rustix::process::Signal::TERM);
    worker.end();
    let (reason, sentence) = why(&site, &id);
    // Two seconds after the failure it is due, and there is no worker any more.
    assert!(["backing_off", "no_worker"].contains(&reason.as_str()), "{sentence}");
    assert!(
        sentence.contains("attempt 2 failed") && sentence.contains("exit_7: no route to host"),
        "{sentence}"
    );
    let ran = site.run(&["work", "--queue", "q", "--until-empty", "--exec", "sh", "--", "-c", "exit 65"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    says(&site, &id, "dead", &["out of attempts (3)", "exit_65", &format!("bugle job retry {id}")]);

    let (done, gone) =
        (site.enqueue("q", "1"), site.json(&["enqueue", "q", "k", "--delay", "1h"])["id"].to_string());
    site.json(&["job", "cancel", &gone]);
    site.run(&["work", "--queue", "q", "--until-empty", "--exec", "true"]);
    says(&site, &done, "done", &["by attempt 1"]);
    says(&site, &gone, "cancelled", &["was cancelled"]);
}

#[tokio::test]
async fn a_job_that_is_not_there_is_exit_code_4() {
    let site = Site::new().await;
    let ran = site.run(&["job", "why", "4711"]);
    assert_eq!(ran.code, 4);
    assert!(ran.stderr.starts_with("error: there is no job 4711"), "{}", ran.stderr);
    let facts = site.json(&["job", "why", &site.enqueue("q", "1")]);
    assert_eq!(
        (&facts["ahead"], &facts["paused"], &facts["state"]),
        (&json!(0), &json!(false), &json!("ready"))
    );
}
