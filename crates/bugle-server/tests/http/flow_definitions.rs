//! Defining workflows.
use crate::fixture::{Answer, Site};
use serde_json::json;

const DEFINITIONS: &str = "/api/v1/flow/definitions";

async fn send(site: &Site, content_type: Option<&str>, body: &str) -> Answer {
    let mut request = site.http.post(site.path(DEFINITIONS)).body(body.to_owned());
    if let Some(content_type) = content_type {
        request = request.header("content-type", content_type);
    }
    Answer::of(request.send().await.unwrap()).await
}

#[tokio::test]
async fn a_definition_is_taken_as_yaml_and_as_json_and_never_changes() {
    let site = Site::new().await;
    let (yaml, json) = ("name: d\nsteps: [ { name: a } ]\n", r#"{"name": "d", "steps": [{"name": "a"}]}"#);
    let new = site.define(yaml).await;
    assert_eq!((new.status.as_u16(), new.json), (201, json!({"name": "d", "version": 1, "isNew": true})));
    for (content_type, same) in [
        (Some("application/yaml"), yaml),
        (Some("application/json; charset=utf-8"), json),
        (Some("text/x-yaml"), yaml),
        (Some("application/x-www-form-urlencoded"), json), // as curl sends it by itself
        (Some("application/x-www-form-urlencoded"), yaml),
        (None, yaml),
    ] {
        let same = send(&site, content_type, same).await;
        assert_eq!(
            (same.status.as_u16(), &same.json["isNew"], &same.json["version"]),
            (200, &json!(false), &json!(1))
        );
    }
    let next = site.define("name: d\nsteps: [ { name: b } ]").await;
    assert_eq!((next.status.as_u16(), &next.json["version"]), (201, &json!(2)));
    let taken = site.define("name: d\nversion: 1\nsteps: [ { name: c } ]").await;
    assert!(taken.error(409).contains("has a version 1 already"), "{taken:?}");
}

#[tokio::test]
async fn all_faults_are_answered_at_once_with_their_lines_and_steps() {
    let site = Site::new().await;
    let wrong = site
        .define(
            "name: d\nsteps:\n  - { name: a, after: nobody }\n  - { name: a }\n  - { name: b, retries: 3 }\n",
        )
        .await;
    let sentence = wrong.error(400);
    assert_eq!(sentence.lines().count(), 3, "{sentence}");
    let faults = wrong.json["faults"].as_array().unwrap();
    let places: Vec<_> = faults.iter().map(|fault| (&fault["line"], &fault["step"])).collect();
    assert_eq!(
        places,
        [(&json!(3), &json!("a")), (&json!(4), &json!("a")), (&json!(5), &json!("b"))],
        "{wrong:?}"
    );
    assert!(faults.iter().all(|fault| fault["fault"].is_string() && fault["next"].is_string()));
    let json = send(&site, Some("application/json"), "{\n \"name\": \"d\",\n \"steps\": 5}").await;
    assert_eq!(json.error(400).split(',').next(), Some("line 3"), "{json:?}");
    assert_eq!(send(&site, Some("application/json"), "name: d").await.status.as_u16(), 400, "that is YAML");
}

#[tokio::test]
async fn what_is_no_definition_is_refused_with_what_to_send() {
    let site = Site::new().await;
    for (content_type, body, status, why) in [
        (Some("application/xml"), "<a/>", 415, "send application/json or application/yaml"),
        (Some("application/yaml"), "", 400, "line 1"),
        (None, "name: d", 400, "steps"),
    ] {
        let answer = send(&site, content_type, body).await;
        assert!(answer.error(status).contains(why), "{answer:?}");
    }
    let binary = site.post_raw(DEFINITIONS, vec![b'a', 0xff]).await;
    assert!(binary.error(400).contains("byte 1 of the body is no UTF-8"), "{binary:?}");
}
