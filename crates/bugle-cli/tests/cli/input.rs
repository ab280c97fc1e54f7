//! Bad input: a clear sentence, exit code 1, and nothing written.

use super::{Ran, Site, bugle};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// What the message must say of each.
const CASES: &[(&[&str], &str)] = &[
    (&["enqueue", "q", "k", "{oops"], "is no JSON"),
    (&["enqueue", "q", "k", ""], "is no JSON"),
    (&["enqueue", "q", "k", "\"a\\u0000b\""], "\\u0000"),
    (&["enqueue", "", "k", "1"], "queue name is empty"),
    (&["enqueue", "a\nb", "k", "1"], "control character"),
    (&["enqueue", "q", "k", "1", "--key", ""], "key is empty"),
    (&["enqueue", "q", "k", "1", "--max-attempts", "-1"], "-1"),
    (&["enqueue", "q", "k", "1", "--max-attempts", "0"], "1..=1000"),
    (&["enqueue", "q", "k", "1", "--max-attempts", "70000"], "1..=1000"),
    (&["enqueue", "q", "k", "1", "--delay", "-5s"], "no length of time"),
    (&["enqueue", "q", "k", "1", "--delay", "soon"], "500ms"),
    (&["enqueue", "q", "k", "1", "--delay", "1s", "--due-at", "2100-01-01T00:00:00Z"], "cannot be used with"),
    (&["enqueue", "q", "k", "1", "--due-at", "tomorrow"], "2030-01-31T09:00:00Z"),
    (&["enqueue", "q", "k", "1", "--priority", "top"], "urgent, high, normal, low"),
    (&["enqueue", "q", "k", "1", "--colour", "red"], "--colour"),
    (&["enqueue", "q", "k", "1", "--schema", "Bad-Name"], "schema name"),
    (&["enqueue", "q", "k", "1", "--namespace", "nobody"], "namespace \"nobody\" does not exist"),
    (&["enqueue", "q", "k", "--file", "/no/such/file"], "/no/such/file"),
    (&["enqueue", "q"], "<KIND>"),
    (&["job", "ls", "--limit", "-3"], "-3"),
    (&["job", "ls", "--state", "lost"], "scheduled, ready, leased"),
    (&["job", "show", "-7"], "-7"),
    (&["job", "show", "seven"], "job id"),
    (&["job", "retry"], "<ID>"),
    (&["work", "--queue", "q", "--exec", "/no/such/program"], "/no/such/program"),
    (&["work", "--queue", "q", "--concurrency", "0", "--exec", "true"], "1..=1000"),
    (&["work", "--queue", "q", "--lease", "1ms", "--until-empty", "--exec", "true"], "lease is 1ms"),
    (&["work", "--queue", "q"], "--exec"),
    (&["work", "--queue", "q", "--exec", "sleep", "30"], "go after --: --exec sleep -- 30"),
    (&["work", "--queue", "q", "--exec", "sleep 30"], "its arguments go after --"),
    (&["work", "--queue", "q", "--exec", "sh", "-c", "true"], "use '-- -c'"),
    (&["work", "--queue", "q", "--exec", "true", "--retry", "often"], "table:0s,30s,5m"),
    (&["work", "--queue", "q", "--exec", "true", "--retry", "table:30s"], "begin with 0s"),
    (&["queue", "ls", "--database-url", "http://db/app"], "does not begin with postgres://"),
    (&["demo", "--rate", "-1"], "-1"),
    (&["frobnicate"], "frobnicate"),
    (&[], "Usage"),
];

#[tokio::test]
async fn bad_input_is_refused_with_a_sentence_and_nothing_is_written() {
    let site = Site::new().await;
    site.run(&["migrate", "up"]);
    for (args, part) in CASES {
        let ran = site.run(args);
        assert_eq!(ran.code, 1, "{args:?}: {} {}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains(part), "{args:?} does not say {part:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty(), "{args:?}: {}", ran.stdout);
    }
    assert_eq!(site.json(&["queue", "ls"]), serde_json::json!([]), "a queue was made");
}

#[tokio::test]
async fn names_and_payloads_are_measured_in_bytes() {
    let site = Site::new().await;
    let name = "é".repeat(128);
    for args in [["enqueue", &name, "k", "1"], ["enqueue", "q", &name, "1"]] {
        let ran = site.run(&args);
        assert_eq!(ran.code, 1);
        assert!(ran.stderr.contains("256 bytes long, over the limit of 255"), "{}", ran.stderr);
    }
    let ran = site.run(&["enqueue", "q", "k", "1", "--key", &name]);
    assert_eq!((ran.code, ran.stderr.contains("256 bytes")), (1, true), "{}", ran.stderr);
    let long = format!("\"{}\"", "é".repeat(131_072));
    let ran = site.run_with_input(&["enqueue", "q", "k", "-"], long.as_bytes());
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("payload is 262146 bytes long, over the limit of 262144"), "{}", ran.stderr);
    assert_eq!(site.json(&["queue", "ls"]), serde_json::json!([]));
}

#[tokio::test]
async fn bytes_that_are_no_text_are_refused() {
    let site = Site::new().await;
    let mut command = site.command(&["enqueue", "q", "k"]);
    command.arg(OsStr::from_bytes(b"\"\xff\""));
    let ran = Ran::of(command);
    assert_eq!((ran.code, ran.stderr.contains("UTF-8")), (1, true), "{}", ran.stderr);
    let ran = site.run_with_input(&["enqueue", "q", "k", "-"], b"\"\xff\"");
    assert_eq!((ran.code, ran.stderr.contains("UTF-8")), (1, true), "{}", ran.stderr);
    let ran = site.run_with_input(&["enqueue", "q", "k", "--file", "-"], b"1\n\"\xff\"\n");
    assert_eq!((ran.code, ran.stderr.contains("line 2")), (1, true), "{}", ran.stderr);
    assert_eq!(site.json(&["queue", "ls"]), serde_json::json!([]));
}

#[test]
fn every_help_text_has_an_example_or_is_short() {
    for args in [
        &["--help"][..],
        &["demo", "--help"],
        &["enqueue", "--help"],
        &["work", "--help"],
        &["job", "ls", "--help"],
        &["job", "retry", "--help"],
        &["job", "cancel", "--help"],
        &["doctor", "--help"],
        &["completions", "--help"],
    ] {
        let mut command = bugle();
        command.args(args);
        let ran = Ran::of(command);
        assert_eq!(ran.code, 0);
        assert!(ran.stdout.contains("Example"), "{args:?}");
    }
}
