//! Looking at definitions and runs.
use crate::fixture::Site;
use crate::flow::RUNS;
use serde_json::{Value, json};

const TWO: &str = "name: d\ndescription: two steps\nsteps:\n  - { name: a, retry: { attempts: 1 } }\n  - { name: b, after: a }";

#[tokio::test]
async fn definitions_are_listed_and_shown_as_they_can_be_sent_again() {
    let site = Site::with_flow(TWO).await;
    site.define("name: d\nsteps: [ { name: z } ]").await;
    site.define("name: e\nidentity: key\ndeadline: 1h\nsteps: [ { name: z } ]").await;
    let listed = site.get("/api/v1/flow/definitions").await;
    let rows = listed.json["definitions"].as_array().unwrap();
    let names: Vec<_> =
        rows.iter().map(|row| (row["name"].as_str().unwrap(), row["version"].as_i64().unwrap())).collect();
    assert_eq!(names, [("d", 2), ("d", 1), ("e", 1)]);
    assert_eq!((&rows[2]["identity"], &rows[2]["deadlineMillis"]), (&json!("key"), &json!(3_600_000)));
    assert_eq!(
        site.get("/api/v1/flow/definitions?name=e").await.json["definitions"].as_array().unwrap().len(),
        1
    );
    let newest = site.get("/api/v1/flow/definitions/d").await;
    assert_eq!(
        (&newest.json["version"], &newest.json["definition"]["steps"][0]["name"]),
        (&json!(2), &json!("z"))
    );
    let first = site.get("/api/v1/flow/definitions/d?version=1").await;
    assert_eq!(first.json["definition"]["description"], "two steps", "{first:?}");
    let again = site.post("/api/v1/flow/definitions", first.json["definition"].clone()).await;
    assert_eq!((again.status.as_u16(), &again.json["version"]), (200, &json!(1)), "{again:?}");
    let again = site.define(first.json["yaml"].as_str().unwrap()).await;
    assert_eq!((again.status.as_u16(), &again.json["version"]), (200, &json!(1)), "{again:?}");
    for path in ["/api/v1/flow/definitions/nobody", "/api/v1/flow/definitions/d?version=9"] {
        assert!(site.get(path).await.error(404).contains("GET /api/v1/flow/definitions lists them"));
    }
}

#[tokio::test]
async fn runs_are_listed_page_by_page_and_by_what_they_are() {
    let site = Site::with_flow(TWO).await;
    site.define("name: e\nsteps: [ { name: z } ]").await;
    let mut started = Vec::new();
    for _ in 0..3 {
        started.insert(0, site.start().await);
    }
    let other = site.post(RUNS, json!({"definition": "e"})).await.json["id"].as_i64().unwrap();
    site.post(&format!("{RUNS}/{}/cancel", started[0]), json!({})).await;
    let ids = |list: &Value| -> Vec<i64> {
        list["runs"].as_array().unwrap().iter().map(|run| run["id"].as_i64().unwrap()).collect()
    };
    let first = site.get(&format!("{RUNS}?limit=2")).await.json;
    assert_eq!(ids(&first), [other, started[0]]);
    let second = site.get(&format!("{RUNS}?limit=2&after={}", first["next"].as_str().unwrap())).await.json;
    assert_eq!(ids(&second), started[1..]);
    assert_eq!(ids(&site.get(&format!("{RUNS}?definition=d")).await.json), started);
    assert_eq!(ids(&site.get(&format!("{RUNS}?state=cancelled")).await.json), started[..1]);
    assert_eq!(ids(&site.get(&format!("{RUNS}?startedAfter=2999-01-01T00:00:00Z")).await.json), [0; 0]);
    for (query, why) in [
        ("state=done", "use queued, running"),
        ("after=x", "after: place in the list"),
        ("limit=0", "use 1 to 1000"),
        ("startedAfter=x", "is no time"),
    ] {
        let answer = site.get(&format!("{RUNS}?{query}")).await;
        assert!(answer.error(400).contains(why), "{answer:?}");
    }
}

#[tokio::test]
async fn why_says_of_each_step_what_it_waits_for() {
    let site = Site::with_flow(TWO).await;
    let run = site.start().await;
    let why = site.get(&format!("{RUNS}/{run}/why")).await;
    let waits = why.json["waits"].as_array().unwrap();
    let reasons: Vec<_> =
        waits.iter().map(|wait| (wait["step"].as_str().unwrap(), wait["reason"].as_str().unwrap())).collect();
    assert_eq!(reasons, [("a", "no_worker"), ("b", "parents")], "{why:?}");
    assert_eq!(waits[0]["details"], json!({"queue": "steps"}));
    assert_eq!(waits[1]["details"]["missing"][0]["step"], "a");
    site.step("w").await;
    let why = site.get(&format!("{RUNS}/{run}/why")).await;
    assert_eq!((&why.json["state"], &why.json["waits"][0]["reason"]), (&json!("running"), &json!("running")));
    assert_eq!(why.json["waits"][0]["details"]["workers"], json!(["w"]));
    assert!(why.json["waits"][0]["details"]["leaseUntil"].is_string(), "{why:?}");
    site.get(&format!("{RUNS}/77/why")).await.error(404);
}

#[tokio::test]
async fn a_run_is_shown_as_it_was_and_its_log_says_who_moved_it() {
    let site = Site::with_flow(TWO).await;
    let run = site.start().await;
    let step = site.step("w").await;
    let before: String = site
        .one("SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
        .await;
    site.tell("complete", &step, json!({"result": 1})).await;
    assert_eq!(site.states(run).await, "a=succeeded b=ready");
    let then = site.get(&format!("{RUNS}/{run}?at={before}")).await;
    assert_eq!(
        (&then.json["steps"][0]["state"], &then.json["steps"][1]["state"]),
        (&json!("running"), &json!("pending")),
        "{then:?}"
    );
    assert!(
        site.get(&format!("{RUNS}/{run}?at=2020-01-01T00:00:00Z"))
            .await
            .error(404)
            .contains("not started yet")
    );
    assert!(
        site.get(&format!("{RUNS}/{run}?at={before}&wait=true"))
            .await
            .error(400)
            .contains("both at and wait")
    );
    let mut moves = Vec::new();
    let mut after = String::new();
    loop {
        let page = site.get(&format!("{RUNS}/{run}/events?limit=2&after={after}")).await.json;
        moves.extend(page["events"].as_array().unwrap().iter().map(|event| {
            format!(
                "{} {} {}",
                event["step"].as_str().unwrap_or("-"),
                event["cause"].as_str().unwrap(),
                event["to"].as_str().unwrap()
            )
        }));
        let Some(next) = page["next"].as_str() else { break };
        after = next.to_owned();
    }
    assert!(
        moves.contains(&"- start queued".to_owned()) && moves.contains(&"a claim running".to_owned()),
        "{moves:?}"
    );
    assert_eq!(moves.last().unwrap(), "b parents ready", "{moves:?}");
    site.get(&format!("{RUNS}/77/events")).await.error(404);
}

#[tokio::test]
async fn runs_that_failed_are_listed_with_the_reason_and_what_their_steps_had() {
    let site = Site::with_flow(TWO).await;
    let run = site.start().await;
    let step = site.step("w").await;
    site.tell("complete", &step, json!({"result": {"n": 1}})).await;
    let step = site.step("w").await;
    site.tell("fail", &step, json!({"retryable": false, "code": "no", "message": "never"})).await;
    assert_eq!(site.ended(run).await, "failed");
    let dead = site.get("/api/v1/flow/dead?definition=d").await;
    let row = &dead.json["runs"][0];
    assert_eq!(
        (&row["id"], &row["step"], &row["code"], &row["message"]),
        (&json!(run), &json!("b"), &json!("no"), &json!("never"))
    );
    assert_eq!(site.get("/api/v1/flow/dead?definition=e").await.json["runs"], json!([]));
    let shown = site.get(&format!("/api/v1/flow/dead/{run}")).await;
    assert_eq!(shown.json["failed"][0]["outputs"], json!({"a": {"n": 1}}), "{shown:?}");
    assert_eq!(shown.json["attempts"][0]["worker"], "w");
    let open = site.start().await;
    site.get(&format!("/api/v1/flow/dead/{open}")).await.error(404);
}
