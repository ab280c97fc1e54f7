//! Dead jobs: shown, made ready again, deleted.

use super::Site;
use serde_json::json;

/// Four dead jobs: three of kind a in queue `q` (one with another error) and one of kind b in `other`.
async fn graveyard() -> Site {
    let site = Site::new().await;
    for (queue, kind, payload) in [("q", "a", "65"), ("q", "a", "65"), ("q", "a", "3"), ("other", "b", "65")]
    {
        site.json(&["enqueue", queue, kind, payload, "--max-attempts", "1"]);
    }
    for queue in ["q", "other"] {
        let script = "read n; echo it is $n >&2; exit $n";
        let ran = site.run(&["work", "--queue", queue, "--until-empty", "--exec", "sh", "--", "-c", script]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    site
}

fn dead(site: &Site) -> usize {
    site.json(&["dead", "ls"]).as_array().unwrap().len()
}

#[tokio::test]
async fn dead_jobs_are_listed_with_their_errors() {
    let site = graveyard().await;
    let count = |args: &[&str]| site.json(&[&["dead", "ls"], args].concat()).as_array().unwrap().len();
    assert_eq!(count(&[]), 4);
    assert_eq!(count(&["--queue", "q"]), 3);
    assert_eq!(count(&["--kind", "b"]), 1);
    assert_eq!(count(&["--code", "exit_65"]), 3);
    assert_eq!(count(&["--older-than", "1h"]), 0);
    assert_eq!(count(&["--limit", "1"]), 1);
    let row = &site.json(&["dead", "ls", "--code", "exit_3"])[0];
    assert_eq!(
        (&row["message"], &row["queue"], &row["attempt"]),
        (&json!("it is 3"), &json!("q"), &json!(1))
    );
    let table = site.run(&["dead", "ls", "-o", "table"]).stdout;
    assert!(table.contains("ERROR") && table.contains("it is 65"), "{table}");
}

#[tokio::test]
async fn a_redrive_shows_what_it_would_do_and_does_it_when_told() {
    let site = graveyard().await;
    let preview = site.json(&["dead", "redrive", "--queue", "q"]);
    assert_eq!((&preview["done"], &preview["jobs"]), (&json!(false), &json!(3)));
    let groups: Vec<_> = preview["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|g| (g["code"].clone(), g["jobs"].clone()))
        .collect();
    assert_eq!(groups, [(json!("exit_65"), json!(2)), (json!("exit_3"), json!(1))]);
    assert_eq!(dead(&site), 4, "nothing was done");
    let table = site.run(&["dead", "redrive", "--queue", "q", "-o", "table"]).stdout;
    assert!(table.contains("3 would be redriven: add --yes"), "{table}");

    let done = site.json(&["dead", "redrive", "--queue", "q", "--code", "exit_65", "--yes"]);
    assert_eq!((&done["done"], &done["jobs"]), (&json!(true), &json!(2)));
    assert_eq!(site.json(&["job", "ls", "--state", "ready"]).as_array().unwrap().len(), 2);
    let again = site.run(&["dead", "redrive", "--queue", "q", "--code", "exit_65", "--yes"]);
    assert_eq!(again.code, 4, "{}", again.stdout);
    assert_eq!(dead(&site), 2);
}

#[tokio::test]
async fn a_purge_shows_what_it_would_do_and_does_it_when_told() {
    let site = graveyard().await;
    assert_eq!(site.json(&["dead", "purge"])["jobs"], json!(4));
    assert_eq!(dead(&site), 4, "nothing was done");
    let told = site.run(&["dead", "purge", "--kind", "a", "--yes", "-o", "table"]);
    assert_eq!((told.code, told.stdout.as_str()), (0, "3 purged\n"));
    assert_eq!(dead(&site), 1);
    let nothing = site.run(&["dead", "purge", "--kind", "a", "--older-than", "1d", "-o", "table"]);
    assert_eq!(nothing.code, 4);
    let said = "nothing to purge: there are no dead jobs of kind a that died at least 24h ago\n";
    assert_eq!(nothing.stdout, said);
    let healthy = site.run(&["doctor", "--deep"]);
    assert!(healthy.stdout.contains("they agree with the rows"), "{}", healthy.stdout);
}

#[tokio::test]
async fn a_bad_filter_is_named() {
    let site = Site::new().await;
    let ran = site.run(&["dead", "purge", "--older-than", "5"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("no length of time"), "{}", ran.stderr);
}
