//! What tests of workflows begin with.
use crate::fixture::{Answer, SOON, Site, until};
use bugle::access::Right;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub(crate) const RUNS: &str = "/api/v1/flow/runs";
pub(crate) const CLAIM: &str = "/api/v1/flow/queues/steps/claim";
/// A claim that waits for as long as a test may take.
pub(crate) const CLAIM_AND_WAIT: &str = "/api/v1/flow/queues/steps/claim?wait=true&timeoutMillis=3600000";

impl Site {
    /// Defines a workflow from YAML.
    pub(crate) async fn define(&self, yaml: &str) -> Answer {
        let request = self.http.post(self.path("/api/v1/flow/definitions"));
        let request = request.header("content-type", "application/yaml").body(yaml.to_owned());
        Answer::of(request.send().await.unwrap()).await
    }

    /// A server that knows a workflow.
    pub(crate) async fn with_flow(yaml: &str) -> Self {
        let site = Self::new().await;
        assert_eq!(site.define(yaml).await.status.as_u16(), 201);
        site
    }

    /// Makes a key, waits until the server has heard that callers need one, and shows it from here on.
    pub(crate) async fn show_key(
        &mut self,
        name: &str,
        queues: &str,
        rights: impl IntoIterator<Item = Right>,
    ) {
        let key = self.key(name, queues, rights).await;
        until("callers need a key", async || {
            let nobody = reqwest::Client::new().get(self.path("/api/v1/status")).send().await;
            nobody.unwrap().status().as_u16() == 401
        })
        .await;
        self.show(key.reveal());
    }

    /// Starts a run of the definition `d`; its number.
    pub(crate) async fn start(&self) -> i64 {
        let answer = self.post(RUNS, json!({"definition": "d"})).await;
        assert_eq!(answer.status.as_u16(), 202, "{answer:?}");
        answer.json["id"].as_i64().unwrap()
    }

    /// Claims one step, waiting for it.
    pub(crate) async fn step(&self, worker: &str) -> Value {
        let answer = self.post(CLAIM_AND_WAIT, json!({"worker": worker, "leaseMillis": 3_600_000})).await;
        one_step(&answer)
    }

    /// Tells something about a step.
    pub(crate) async fn tell(&self, verb: &str, step: &Value, more: Value) -> Answer {
        let mut body = json!({"receipt": step["receipt"]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.post(&format!("/api/v1/flow/steps/{verb}"), body).await
    }

    /// The states of a run's steps, as `a=succeeded b=ready`.
    pub(crate) async fn states(&self, run: i64) -> String {
        let shown = self.get(&format!("{RUNS}/{run}")).await;
        let say =
            |step: &Value| format!("{}={}", step["step"].as_str().unwrap(), step["state"].as_str().unwrap());
        shown.json["steps"].as_array().unwrap().iter().map(say).collect::<Vec<_>>().join(" ")
    }

    /// The state of a run that has ended, or will soon.
    pub(crate) async fn ended(&self, run: i64) -> String {
        let shown = self.get(&format!("{RUNS}/{run}?wait=true&timeoutMillis=60000")).await;
        assert_eq!(shown.json["ended"], true, "{shown:?}");
        shown.json["run"]["state"].as_str().unwrap().to_owned()
    }

    /// Ends all leases now, as if their time had passed.
    pub(crate) async fn end_leases(&self) {
        self.execute("UPDATE bugle.lease SET until = clock_timestamp()").await;
    }

    /// Waits until so many wait, beside what the server itself waits for in workflows.
    pub(crate) async fn waiting_beside_the_engine(&self, intentions: usize) {
        self.waiting(1 + intentions).await;
    }
}

/// The only step of a claim.
pub(crate) fn one_step(answer: &Answer) -> Value {
    assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
    let steps = answer.json["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 1, "{answer:?}");
    steps[0].clone()
}

/// A post that waits, sent by a task of its own.
pub(crate) fn later(site: &Site, path: &str, body: &Value) -> JoinHandle<Answer> {
    let request = site.http.post(site.path(path)).json(body);
    tokio::spawn(async move { Answer::of(request.send().await.unwrap()).await })
}

pub(crate) async fn answered(waiter: JoinHandle<Answer>) -> Answer {
    tokio::time::timeout(SOON, waiter).await.expect("not answered").unwrap()
}
