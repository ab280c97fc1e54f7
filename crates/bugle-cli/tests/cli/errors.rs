//! What goes wrong on the way, exit codes, and who reads the answer.

use super::{Ran, Site, bugle};
use serde_json::Value;
use std::process::Stdio;

fn run(args: &[&str]) -> Ran {
    let mut command = bugle();
    command.args(args);
    Ran::of(command)
}

#[test]
fn a_database_that_is_not_there_is_exit_code_2_at_once() {
    let begun = std::time::Instant::now();
    let ran = run(&["queue", "ls", "--database-url", "postgres://nobody@127.0.0.1:1/none"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.starts_with("error: no connection to the database"), "{}", ran.stderr);
    assert!(begun.elapsed().as_secs() < 25, "not as long as a pool waits by itself");
    let ran =
        run(&["queue", "ls", "--output", "json", "--database-url", "postgres://nobody@127.0.0.1:1/none"]);
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!((error["outcome"].as_str(), error["exit_code"].as_i64()), (Some("refused"), Some(2)));
}

#[tokio::test]
async fn a_wrong_password_is_exit_code_3() {
    let site = Site::new().await;
    let (head, tail) = site.db.url().split_once('@').unwrap();
    let user = head.rsplit_once(':').unwrap().0;
    let ran = run(&["queue", "ls", "--database-url", &format!("{user}:wrong@{tail}")]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("password authentication failed"), "{}", ran.stderr);
}

#[tokio::test]
async fn a_node_that_may_not_migrate_is_told_what_to_do() {
    let site = Site::new().await;
    let ran = site.run(&["queue", "ls", "--no-migrate"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("bugle migrate up"), "{}", ran.stderr);
}

#[test]
fn bad_arguments_are_json_when_json_was_asked_for() {
    let ran = run(&["enqueue", "--output", "json"]);
    assert_eq!(ran.code, 1);
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert!(error["error"].as_str().unwrap().contains("<QUEUE>"), "{error}");
    assert_eq!(error["outcome"], "refused");
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_error() {
    let site = Site::new().await;
    site.enqueue("q", "1");
    let mut command = site.command(&["job", "ls"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(141));
    assert!(ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn completions_and_version_need_no_database() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = run(&["completions", shell]);
        assert_eq!(ran.code, 0);
        assert!(ran.stdout.contains("doctor") && !ran.stdout.is_empty(), "{shell}");
    }
    assert!(run(&["--version"]).stdout.starts_with("bugle "));
}
