//! `bugle flow export` and `import`: runs from one database into another.

use super::Site;
use super::flow::{APPROVAL, Crew, defined, refused, start, states};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_moved_and_go_on() {
    let (here, there) = (defined(APPROVAL).await, Site::new().await);
    let (first, second) = (start(&here, &["approval", "--key", "k"]), start(&here, &["approval"]));
    let of_one = here.run(&["flow", "export", &second]);
    assert_eq!(of_one.code, 0, "{}", of_one.stderr);
    assert!(of_one.stdout.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.jsonl");
    let all = here.run(&["flow", "export", "--all"]);
    std::fs::write(&file, &all.stdout).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(
        there.json(&["flow", "import", file]),
        json!({ "runs": 2, "skipped": 0, "definitions": 1, "signals": 0, "released": 0 })
    );
    assert_eq!(states(&there, &first), "ask=waiting a=pending");
    assert_eq!(start(&there, &["approval", "--key", "k"]), first, "the same key, the same run");
    refused(
        &there,
        &["flow", "import", file],
        1,
        &["line 3", &format!("run {first} is in this database already"), "--skip-existing"],
    );
    let again = there
        .run_with_input(&["flow", "import", "-", "--skip-existing", "-o", "table"], of_one.stdout.as_bytes());
    assert_eq!(again.stdout, "imported 0 runs and 0 definitions; 1 runs were there already\n");

    let said = there.json(&["doctor", "--deep"]);
    let unwell = said.as_array().unwrap().iter().filter(|finding| finding["level"] == "fail").count();
    assert_eq!(unwell, 0, "{said}");
    let crew = Crew::new(&there).await;
    there.json(&["flow", "signal", &format!("ok:{first}"), "true"]);
    assert_eq!(there.run(&["flow", "wait", &first]).code, 0);
    crew.stop().await;
    assert_eq!(states(&here, &first), "ask=waiting a=pending", "it stays where it was");
}

#[tokio::test]
async fn what_cannot_be_moved_is_refused() {
    let site = defined(APPROVAL).await;
    let run = start(&site, &["approval"]);
    refused(&site, &["flow", "export", "4711"], 4, &["there is no run 4711 in namespace default"]);
    refused(&site, &["flow", "export"], 1, &["RUN", "--all"]);
    refused(&site, &["flow", "export", &run, "--all"], 1, &["cannot be used with"]);
    refused(&site, &["flow", "import", "/nowhere/at-all"], 1, &["/nowhere/at-all cannot be read"]);
    let text = site.run(&["flow", "export", &run]).stdout;
    let there = Site::new().await;
    let cut = text.split_inclusive('\n').take(4).collect::<String>();
    for (file, fault) in [
        (cut.as_str(), "line 5: the file ends before its end; the file was cut off"),
        ("hello\n", "line 1: the file begins with \"hello\"; import what `bugle flow export` wrote"),
    ] {
        let ran = there.run_with_input(&["flow", "import", "-"], file.as_bytes());
        assert_eq!(ran.code, 1, "{}", ran.stderr);
        assert!(ran.stderr.contains(fault), "{}", ran.stderr);
        assert!(ran.stderr.trim_end().ends_with("no run was imported"), "{}", ran.stderr);
    }
    assert_eq!(there.json(&["flow", "ls"]), json!([]));
}
