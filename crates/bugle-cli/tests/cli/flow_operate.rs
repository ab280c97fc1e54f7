//! Operating workflows: steps mended by hand, runs paused, resumed and cancelled.

use super::Ran;
use super::eventually;
use super::flow::{Crew, DIAMOND, defined, refused, start, states};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn steps_are_mended_by_hand() {
    let site = defined(DIAMOND).await;
    let crew = Crew::new(&site).await;
    let run = start(&site, &["order", "--input", "{\"fail\": \"b\"}"]);
    assert_eq!(site.run(&["flow", "wait", &run]).code, 5);
    let flow = |args: &[&str]| site.json(&[&["flow"], args].concat());
    assert_eq!(
        flow(&["retry", &run, "b", "--reason", "again"]),
        json!({ "run": run.parse::<i64>().unwrap(), "step": "b", "was": "failed" })
    );
    eventually("it has failed again", || states(&site, &run) == "a=succeeded b=failed c=succeeded d=skipped");
    refused(
        &site,
        &["flow", "retry", &run, "c"],
        1,
        &["step \"c\" of run", "is succeeded", "restart from it"],
    );
    refused(&site, &["flow", "retry", &run, "x"], 4, &["has no step \"x\"", "Its steps are a, b, c, d"]);
    refused(&site, &["flow", "retry", &run, "b", "--element", "3"], 4, &["with an element 3"]);
    refused(&site, &["flow", "skip", "4711", "b"], 4, &["there is no run 4711"]);
    refused(&site, &["flow", "resolve", &run, "b", "--result", "nothing"], 1, &["result is no JSON"]);
    refused(&site, &["flow", "resolve", &run, "c", "--result", "1"], 1, &["is succeeded already"]);

    let said = site.run(&[
        "flow",
        "resolve",
        &run,
        "b",
        "--result",
        "{\"paid\": 7}",
        "-o",
        "table",
        "--actor",
        "Ann",
    ]);
    assert_eq!(said.stdout, format!("step b of run {run} was failed and has succeeded by hand\n"));
    assert_eq!(site.run(&["flow", "wait", &run]).code, 0);
    assert_eq!(states(&site, &run), "a=succeeded b=succeeded c=succeeded d=succeeded");
    refused(&site, &["flow", "skip", &run, "a"], 1, &["is succeeded already"]);
    assert_eq!(flow(&["restart", &run, "--from", "b"])["steps"], 2);
    eventually("b has failed again", || states(&site, &run) == "a=succeeded b=failed c=succeeded d=skipped");
    flow(&["skip", &run, "b", "--reason", "enough"]);
    assert_eq!(site.run(&["flow", "wait", &run]).code, 0);
    let events = flow(&["show", &run, "--events"])["events"].clone();
    let by = |cause: &str| {
        let event = events.as_array().unwrap().iter().find(|event| event["cause"] == cause).unwrap();
        (event["actor"].as_str().unwrap().to_owned(), event["why"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(by("resolve").0, "Ann");
    assert_eq!(by("skip").1, "enough");
    crew.stop().await;

    let mut as_bob = site.command(&["flow", "cancel", &start(&site, &["order"])]);
    as_bob.env("USER", "bob");
    let cancelled: Value = serde_json::from_str(&Ran::of(as_bob).stdout).unwrap();
    let events = flow(&["show", &cancelled[0]["id"].to_string(), "--events"])["events"].clone();
    assert_eq!(events.as_array().unwrap().last().unwrap()["actor"], "bob", "whoever types it");
}

#[tokio::test]
async fn runs_are_paused_resumed_and_cancelled() {
    let site = defined(DIAMOND).await;
    let run = start(&site, &["order"]);
    let change = |verb: &str, code: i32, result: &str| {
        let ran = site.run(&["flow", verb, &run]);
        assert_eq!(ran.code, code, "{verb}: {}", ran.stderr);
        let said: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert!(said[0]["result"].as_str().unwrap().contains(result), "{verb}: {said}");
    };
    change("resume", 4, "it is not paused");
    change("pause", 0, "paused");
    change("pause", 4, "it is paused already");
    assert_eq!(site.json(&["flow", "ls"])[0]["paused"], true);
    let why = site.run(&["flow", "why", &run, "-o", "table"]).stdout;
    assert!(why.contains("queued and paused") && why.contains("held back: the run is paused"), "{why}");
    change("resume", 0, "goes on");
    change("cancel", 0, "cancelled");
    change("cancel", 4, "it has ended already");
    change("pause", 4, "it has ended already");
    let ran = site.run(&["flow", "cancel", "4711", "-o", "table"]);
    assert!(ran.code == 4 && ran.stdout.contains("no such run"), "{}", ran.stdout);
}
