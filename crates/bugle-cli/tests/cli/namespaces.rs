//! Namespaces from the command line.

use super::Site;

#[tokio::test]
async fn jobs_of_one_namespace_are_not_seen_in_another() {
    let site = Site::new().await;
    let made = site.json(&["namespace", "create", "staging"]);
    assert_eq!(made["created"], true);
    assert_eq!(site.run(&["namespace", "create", "staging"]).code, 4, "it was there already");
    assert_eq!(site.json(&["namespace", "ls"]), serde_json::json!(["default", "staging"]));
    let id = site.json(&["--namespace", "staging", "enqueue", "q", "k", "1"])["id"].to_string();
    assert_eq!(site.run(&["job", "show", &id]).code, 4);
    assert_eq!(site.run(&["job", "cancel", &id]).code, 4);
    assert_eq!(site.json(&["--namespace", "staging", "job", "show", &id])["state"], "ready");
}

#[tokio::test]
async fn a_namespace_that_does_not_exist_is_refused() {
    let site = Site::new().await;
    let ran = site.run(&["--namespace", "typo", "queue", "ls"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.stderr.contains("\"typo\" does not exist") && ran.stderr.contains("namespace create"),
        "{}",
        ran.stderr
    );
}
