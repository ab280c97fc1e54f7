//! The worker of docs/flow-http.md, run as it stands there.
use crate::fixture::Site;
use crate::flow::{RUNS, answered, later};
use serde_json::json;
use std::process::{Child, Command};

const PAGE: &str = include_str!("../../../../docs/flow-http.md");

/// The first block of this language.
fn block(language: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("```{language}\n")).expect("no such block");
    rest.split_once("\n```").expect("it does not end").0
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn python(site: &Site) -> Running {
    let mut command = Command::new("python3");
    command.args(["-c", block("python")]).env("BUGLE_URL", &site.url);
    Running(command.spawn().expect("python3 does not run; scripts/setup tests installs it"))
}

#[tokio::test]
async fn the_worker_in_python_works_as_it_is_written() {
    let site = Site::with_flow(block("yaml")).await;
    let workers = [python(&site), python(&site)];
    let order = json!({"definition": "order", "input": {"items": ["tea", "cup"]}, "key": "order 7"});
    let start = later(&site, &format!("{RUNS}?wait=true&timeoutMillis=3600000"), &order);
    // It waits for a person, whose signal may come at any time.
    let run = site.post(RUNS, order).await.json["id"].as_i64().unwrap();
    site.post("/api/v1/flow/signals", json!({"key": format!("approval:{run}"), "payload": {"by": "Ann"}}))
        .await;
    let ended = answered(start).await;
    assert_eq!(
        (&ended.json["id"], &ended.json["run"]["state"]),
        (&json!(run), &json!("succeeded")),
        "{ended:?}"
    );
    let steps = &ended.json["steps"];
    assert_eq!(
        (&steps[3]["step"], &steps[3]["output"]["paid_for"]),
        (&json!("charge"), &json!(2)),
        "{ended:?}"
    );
    let packed = steps[1]["elements"].as_array().unwrap();
    assert_eq!(packed.len(), 2, "{ended:?}");
    assert!(packed.iter().all(|item| item["worker"] == "python"), "{ended:?}");
    drop(workers);
}

#[test]
fn the_worker_in_python_has_thirty_lines() {
    assert!(block("python").lines().filter(|line| !line.trim().is_empty()).count() <= 30);
}
