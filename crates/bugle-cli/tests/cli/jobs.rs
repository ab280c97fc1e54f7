//! Looking at jobs, trying them again, cancelling them.

use super::Site;
use serde_json::json;

#[tokio::test]
async fn a_dead_job_is_retried_and_a_done_one_is_not() {
    let site = Site::new().await;
    let id = site.enqueue("q", "1");
    let work = |exec: &[&str]| {
        let ran = site.run(&[&["work", "--queue", "q", "--until-empty", "--exec"], exec].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    };
    work(&["sh", "--", "-c", "echo it is broken >&2; exit 65"]);
    let dead = site.json(&["job", "show", &id]);
    assert_eq!(dead["state"], "dead");
    assert_eq!(dead["failures"][0]["code"], "exit_65");
    assert_eq!(dead["failures"][0]["message"], "it is broken");

    let answer = site.json(&["job", "retry", &id]);
    assert_eq!((&answer[0]["was"], &answer[0]["changed"]), (&json!("dead"), &json!(true)));
    work(&["true"]);
    assert_eq!(site.state(&id), "done");

    let ran = site.run(&["job", "retry", &id, "999999"]);
    assert_eq!(ran.code, 4);
    assert!(
        ran.stdout.contains("only a dead or scheduled job") && ran.stdout.contains("no such job"),
        "{}",
        ran.stdout
    );
}

#[tokio::test]
async fn cancelling_says_whether_the_job_may_have_started() {
    let site = Site::new().await;
    let ready = site.enqueue("q", "1");
    let scheduled = site.json(&["enqueue", "q", "k", "1", "--delay", "1h"])["id"].to_string();
    let answers = site.json(&["job", "cancel", &ready, &scheduled]);
    for answer in answers.as_array().unwrap() {
        assert!(answer["result"].as_str().unwrap().contains("will never start"), "{answer}");
    }
    let leased = site.enqueue("q", "1");
    let _worker = site.start_stuck(&["--queue", "q"]);
    let held = site.json(&["job", "show", &leased]);
    assert!(held["worker"].is_string() && held["lease_until"].is_string(), "{held}");
    let answer = site.json(&["job", "cancel", &leased]);
    assert!(answer[0]["result"].as_str().unwrap().contains("a worker may be running it"), "{answer}");
    assert_eq!(site.state(&leased), "cancelled");
    assert_eq!(site.run(&["job", "cancel", &leased]).code, 4);
}

#[tokio::test]
async fn jobs_are_listed_by_queue_state_and_kind() {
    let site = Site::new().await;
    for (queue, kind, delay) in [("a", "x", "0s"), ("a", "y", "1h"), ("b", "x", "0s")] {
        site.json(&["enqueue", queue, kind, "1", "--delay", delay]);
    }
    let count = |args: &[&str]| site.json(&[&["job", "ls"], args].concat()).as_array().unwrap().len();
    assert_eq!(count(&[]), 3);
    assert_eq!(count(&["--limit", "2"]), 2);
    assert_eq!(count(&["--queue", "a"]), 2);
    assert_eq!(count(&["--state", "scheduled"]), 1);
    assert_eq!(count(&["--kind", "x", "--queue", "b"]), 1);
    assert_eq!(count(&["--queue", "nowhere"]), 0);
}

#[tokio::test]
async fn a_job_that_is_not_there_is_exit_code_4() {
    let site = Site::new().await;
    let ran = site.run(&["job", "show", "12345"]);
    assert_eq!(ran.code, 4);
    assert!(
        ran.stderr.starts_with("error: there is no job 12345") && ran.stdout.is_empty(),
        "{}",
        ran.stderr
    );
    assert_eq!(site.run(&["job", "cancel", "12345"]).code, 4);
}
