//! A job that kills whoever runs it, and those that run beside it.

use super::Site;
use std::collections::BTreeMap;

/// The innocent run for longer than the poison needs, so that whatever runs beside it goes with it. Every worker has room for all of them.
#[tokio::test]
async fn a_job_that_kills_its_workers_takes_no_other_along() {
    const INNOCENT: usize = 20;
    let site = Site::new().await;
    let mut payloads = vec!["\"innocent\""; INNOCENT];
    payloads.insert(7, "\"poison\"");
    let enqueue = ["enqueue", "q", "k", "--file", "-", "--max-attempts", "3"];
    let ran = site.run_with_input(&enqueue, payloads.join("\n").as_bytes());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let script = r#"read what; [ "$what" = '"poison"' ] && kill -9 $PPID; sleep 0.3"#;
    let work = ["work", "--queue", "q", "--concurrency", "50", "--lease", "1s", "--until-empty"];
    let mut deaths = 0;
    while site.run(&[&work[..], &["--exec", "sh", "--", "-c", script]].concat()).code != 0 {
        deaths += 1;
        assert!(deaths < 10, "they die for ever");
    }
    let mut ended = BTreeMap::<(String, String), usize>::new();
    for job in site.json(&["job", "ls", "--limit", "100"]).as_array().unwrap() {
        let shown = site.json(&["job", "show", &job["id"].to_string()]);
        *ended.entry((shown["payload"].to_string(), shown["state"].to_string())).or_default() += 1;
    }
    let wanted = [("\"innocent\"", "\"done\"", INNOCENT), ("\"poison\"", "\"dead\"", 1)];
    let wanted = wanted.map(|(payload, state, n)| ((payload.to_owned(), state.to_owned()), n));
    assert_eq!(ended, BTreeMap::from(wanted));
    assert_eq!(deaths, 3, "as many as it had attempts");
}
