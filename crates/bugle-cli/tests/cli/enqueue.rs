//! Writing jobs.

use super::Site;
use serde_json::json;

#[tokio::test]
async fn a_job_is_enqueued_run_by_a_command_and_done() {
    let site = Site::new().await;
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("said");
    let id = site.enqueue("mail", r#"{"order": 42}"#);
    let script = format!(
        "(cat; echo; echo $BUGLE_JOB_ID $BUGLE_JOB_QUEUE $BUGLE_JOB_KIND $BUGLE_JOB_ATTEMPT/$BUGLE_JOB_MAX_ATTEMPTS) > {}",
        file.display()
    );
    let ran = site.run(&["work", "--queue", "mail", "--until-empty", "--exec", "sh", "--", "-c", &script]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(file).unwrap(), format!("{{\"order\": 42}}\n{id} mail test 1/5\n"));
    let job = site.json(&["job", "show", &id]);
    assert_eq!(job["state"], "done");
    assert_eq!(job["payload"], json!({"order": 42}));
    assert_eq!(job["attempt"], 1);
    assert!(chrono::DateTime::parse_from_rfc3339(job["finished_at"].as_str().unwrap()).is_ok(), "{job}");
}

#[tokio::test]
async fn the_options_of_a_job_are_kept() {
    let site = Site::new().await;
    let args = ["enqueue", "q", "remind", "--delay", "1h", "--priority", "urgent", "--max-attempts", "9"];
    let id = site.json(&args)["id"].to_string();
    let job = site.json(&["job", "show", &id]);
    assert_eq!(
        (&job["state"], &job["priority"], &job["max_attempts"]),
        (&json!("scheduled"), &json!(0), &json!(9))
    );
    assert_eq!(job["payload"], json!(null));
    let due = site.json(&["enqueue", "q", "remind", "-5", "--due-at", "2100-01-31T09:00:00+01:00"])["id"]
        .to_string();
    let job = site.json(&["job", "show", &due]);
    assert_eq!((&job["due_at"], &job["payload"]), (&json!("2100-01-31T08:00:00Z"), &json!(-5)));
}

#[tokio::test]
async fn a_job_is_tried_again_by_its_own_rule() {
    let site = Site::new().await;
    let enqueue = |more: &[&str]| {
        let id = site.json(&[&["enqueue", "q", "k", "1"], more].concat())["id"].to_string();
        site.json(&["job", "show", &id])
    };
    let job = enqueue(&["--retry", "table:1h,30s"]);
    assert_eq!((&job["state"], &job["max_attempts"]), (&json!("scheduled"), &json!(2)), "the table says so");
    assert_eq!(enqueue(&["--retry", "table:1h,30s", "--due-at", "2001-01-01T00:00:00Z"])["state"], "ready");
    assert_eq!(enqueue(&["--retry", "exponential:1ms..2ms"])["max_attempts"], 5);
    let quick = enqueue(&["--retry", "exponential:1ms..2ms", "--max-attempts", "2"]);
    let never = enqueue(&["--retry", "never"]);
    // The worker's own rule would take hours.
    let work = ["work", "--queue", "q", "--retry", "exponential:1h..9h", "--exec", "false"];
    let worker = site.start(&work);
    let (quick, never) = (quick["id"].to_string(), never["id"].to_string());
    let ended = site.run(&["job", "wait", &quick, &never, "--timeout", "30s"]);
    assert_eq!(ended.code, 5, "{}", ended.stderr);
    let attempts = |id| site.json(&["job", "show", id])["failures"].as_array().unwrap().len();
    assert_eq!((attempts(&quick), attempts(&never)), (2, 1));
    drop(worker);
    for (bad, said) in [
        (&["--retry", "often"][..], "is no retry rule"),
        (&["--retry", "table:0s,1s", "--max-attempts", "5"], "leave out --max-attempts"),
        (&["--retry", "table:0s,40000d"], "at most 100 years"),
    ] {
        let ran = site.run(&[&["enqueue", "q", "k", "1"], bad].concat());
        assert_eq!(ran.code, 1, "{}", ran.stderr);
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
}

#[tokio::test]
async fn the_same_key_is_the_same_job() {
    let site = Site::new().await;
    let enqueue = || site.json(&["enqueue", "q", "k", "1", "--key", "order-42"])["id"].clone();
    assert_eq!(enqueue(), enqueue());
    assert_eq!(site.json(&["queue", "ls"])[0]["ready"], 1);
}

#[tokio::test]
async fn a_key_stands_for_its_job_as_long_as_its_window() {
    let site = Site::new().await;
    let enqueue =
        |window| site.json(&["enqueue", "q", "k", "1", "--key", "a", "--key-window", window])["id"].clone();
    let first = enqueue("1ms");
    assert_ne!(enqueue("1h"), first, "the window was over");
    assert_eq!(enqueue("1h"), enqueue("1h"));
    let ran = site.run(&["enqueue", "q", "k", "1", "--key", "a", "--key-window", "0s"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("key_window"), "{}", ran.stderr);
    let ran = site.run(&["enqueue", "q", "k", "1", "--key-window", "1h"]);
    assert_eq!(ran.code, 1, "a window without a key");
    let at = site.json(&["enqueue", "q", "k", "--at", "2100-01-31T09:00:00Z"])["id"].to_string();
    assert_eq!(site.json(&["job", "show", &at])["due_at"], json!("2100-01-31T09:00:00Z"));
}

#[tokio::test]
async fn a_file_is_written_whole_or_not_at_all() {
    let site = Site::new().await;
    let lines = "{\"n\": 7}\n".repeat(2_500);
    let ran = site.run_with_input(&["enqueue", "q", "k", "--file", "-"], lines.as_bytes());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let answer: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(answer["count"], 2_500);
    assert_eq!(answer["ids"].as_array().unwrap().len(), 2_500);

    let ran =
        site.run_with_input(&["enqueue", "q", "k", "--file", "-"], format!("{lines}{{oops\n").as_bytes());
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("line 2501") && ran.stderr.contains("nothing was written"), "{}", ran.stderr);
    assert_eq!(site.json(&["queue", "ls"])[0]["ready"], 2_500);
}

#[tokio::test]
async fn a_payload_may_come_from_standard_input_and_a_table_is_plain() {
    let site = Site::new().await;
    let ran = site.run_with_input(&["enqueue", "q", "k", "-", "--output", "table"], b" [1, 2] \n");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let id = ran.stdout.trim().to_owned();
    assert!(id.parse::<i64>().is_ok(), "{id}");
    let sheet = site.run(&["job", "show", &id, "-o", "table"]).stdout;
    assert!(sheet.contains("state     ready") && sheet.contains("payload   ["), "{sheet}");
    let table = site.run(&["job", "ls", "-o", "table"]).stdout;
    assert!(table.starts_with(" ID") || table.starts_with("ID"), "{table}");
    assert_eq!(table.lines().count(), 2);
}
