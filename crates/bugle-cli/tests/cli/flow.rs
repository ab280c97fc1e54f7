//! `bugle flow`: workflows from the command line. Whoever runs the steps is a program of its own, as everywhere.

use super::{Ran, Site};
use bugle::flow::Step;
use bugle::{Bugle, Verdict};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(super) const DIAMOND: &str = "
name: order
description: from the shelf to the door
steps:
  - { name: a, retry: { attempts: 2, backoff: [0s] } }
  - { name: b, after: a, retry: { attempts: 2, backoff: [0s] } }
  - { name: c, after: a, retry: { attempts: 2, backoff: [0s] } }
  - { name: d, after: [b, c] }
";

pub(super) const APPROVAL: &str = "
name: approval
steps:
  - { name: ask, signal: { key: \"ok:{run}\" } }
  - { name: a, after: ask }
";

/// A site with a definition, given as YAML on standard input.
pub(super) async fn defined(text: &str) -> Site {
    let site = Site::new().await;
    let ran = site.run_with_input(&["flow", "define", "-"], text.as_bytes());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    site
}

/// A program that runs steps: each succeeds with its name, unless the input says that it is to fail.
pub(super) struct Crew {
    bugle: Bugle,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Crew {
    pub(super) async fn new(site: &Site) -> Self {
        let (bugle, stop) = (site.db.bugle().await.unwrap(), CancellationToken::new());
        let flow = bugle.flow();
        let mut worker = flow.worker("steps");
        for name in ["a", "b", "c", "d"] {
            worker = worker.handle(name, |step: Step| async move {
                let input: Value = step.input().unwrap();
                if input["fail"] == step.name.as_str() {
                    Verdict::fail("unreachable", "no route to host")
                } else {
                    Verdict::done_with(&json!({ "by": step.name }))
                }
            });
        }
        let tasks = vec![
            tokio::spawn({
                let stop = stop.clone();
                async move { worker.run(stop).await.unwrap() }
            }),
            tokio::spawn({
                let stop = stop.clone();
                async move { flow.run_engine(stop).await.unwrap() }
            }),
        ];
        Self { bugle, stop, tasks }
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        for task in self.tasks {
            task.await.unwrap();
        }
        drop(self.bugle);
    }
}

pub(super) fn start(site: &Site, args: &[&str]) -> String {
    site.json(&[&["flow", "start"], args].concat())["id"].to_string()
}

/// Runs what must be refused, with this code and these words.
pub(super) fn refused(site: &Site, args: &[&str], code: i32, parts: &[&str]) {
    says(&site.run(args), code, parts);
}

pub(super) fn says(ran: &Ran, code: i32, parts: &[&str]) {
    assert_eq!(ran.code, code, "{} {}", ran.stdout, ran.stderr);
    for part in parts {
        assert!(ran.stderr.contains(part), "no {part:?} in: {}", ran.stderr);
    }
}

/// The states of the steps, as `a=succeeded b=ready`.
pub(super) fn states(site: &Site, run: &str) -> String {
    let shown = site.json(&["flow", "show", run]);
    let say =
        |step: &Value| format!("{}={}", step["name"].as_str().unwrap(), step["state"].as_str().unwrap());
    shown["steps"].as_array().unwrap().iter().map(say).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn definitions_are_defined_listed_and_shown() {
    let site = Site::new().await;
    let define = |text: &str| site.run_with_input(&["flow", "define", "-", "--json"], text.as_bytes());
    let said: Value = serde_json::from_str(&define(DIAMOND).stdout).unwrap();
    assert_eq!(said, json!({ "name": "order", "version": 1, "is_new": true, "steps": 4 }));
    let said: Value = serde_json::from_str(&define(DIAMOND).stdout).unwrap();
    assert_eq!((&said["version"], &said["is_new"]), (&json!(1), &json!(false)));
    define(&DIAMOND.replace("name: c,", "name: see,").replace("[b, c]", "[b, see]"));
    let checked = site.run_with_input(&["flow", "define", "-", "--check", "-o", "table"], DIAMOND.as_bytes());
    assert!(
        checked.stdout.starts_with("order is well; nothing was written\n\n●    a\n├─●  b\n"),
        "{}",
        checked.stdout
    );
    let bad = DIAMOND.replace("name: b, after: a,", "name: b, after: aa,").replace("0s", "0x");
    says(&define(&bad), 1, &["standard input is no definition", "line 6", "did you mean", "0x"]);
    let other = "{ \"name\": \"order\", \"version\": 1, \"steps\": [{ \"name\": \"a\" }] }";
    says(&define(other), 1, &["has a version 1 already, and it is another one", "Leave the version out"]);
    refused(&site, &["flow", "define", "nowhere.yaml"], 1, &["nowhere.yaml cannot be read"]);
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    std::fs::write(file.path(), "{ \"name\": \"mail\", \"steps\": [{ \"name\": \"a\" }] }").unwrap();
    let said = site.json(&["flow", "define", file.path().to_str().unwrap()]);
    assert_eq!(said["name"], "mail");

    let rows = site.json(&["flow", "defs"]);
    let said: Vec<_> =
        rows.as_array().unwrap().iter().map(|row| format!("{} {}", row["name"], row["version"])).collect();
    assert_eq!(said, ["\"mail\" 1", "\"order\" 2", "\"order\" 1"]);
    let shown = site.json(&["flow", "defs", "order", "--version", "1"]);
    assert_eq!((&shown["versions"], &shown["definition"]["steps"][3]["name"]), (&json!([2, 1]), &json!("d")));
    let table = site.run(&["flow", "defs", "order", "-o", "table"]).stdout;
    assert!(
        table.contains("from the shelf to the door") && table.contains("order, version 2\n●    a\n"),
        "{table}"
    );
    let yaml = site.run(&["flow", "defs", "order", "--version", "1", "--yaml"]).stdout;
    let said: Value = serde_json::from_str(&define(&yaml).stdout).unwrap();
    assert_eq!((&said["version"], &said["is_new"]), (&json!(1), &json!(false)), "{yaml}");
    refused(&site, &["flow", "defs", "order", "--version", "7"], 4, &["has no version 7; there are 1 to 2"]);
    refused(&site, &["flow", "defs", "nobody"], 4, &["there is no definition \"nobody\""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_started_and_waited_for() {
    let site = defined(DIAMOND).await;
    let crew = Crew::new(&site).await;
    let end = site.json(&["flow", "start", "order", "--wait", "--timeout", "60s"]);
    assert_eq!((&end["state"], &end["outputs"]), (&json!("succeeded"), &json!({ "d": { "by": "d" } })));
    let said = site.run(&["flow", "wait", &end["id"].to_string(), "-o", "table"]);
    assert!(said.code == 0 && said.stdout.contains("succeeded after"), "{}", said.stdout);

    let failing = ["flow", "start", "order", "--input", "{\"fail\": \"b\"}", "--wait", "--timeout", "60s"];
    let ran = site.run(&failing);
    let end: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &end["state"]), (5, &json!("failed")));
    let error = json!({ "step": "b", "element": 0, "code": "unreachable", "message": "no route to host" });
    assert_eq!(end["error"], error);
    let said = site.run(&["flow", "wait", &end["id"].to_string(), "-o", "table"]);
    assert!(
        said.code == 5
            && said.stdout.contains("step b: unreachable: no route to host; see more with `bugle flow dead"),
        "{}",
        said.stdout
    );
    crew.stop().await;

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[7]").unwrap();
    let input = format!("@{}", file.path().display());
    let first = start(&site, &["order", "--key", "k", "--input", &input, "--tags", "{\"shop\": \"north\"}"]);
    assert_eq!(start(&site, &["order", "--key", "k"]), first, "the same key, the same run");
    let shown = site.json(&["flow", "show", &first]);
    assert_eq!(
        (&shown["input"], &shown["tags"]["shop"], &shown["key"]),
        (&json!([7]), &json!("north"), &json!("k"))
    );
    let ran = site.run(&["flow", "start", "order", "--key", "k", "--wait", "--timeout", "10ms"]);
    assert_eq!((ran.code, ran.stdout.trim()), (7, format!("{{\"id\":{first},\"state\":null}}").as_str()));
    site.json(&["flow", "cancel", &first]);
    assert_eq!(site.run(&["flow", "wait", &first]).code, 6);

    refused(
        &site,
        &["flow", "start", "nobody"],
        4,
        &["definition \"nobody\" does not exist", "bugle flow defs"],
    );
    refused(&site, &["flow", "start", "order", "--version", "9"], 4, &["definition \"order\" version 9"]);
    refused(&site, &["flow", "start", "order", "--input", "{"], 1, &["input is no JSON"]);
    refused(
        &site,
        &["flow", "start", "order", "--input", "@nowhere"],
        1,
        &["input cannot be read from nowhere"],
    );
    refused(&site, &["flow", "wait", "4711"], 4, &["there is no run 4711 in namespace default"]);
    refused(&site, &["flow", "wait", "x"], 1, &["number of a run is \"x\""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diamond_is_shown_drawn_now_and_as_it_was() {
    let site = defined(DIAMOND).await;
    let run = start(&site, &["order", "--input", "{\"fail\": \"c\"}", "--actor", "Ada"]);
    let begun = site.json(&["flow", "show", &run, "--events"]);
    let created = begun["created_at"].as_str().unwrap().to_owned();
    let crew = Crew::new(&site).await;
    assert_eq!(site.run(&["flow", "wait", &run]).code, 5);
    crew.stop().await;
    let text = site.run(&["flow", "show", &run, "-o", "table"]).stdout;
    let drawing = "
●    a  ✓ succeeded
├─●  b  ✓ succeeded
● │  c  ✗ failed
○─┘  d  - skipped
";
    assert!(text.contains(drawing), "{text}");
    assert!(text.contains("state     failed") && text.contains("of        order, version 1"), "{text}");
    let line = text.lines().find(|line| line.starts_with("c  ")).unwrap();
    assert!(line.contains("attempt 2 of 2, unreachable: no route to host"), "{line}");

    let then = site.run(&["flow", "show", &run, "--at", &created, "-o", "table"]).stdout;
    assert!(then.contains("●    a  > ready\n├─●  b  · pending\n"), "{then}");
    assert!(then.contains("state     queued\nas of"), "{then}");
    refused(&site, &["flow", "show", &run, "--at", "1h"], 4, &["was started at", "ask for a later time"]);
    refused(&site, &["flow", "show", &run, "--at", "soon"], 1, &["\"soon\" is no moment"]);
    refused(&site, &["flow", "show", "4711"], 4, &["there is no run 4711"]);
    refused(&site, &["flow", "show", "4711", "--at", "1s"], 4, &["there is no run 4711"]);

    let shown = site.json(&["flow", "show", &run, "--events"]);
    let events = shown["events"].as_array().unwrap();
    assert_eq!((&events[0]["cause"], &events[0]["actor"]), (&json!("start"), &json!("Ada")));
    assert_eq!(events.last().unwrap()["to_state"], "failed");
    let text = site.run(&["flow", "show", &run, "--events", "-o", "table"]).stdout;
    assert!(text.contains("running → failed"), "{text}");
    let past = site.json(&["flow", "show", &run, "--events", "--at", &created]);
    assert_eq!((past["events"].as_array().unwrap().len(), &past["state"]), (5, &json!("queued")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_says_what_it_waits_for_and_is_told_by_a_signal() {
    let site = defined(APPROVAL).await;
    let run = start(&site, &["approval", "--input", "{}"]);
    let why = site.json(&["flow", "why", &run]);
    assert_eq!(
        (&why["waits"][0]["reason"], &why["waits"][0]["key"]),
        (&json!("signal"), &json!(format!("ok:{run}")))
    );
    assert_eq!((&why["waits"][1]["reason"], &why["engine_seen"]), (&json!("parents"), &json!(false)));
    let text = site.run(&["flow", "why", &run, "-o", "table"]).stdout;
    for part in [
        "2 steps have not ended",
        "nobody is seen who ends sleeps",
        &format!("`bugle flow signal ok:{run} PAYLOAD` sends it"),
        "a    waits for ask (waiting)",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let crew = Crew::new(&site).await;
    assert_eq!(
        site.json(&["flow", "signal", &format!("ok:{run}"), "{\"by\": \"Ada\"}", "--actor", "Ada"])["sent"],
        true
    );
    assert_eq!(site.run(&["flow", "wait", &run, "--timeout", "60s"]).code, 0);
    let shown = site.json(&["flow", "show", &run]);
    assert_eq!(
        (&shown["steps"][0]["output"], &shown["steps"][0]["worker"]),
        (&json!({ "by": "Ada" }), &json!("Ada"))
    );
    let text = site.run(&["flow", "why", &run, "-o", "table"]).stdout;
    assert!(text.contains("succeeded") && text.contains("nothing waits"), "{text}");
    refused(&site, &["flow", "why", "4711"], 4, &["there is no run 4711"]);
    refused(&site, &["flow", "signal", "k", "{"], 1, &["payload is no JSON"]);
    refused(&site, &["flow", "signal", "", "1"], 1, &["key is 0 bytes long"]);
    crew.stop().await;
}

#[tokio::test]
async fn a_step_that_nobody_takes_says_so() {
    let site = defined(DIAMOND).await;
    let run = start(&site, &["order"]);
    let why = site.json(&["flow", "why", &run]);
    assert_eq!(
        (&why["waits"][0]["reason"], &why["waits"][0]["queue"]),
        (&json!("no_worker"), &json!("steps"))
    );
    assert!(
        why["waits"][0]["why"].as_str().unwrap().contains("nobody is seen who works on queue steps"),
        "{why}"
    );
    assert_eq!(why["waits"][3]["missing"][0], json!({ "step": "b", "state": "pending", "on": "success" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_runs_are_listed_and_shown_with_what_they_had() {
    let site = defined(DIAMOND).await;
    assert_eq!(site.json(&["flow", "dead"]), json!([]));
    let crew = Crew::new(&site).await;
    let runs: Vec<String> = ["b", "a"]
        .iter()
        .map(|step| {
            let run = start(&site, &["order", "--input", &format!("{{\"fail\": \"{step}\"}}")]);
            assert_eq!(site.run(&["flow", "wait", &run]).code, 5);
            run
        })
        .collect();
    crew.stop().await;
    let dead = site.json(&["flow", "dead", "--definition", "order"]);
    let said: Vec<_> = dead
        .as_array()
        .unwrap()
        .iter()
        .map(|run| (run["id"].to_string(), run["step"].as_str().unwrap()))
        .collect();
    assert_eq!(said, [(runs[1].clone(), "a"), (runs[0].clone(), "b")]);
    assert_eq!((&dead[1]["code"], &dead[1]["attempt"]), (&json!("unreachable"), &json!(2)));
    let next = site.json(&["flow", "dead", "--after", dead[0]["mark"].as_str().unwrap()]);
    assert_eq!(next[0]["id"].to_string(), runs[0]);
    let table = site.run(&["flow", "dead", "--limit", "1", "-o", "table"]).stdout;
    assert!(table.contains("no route to host") && table.contains("add --after"), "{table}");

    let shown = site.json(&["flow", "dead", &runs[0]]);
    assert_eq!(shown["input"], json!({ "fail": "b" }));
    assert_eq!(
        (&shown["failed"][0]["parents"], shown["attempts"].as_array().unwrap().len()),
        (&json!({ "a": { "by": "a" } }), 2)
    );
    let text = site.run(&["flow", "dead", &runs[0], "-o", "table"]).stdout;
    for part in [
        "b failed",
        "no route to host",
        "parents {\"a\":{\"by\":\"a\"}}",
        "attempt 1 of 2 failed",
        &format!("`bugle flow retry {} b`", runs[0]),
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let open = start(&site, &["order"]);
    refused(&site, &["flow", "dead", &open], 4, &["has not failed: it is queued"]);
    refused(&site, &["flow", "dead", "4711"], 4, &["there is no run 4711"]);
}

#[tokio::test]
async fn runs_are_listed_page_by_page_and_counted() {
    let site = defined(DIAMOND).await;
    site.run_with_input(&["flow", "define", "-"], APPROVAL.as_bytes());
    let mut runs: Vec<String> = (0..3).map(|_| start(&site, &["order"])).collect();
    runs.push(start(&site, &["approval"]));
    runs.reverse();
    site.json(&["flow", "cancel", &runs[0]]);
    let ids = |args: &[&str]| -> Vec<String> {
        let rows = site.json(&[&["flow", "ls"], args].concat());
        rows.as_array().unwrap().iter().map(|row| row["id"].to_string()).collect()
    };
    assert_eq!(ids(&[]), runs);
    assert_eq!(ids(&["--definition", "order"]), runs[1..]);
    assert_eq!(ids(&["--state", "cancelled", "--since", "1h"]), runs[..1]);
    let mark = site.json(&["flow", "ls", "--limit", "2"])[1]["mark"].as_str().unwrap().to_owned();
    assert_eq!(ids(&["--after", &mark]), runs[2..]);
    let table = site.run(&["flow", "ls", "--limit", "2", "-o", "table"]).stdout;
    assert!(table.contains(&format!("more behind these: add --after {mark}")), "{table}");
    assert!(table.contains("cancelled    2/2"), "{table}");
    let counts = site.json(&["flow", "ls", "--count"]);
    assert_eq!(counts[0], json!({ "state": "queued", "runs": 3 }));
    assert_eq!(counts[4], json!({ "state": "cancelled", "runs": 1 }));
    refused(
        &site,
        &["flow", "ls", "--state", "broken"],
        1,
        &["use queued, running, succeeded, failed or cancelled"],
    );
    refused(&site, &["flow", "ls", "--after", "7"], 1, &["place in the list is \"7\""]);
}

#[tokio::test]
async fn the_doctor_finds_a_run_that_has_lost_count() {
    let site = defined(DIAMOND).await;
    let run = start(&site, &["order"]);
    let miscount = site.db.sql("UPDATE bugle.step SET parents_left = 7 WHERE no = 4").unwrap();
    sqlx::raw_sql(miscount).execute(site.db.pool()).await.unwrap();
    let ran = site.run(&["doctor", "--deep", "-o", "table"]);
    assert_eq!(ran.code, 2, "{}", ran.stdout);
    let part = format!("run {run}, step d: parents_left is 7, and 2 of its parents have not ended");
    assert!(ran.stdout.contains(&part), "{}", ran.stdout);
}
