//! Definitions as people write them, defined and run.

use crate::fixture::{Place, until};
use bugle::Done;
use bugle::flow::definition::Definition;
use bugle::flow::{RunState, Step};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const ORDER: &str = r#"
name: order
identity: key
deadline: 2h
steps:
  - name: reserve
    retry: { attempts: 3, backoff: [1s, 10s] }
  - name: pay
    after: reserve
    handler: charge_card
    timeout: 30s
  - name: notify_each
    map: { step: reserve, at: /items }
  - name: approve
    signal: { key: "approval:{run}", timeout: 7d }
    after: [pay]
  - name: refund
    after: [ { step: pay, on: failure } ]
  - name: rest
    sleep: 100ms
    after: [approve]
  - name: choose
    decision: pick_carrier
    after: [approve]
  - { name: dhl, after: choose }
  - { name: ups, after: choose }
  - { name: close, after: [dhl, ups], join: any }
"#;

#[tokio::test]
async fn an_order_goes_from_its_yaml_to_its_end() {
    let place = Place::new().await;
    let flow = place.bugle.flow();
    let definition = Definition::parse_yaml(ORDER).unwrap();
    let defined = flow.define(&definition).await.unwrap();
    assert_eq!((defined.version, defined.is_new), (1, true));
    assert!(!flow.define(&definition).await.unwrap().is_new, "the same again");

    let stop = CancellationToken::new();
    let mut worker = flow
        .worker("steps")
        .handle("reserve", |step: Step| async move { Done(step.input::<serde_json::Value>().unwrap()) })
        .handle("notify_each", |step: Step| async move { Done(step.element::<String>().unwrap()) })
        .handle("pick_carrier", |_| async { Done("dhl") });
    for name in ["charge_card", "refund", "dhl", "ups", "close"] {
        worker = worker.handle(name, |step: Step| async move { Done(step.name) });
    }
    let working = tokio::spawn({
        let (stop, flow) = (stop.clone(), flow.clone());
        async move { tokio::try_join!(worker.run(stop.clone()), flow.run_engine(stop)).unwrap() }
    });
    let run = flow.start("order", &json!({"items": ["a", "b"]})).key("7").send().await.unwrap();
    until("it waits for a person", async || {
        let steps = flow.steps(run.id()).await.unwrap();
        steps.iter().any(|step| step.name == "approve" && step.state == "waiting")
    })
    .await;
    flow.signal(&format!("approval:{}", run.id()), &true, Some("Ann")).await.unwrap();
    let (state, states) = place.ended(&run).await;
    assert_eq!(state, RunState::Succeeded, "{states}");
    for expected in
        ["notify_each.2=succeeded", "refund=skipped", "dhl=succeeded", "ups=skipped", "close=succeeded"]
    {
        assert!(states.contains(expected), "{expected} is not in {states}");
    }
    stop.cancel();
    working.await.unwrap();
}

#[tokio::test]
async fn a_version_never_changes() {
    let place = Place::new().await;
    let flow = place.bugle.flow();
    let one = |version: &str, step: &str| {
        Definition::parse_yaml(&format!("name: d\n{version}\nsteps:\n  - name: {step}\n")).unwrap()
    };
    assert_eq!(flow.define(&one("version: 5", "a")).await.unwrap().version, 5);
    assert!(!flow.define(&one("version: 5", "a")).await.unwrap().is_new);
    let refused = flow.define(&one("version: 5", "b")).await.unwrap_err().to_string();
    assert!(refused.contains("has a version 5 already"), "{refused}");
    assert_eq!(flow.define(&one("", "b")).await.unwrap().version, 6, "the next one");
    assert_eq!(flow.define(&one("", "b")).await.unwrap().version, 6, "the newest again");
}
