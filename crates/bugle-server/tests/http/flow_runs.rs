//! Starting runs, waiting for their ends, and changing them by hand.
use crate::fixture::{Site, until};
use crate::flow::{CLAIM, RUNS, answered, later};
use crate::pop::wait;
use reqwest::Method;
use serde_json::json;

const ONE: &str = "name: d\nsteps: [ { name: a, retry: { attempts: 1 } } ]";
const TWO: &str = "name: d\nsteps:\n  - { name: a, retry: { attempts: 1 } }\n  - { name: b, after: a }";

#[tokio::test]
async fn a_run_is_started_once_for_each_key() {
    let site = Site::with_flow(ONE).await;
    let body = json!({"definition": "d", "version": 1, "input": {"n": 1}, "key": "k", "keyWindowSeconds": 60, "priority": 0, "tags": {"shop": 7}});
    let first = site.post(RUNS, body.clone()).await;
    assert_eq!((first.status.as_u16(), &first.json["ended"]), (202, &json!(false)), "{first:?}");
    assert_eq!(site.post(RUNS, body).await.json["id"], first.json["id"]);
    let shown = site.get(&format!("{RUNS}/{}", first.json["id"])).await;
    let run = &shown.json["run"];
    assert_eq!(
        (&run["definition"], &run["version"], &run["state"]),
        (&json!("d"), &json!(1), &json!("queued"))
    );
    assert_eq!(
        (&run["input"], &run["tags"], &run["key"]),
        (&json!({"n": 1}), &json!({"shop": 7}), &json!("k"))
    );
    assert_eq!(
        (&shown.json["ended"], shown.json["steps"][0]["state"].as_str()),
        (&json!(false), Some("ready"))
    );
    let actor: String = site.one("SELECT actor FROM bugle.flow_event WHERE cause = 'start' AND no = 0").await;
    assert_eq!(actor, "anonymous", "on a server without keys");
    assert_ne!(site.start().await, first.json["id"].as_i64().unwrap());
}

#[tokio::test]
async fn what_cannot_be_started_is_refused() {
    let site = Site::with_flow(ONE).await;
    for (body, status, why) in [
        (json!({}), 400, "missing field `definition`"),
        (json!({"definition": "d", "inputs": 1}), 400, "unknown field `inputs`"),
        (json!({"definition": "nobody"}), 404, "does not exist"),
        (json!({"definition": "d", "version": 9}), 404, "version 9"),
        (json!({"definition": "d", "key": ""}), 400, "key is 0 bytes long"),
        (json!({"definition": "d", "keyWindowSeconds": 0}), 400, "keyWindowSeconds is 0; use 1"),
        (json!({"definition": "d", "priority": 4}), 400, "priority is 4; use 0 to 3"),
        (json!({"definition": "d", "tags": [1]}), 400, "tags"),
        (json!({"definition": "d", "input": "x".repeat(300_000)}), 400, "over the limit of 262144"),
        (json!({"definition": "d", "input": "\0"}), 400, "\\u0000"),
    ] {
        let answer = site.post(RUNS, body).await;
        assert!(answer.error(status).contains(why), "{answer:?}");
    }
    let long =
        site.post(&format!("{RUNS}?wait=true&timeoutMillis=86400001"), json!({"definition": "d"})).await;
    assert!(long.error(400).contains("timeoutMillis is 86400001; use 0 to 86400000"), "{long:?}");
    assert_eq!(site.one::<i64>("SELECT count(*) FROM bugle.run").await, 0);
    assert!(site.get(&format!("{RUNS}/77")).await.error(404).contains("there is no run 77"));
    assert_eq!(site.get(&format!("{RUNS}/first")).await.status.as_u16(), 400);
}

#[tokio::test]
async fn whoever_waits_for_a_run_is_answered_when_it_ends() {
    let site = Site::with_flow(ONE).await;
    let start = later(&site, &format!("{RUNS}?wait=true&timeoutMillis=3600000"), &json!({"definition": "d"}));
    let step = site.step("w").await;
    let path = format!("{RUNS}/{}?wait=true&timeoutMillis=3600000", step["run"]);
    let watchers = [wait(&site, &path), wait(&site, &path)];
    site.waiting_beside_the_engine(3).await;
    site.tell("complete", &step, json!({"result": {"n": 7}})).await;
    let started = answered(start).await;
    assert_eq!((started.status.as_u16(), &started.json["ended"]), (200, &json!(true)), "{started:?}");
    assert_eq!(started.json["run"]["state"], "succeeded");
    assert_eq!(started.json["steps"][0]["output"], json!({"n": 7}));
    for watcher in watchers {
        let shown = answered(watcher).await;
        assert_eq!((&shown.json["ended"], &shown.json["run"]["state"]), (&json!(true), &json!("succeeded")));
    }
    let again = site.get(&path).await;
    assert_eq!(again.json["run"]["state"], "succeeded", "also of one that ended long ago");
}

#[tokio::test]
async fn a_wait_ends_with_its_time_and_the_run_goes_on() {
    let site = Site::with_flow(ONE).await;
    let started = site.post(&format!("{RUNS}?wait=true&timeoutMillis=20"), json!({"definition": "d"})).await;
    assert_eq!((started.status.as_u16(), &started.json["ended"]), (202, &json!(false)), "{started:?}");
    let path = format!("{RUNS}/{}", started.json["id"]);
    let shown = site.get(&format!("{path}?wait=true&timeoutMillis=20")).await;
    assert_eq!((shown.status.as_u16(), &shown.json["ended"]), (200, &json!(false)));
    assert_eq!(shown.json["run"]["state"], "queued");
    site.waiting_beside_the_engine(0).await;
}

#[tokio::test]
async fn a_client_that_goes_waits_for_no_run_any_more() {
    let mut site = Site::with_flow(ONE).await;
    let run = site.start().await;
    let path = format!("{RUNS}/{run}?wait=true&timeoutMillis=3600000");
    let gone = wait(&site, &path);
    site.waiting_beside_the_engine(1).await;
    gone.abort();
    site.waiting_beside_the_engine(0).await;
    let stays = wait(&site, &path);
    site.waiting_beside_the_engine(1).await;
    site.stop().await;
    let answer = answered(stays).await;
    assert_eq!((answer.status.as_u16(), &answer.json["ended"]), (200, &json!(false)), "the server stops");
}

#[tokio::test]
async fn what_people_do_is_done_and_logged_with_who_and_why() {
    let mut site = Site::with_flow(TWO).await;
    site.show_key("ann", "", bugle::access::Right::ALL).await;
    let run = site.start().await;
    let at = |verb: &str| format!("{RUNS}/{run}/{verb}");
    for (verb, changed) in [("pause", true), ("pause", false), ("resume", true), ("resume", false)] {
        let answer = site.post(&at(verb), json!({"reason": "so"})).await;
        assert_eq!((answer.status.as_u16(), &answer.json["changed"]), (200, &json!(changed)), "{verb}");
    }
    let step = site.step("w").await;
    site.tell("fail", &step, json!({"retryable": false, "code": "no"})).await;
    assert_eq!(site.ended(run).await, "failed");
    assert_eq!(site.post(&at("steps/a/retry"), json!({})).await.json["was"], "failed");
    assert_eq!(site.states(run).await, "a=ready b=pending");
    let resolved =
        site.post(&at("steps/a/resolve"), json!({"output": {"by": "hand"}, "reason": "paid"})).await;
    assert_eq!(resolved.json["was"], "ready", "{resolved:?}");
    assert_eq!(site.post(&at("steps/b/skip"), json!({})).await.json["was"], "ready");
    assert_eq!(site.ended(run).await, "succeeded");
    assert_eq!(site.post(&at("steps/a/restart"), json!({})).await.json["steps"], 2);
    // Without a body, as curl -X POST sends it.
    let cancelled = site.send(Method::POST, &at("cancel"), None).await;
    assert_eq!(cancelled.json["changed"], true, "{cancelled:?}");
    assert_eq!(site.ended(run).await, "cancelled");
    let logged: String = site
        .one("SELECT string_agg(DISTINCT cause || ' ' || actor, ', ') FROM bugle.flow_event WHERE cause IN ('start', 'pause', 'resume', 'retry', 'resolve', 'skip', 'restart', 'cancel') AND actor IS NOT NULL AND actor <> 'w'")
        .await;
    let all = ["cancel", "pause", "resolve", "restart", "resume", "retry", "skip", "start"];
    assert_eq!(logged, all.map(|cause| format!("{cause} key:ann")).join(", "));
    let why: String = site.one("SELECT DISTINCT why FROM bugle.flow_event WHERE cause = 'pause'").await;
    assert_eq!(why, "so");
}

#[tokio::test]
async fn what_people_cannot_do_is_refused_with_the_reason() {
    let site = Site::with_flow(TWO).await;
    let run = site.start().await;
    for (path, body, status, why) in [
        (format!("{run}/steps/nobody/retry"), json!({}), 404, "Its steps are a, b"),
        (format!("{run}/steps/a/retry"), json!({}), 409, "is ready"),
        (format!("{run}/steps/a/retry"), json!({"element": 3}), 404, "element 3"),
        (format!("{run}/steps/b/restart"), json!({}), 409, "has not begun"),
        (format!("{run}/steps/a/skip"), json!({"why": "x"}), 400, "unknown field `why`"),
        (format!("{run}/steps/a/resolve"), json!({"output": "\0"}), 400, "\\u0000"),
        (format!("{run}/cancel"), json!({"reason": "x".repeat(4_001)}), 400, "use at most 4000 bytes"),
        ("77/cancel".to_owned(), json!({}), 404, "no run 77"),
        ("77/pause".to_owned(), json!({}), 404, "no run 77"),
        ("77/steps/a/skip".to_owned(), json!({}), 404, "no run 77"),
    ] {
        let answer = site.post(&format!("{RUNS}/{path}"), body).await;
        assert!(answer.error(status).contains(why), "{answer:?}");
    }
    assert_eq!(site.states(run).await, "a=ready b=pending");
}

/// Sleeps and signals are the server's own part: no worker is there.
#[tokio::test]
async fn a_signal_ends_a_wait_whoever_comes_first() {
    let site = Site::with_flow("name: d\nsteps:\n  - { name: s, signal: { key: \"go:{run}\" } }\n  - { name: z, sleep: 10ms, after: s }").await;
    let run = site.start().await;
    let sent = site
        .post("/api/v1/flow/signals", json!({"key": format!("go:{run}"), "payload": {"by": "Ann"}}))
        .await;
    assert_eq!((sent.status.as_u16(), &sent.json["accepted"]), (202, &json!(true)), "{sent:?}");
    assert_eq!(site.ended(run).await, "succeeded");
    let shown = site.get(&format!("{RUNS}/{run}")).await;
    assert_eq!(shown.json["steps"][0]["output"], json!({"by": "Ann"}));
    assert!(
        site.post("/api/v1/flow/signals", json!({"key": ""})).await.error(400).contains("key is 0 bytes")
    );
}

#[tokio::test]
async fn a_server_without_workflows_does_nothing_for_them() {
    let site = Site::new().await;
    site.waiting(0).await;
    assert_eq!(site.one::<i64>("SELECT count(*) FROM bugle.flow").await, 0);
    assert_eq!(site.define(ONE).await.status.as_u16(), 201);
    until("the server has its part in them", async || {
        site.bugle.node().is_some_and(|node| node.status().intentions == 1)
    })
    .await;
    assert_eq!(site.post(CLAIM, json!({})).await.status.as_u16(), 204);
}
