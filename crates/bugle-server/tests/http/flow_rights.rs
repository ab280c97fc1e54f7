//! Keys that are for some names alone.
use crate::fixture::Site;
use crate::flow::{CLAIM_AND_WAIT, RUNS, answered, later};
use bugle::access::Right;
use serde_json::json;

const MINE: &str = "name: shop.order\nsteps: [ { name: a, queue: shop.steps } ]";
const THEIRS: &str = "name: bank.pay\nsteps: [ { name: a, queue: bank.steps } ]";

#[tokio::test]
async fn a_key_for_some_names_reaches_no_other_workflow() {
    let mut site = Site::with_flow(THEIRS).await;
    let started = site.post(RUNS, json!({"definition": "bank.pay"})).await;
    let theirs = started.json["id"].clone();
    site.show_key("all", "", Right::ALL).await;
    let step = site.post("/api/v1/flow/queues/bank.steps/claim", json!({})).await.json["steps"][0].clone();
    site.show_key("shop", "shop.", Right::ALL).await;
    for yaml in [
        THEIRS,
        "name: shop.x\nsteps: [ { name: a, queue: bank.steps } ]",
        "name: shop.x\nsteps: [ { name: a } ]",
        "name: shop.x\nsteps: [ { name: a, queue: shop.steps, events: [ { on: always, queue: bank.news } ] } ]",
    ] {
        let answer = site.define(yaml).await;
        assert!(answer.error(403).contains("Insufficient permissions"), "{answer:?}");
    }
    assert_eq!(site.define(MINE).await.status.as_u16(), 201);
    for (path, body) in [
        (RUNS.to_owned(), json!({"definition": "bank.pay"})),
        (format!("{RUNS}/{theirs}/cancel"), json!({})),
        (format!("{RUNS}/{theirs}/steps/a/skip"), json!({})),
        (format!("{RUNS}/77/cancel"), json!({})), // nor do they learn which runs there are
        ("/api/v1/flow/signals".to_owned(), json!({"key": "bank.go"})),
        ("/api/v1/flow/queues/bank.steps/claim".to_owned(), json!({})),
        ("/api/v1/flow/steps/complete".to_owned(), json!({"receipt": step["receipt"]})),
        ("/api/v1/flow/steps/renew".to_owned(), json!({"receipt": step["receipt"]})),
    ] {
        let answer = site.post(&path, body).await;
        assert!(answer.error(403).contains("Insufficient permissions"), "{path}: {answer:?}");
    }
    assert_eq!(site.get(&format!("{RUNS}/{theirs}")).await.status.as_u16(), 403);
    let mine = site.post(RUNS, json!({"definition": "shop.order"})).await.json["id"].clone();
    assert_eq!(site.get(&format!("{RUNS}/{mine}")).await.status.as_u16(), 200);
    assert_eq!(site.get("/api/v1/flow/definitions/bank.pay").await.status.as_u16(), 403);
    let runs = site.get(RUNS).await.json["runs"].clone();
    assert_eq!((runs.as_array().unwrap().len(), &runs[0]["id"]), (1, &mine), "nothing of the bank's");
    let definitions = site.get("/api/v1/flow/definitions").await.json["definitions"].clone();
    assert_eq!((definitions.as_array().unwrap().len(), &definitions[0]["name"]), (1, &json!("shop.order")));
    let claimed = site.post("/api/v1/flow/queues/shop.steps/claim", json!({})).await;
    assert_eq!(claimed.json["steps"][0]["run"], mine);
    let worker: String = site.one("SELECT worker FROM bugle.step WHERE worker LIKE '%shop'").await;
    assert_eq!(worker, "key:shop", "the caller's name, without another");
    assert_eq!(site.post(&format!("{RUNS}/{mine}/cancel"), json!({})).await.json["changed"], true);
}

/// Starting needs no right to look, and gives none.
#[tokio::test]
async fn whoever_may_start_and_not_look_sees_no_outputs() {
    let mut site = Site::with_flow("name: d\nsteps: [ { name: z, sleep: 1ms } ]").await;
    site.show_key("starter", "", [Right::Push]).await;
    let ended = site.post(&format!("{RUNS}?wait=true&timeoutMillis=60000"), json!({"definition": "d"})).await;
    assert_eq!((ended.status.as_u16(), &ended.json["run"]["state"]), (200, &json!("succeeded")), "{ended:?}");
    assert!(ended.json.get("steps").is_none(), "{ended:?}");
}

#[tokio::test]
async fn whoever_waits_for_a_step_with_a_key_that_is_revoked_is_told_and_gets_none() {
    let mut site = Site::with_flow("name: d\nsteps: [ { name: a } ]").await;
    site.show_key("other", "", Right::ALL).await;
    let http = site.http.clone();
    site.show_key("worker", "", [Right::Pop]).await;
    let waiter = later(&site, CLAIM_AND_WAIT, &json!({}));
    site.waiting_beside_the_engine(1).await;
    site.bugle.access().revoke("worker").await.unwrap();
    assert!(answered(waiter).await.error(401).contains("revoked"));
    site.waiting_beside_the_engine(0).await;
    site.http = http;
    site.start().await;
    assert_eq!(site.step("w").await["attempt"], 1);
}
