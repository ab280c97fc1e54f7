//! Steps that wait for a time or for a signal, and deadlines.

use crate::fixture::{Place, Script, until};
use bugle::flow::RunState;
use serde_json::json;

#[tokio::test]
async fn a_sleep_ends_by_itself_and_not_before_its_time() {
    let place = Place::with(&["a", "b < a", "c < b"], json!({"b": {"kind": "sleep", "sleep_ms": 300}})).await;
    let crew = place.crew(&Script::default());
    let run = place.start().await;
    let ended = place.ended(&run).await;
    assert_eq!(ended, (RunState::Succeeded, "a=succeeded b=succeeded c=succeeded".to_owned()));
    let slept = "SELECT bool_and(b.since - a.since >= interval '300 ms') FROM bugle.step a JOIN bugle.step b ON b.run = a.run AND b.no = 2 WHERE a.no = 1";
    assert!(place.one::<bool>(slept).await);
    crew.stop().await;
}

#[tokio::test]
async fn a_signal_reaches_a_step_that_waits_and_one_that_will() {
    for early in [true, false] {
        let place = Place::with(
            &["a", "b < a"],
            json!({"b": {"kind": "signal", "signal": {"key": "approval:{run}"}}}),
        )
        .await;
        let run = place.start().await;
        let key = format!("approval:{}", run.id());
        if early {
            place.bugle.flow().signal(&key, &"yes", Some("Ann")).await.unwrap();
        }
        let crew = place.crew(&Script::default());
        if !early {
            until("it waits", async || place.states(run.id()).await == "a=succeeded b=waiting").await;
            place.bugle.flow().signal(&key, &"yes", Some("Ann")).await.unwrap();
        }
        assert_eq!(place.ended(&run).await, (RunState::Succeeded, "a=succeeded b=succeeded".to_owned()));
        let steps = place.bugle.flow().steps(run.id()).await.unwrap();
        assert_eq!(steps[1].output.as_ref().unwrap().0.get(), "\"yes\"");
        assert_eq!(steps[1].worker.as_deref(), Some("Ann"));
        assert_eq!(place.one::<i64>("SELECT count(*) FROM bugle.signal").await, 0, "it was taken");
        crew.stop().await;
    }
}

#[tokio::test]
async fn a_signal_that_does_not_come_in_time_is_a_failure() {
    let more = json!({"b": {"kind": "signal", "signal": {"key": "k", "timeout_ms": 200}}});
    let place = Place::with(&["a", "b < a", "c < b!"], more).await;
    let crew = place.crew(&Script::default());
    let ended = place.ended(&place.start().await).await;
    assert_eq!(ended, (RunState::Succeeded, "a=succeeded b=failed c=succeeded".to_owned()));
    crew.stop().await;
}

#[tokio::test]
async fn one_signal_is_for_one_step() {
    let more = json!({"a": {"kind": "signal", "signal": {"key": "k"}}, "b": {"kind": "signal", "signal": {"key": "k"}}});
    let place = Place::with(&["a", "b"], more).await;
    let crew = place.crew(&Script::default());
    let run = place.start().await;
    place.bugle.flow().signal("k", &1, None).await.unwrap();
    until("one has it", async || place.states(run.id()).await == "a=succeeded b=waiting").await;
    place.bugle.flow().signal("k", &2, None).await.unwrap();
    assert_eq!(place.ended(&run).await.0, RunState::Succeeded);
    crew.stop().await;
}

#[tokio::test]
async fn deadlines_end_steps_and_runs() {
    // Nobody serves the queue of b.
    let place =
        Place::with(&["a", "b < a", "c < b!"], json!({"b": {"queue": "nobody", "deadline_ms": 200}})).await;
    let crew = place.crew(&Script::default());
    let ended = place.ended(&place.start().await).await;
    assert_eq!(ended, (RunState::Succeeded, "a=succeeded b=failed c=succeeded".to_owned()));
    let mut late = crate::fixture::spec(&["a", "b < a"], &json!({"b": {"queue": "nobody"}}));
    late["deadline_ms"] = json!(300);
    place.define(&late).await;
    let ended = place.ended(&place.start().await).await;
    assert_eq!(ended, (RunState::Failed, "a=succeeded b=cancelled".to_owned()));
    crew.stop().await;
}
