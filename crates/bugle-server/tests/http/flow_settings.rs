//! How the workflows of the server's namespace are run.
use crate::fixture::Site;
use crate::flow::{CLAIM, CLAIM_AND_WAIT, answered, later, one_step};
use bugle::access::Right;
use bugle::flow::For;
use serde_json::{Value, json};

const SETTINGS: &str = "/api/v1/flow/settings";

#[tokio::test]
async fn settings_are_set_inherited_and_read() {
    let site = Site::with_flow("name: d\nsteps: [ { name: a } ]").await;
    let before = site.get(SETTINGS).await.json;
    assert_eq!((&before["namespace"], &before["own"]["mode"]), (&json!("default"), &Value::Null));
    assert_eq!(
        (&before["effective"]["mode"], &before["effective"]["paused"]),
        (&json!("hybrid"), &json!(false))
    );
    let set = site.post(SETTINGS, json!({"slotsMost": 4, "staleAfterMillis": 2000})).await.json;
    assert_eq!((&set["own"]["slotsMost"], &set["effective"]["staleAfterMillis"]), (&json!(4), &json!(2000)));
    let set = site.post(SETTINGS, json!({"stepsMost": 20})).await.json;
    assert_eq!((&set["own"]["stepsMost"], &set["own"]["slotsMost"]), (&json!(20), &json!(4)));
    let set = site.post(SETTINGS, json!({"slotsMost": null})).await.json;
    assert_eq!((&set["own"]["slotsMost"], &set["own"]["staleAfterMillis"]), (&Value::Null, &json!(2000)));
    let mode = json!({"mode": "shadow", "pollIntervalMillis": 250});
    let set = site.post(&format!("{SETTINGS}/mode"), mode).await.json;
    assert_eq!((&set["own"]["mode"], &set["own"]["pollIntervalMillis"]), (&json!("shadow"), &json!(250)));
    site.bugle.flow().set_mode(Some(bugle::Mode::PollingOnly), None, For::All).await.unwrap();
    let set = site.post(&format!("{SETTINGS}/mode"), json!({"mode": null})).await.json;
    assert_eq!((&set["own"]["mode"], &set["effective"]["mode"]), (&Value::Null, &json!("polling_only")));
    for (path, body, said) in [
        ("", json!({}), "nothing to set"),
        ("", json!({"slotsMost": 0}), "slotsMost is 0; use 1 to 1000"),
        ("", json!({"stepsMost": 0}), "stepsMost is 0; use 1 to 100000"),
        ("", json!({"slotsLeast": -1}), "slotsLeast"),
        ("", json!({"staleAfterMillis": 1}), "staleAfterMillis is 1; use 100"),
        ("", json!({"slots": 1}), "unknown field `slots`"),
        ("/mode", json!({}), "mode is required"),
        ("/mode", json!({"mode": "push"}), "event_driven_only"),
        ("/mode", json!({"mode": null, "pollIntervalMillis": 5}), "name a mode"),
        ("/mode", json!({"mode": "shadow", "pollIntervalMillis": 0}), "pollIntervalMillis is 0"),
        ("/paused", json!({}), "paused is required"),
        ("/paused", json!({"paused": "yes"}), "paused: invalid type"),
    ] {
        let answer = site.post(&format!("{SETTINGS}{path}"), body).await;
        assert!(answer.error(400).contains(said), "{said}: {answer:?}");
    }
}

#[tokio::test]
async fn a_paused_namespace_hands_out_nothing_until_it_is_resumed() {
    let site = Site::with_flow("name: d\nsteps: [ { name: a } ]").await;
    let paused = format!("{SETTINGS}/paused");
    assert_eq!(site.post(&paused, json!({"paused": true})).await.json["effective"]["paused"], true);
    site.start().await;
    assert_eq!(site.post(CLAIM, json!({})).await.status.as_u16(), 204);
    let waiter = later(&site, CLAIM_AND_WAIT, &json!({}));
    site.waiting_beside_the_engine(1).await;
    assert_eq!(site.post(&paused, json!({"paused": false})).await.json["own"]["paused"], false);
    one_step(&answered(waiter).await);
    let inherited = site.post(&paused, json!({"paused": null})).await.json;
    assert_eq!(
        (&inherited["own"]["paused"], &inherited["effective"]["paused"]),
        (&Value::Null, &json!(false))
    );
}

#[tokio::test]
async fn a_key_for_some_names_does_not_change_the_whole_namespace() {
    let mut site = Site::with_flow("name: d\nsteps: [ { name: a } ]").await;
    site.show_key("shop", "shop.", Right::ALL).await;
    for (path, body) in [
        ("", json!({"slotsMost": 4})),
        ("/mode", json!({"mode": "shadow"})),
        ("/paused", json!({"paused": true})),
    ] {
        let answer = site.post(&format!("{SETTINGS}{path}"), body).await;
        assert!(answer.error(403).contains("admin for all workflows"), "{path}: {answer:?}");
    }
    assert_eq!(site.get(SETTINGS).await.json["own"]["mode"], Value::Null);
}
