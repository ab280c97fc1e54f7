//! What people do with runs and steps.

use crate::fixture::{Place, Script, again, broken, until};
use bugle::Verdict;
use bugle::flow::{By, RunHandle, RunState};
use serde_json::json;
use std::time::Duration;

const ANN: By = By { actor: Some("Ann"), reason: Some("because") };
const LINEAR: &[&str] = &["a", "b < a", "c < b"];

/// A run of a, b and c, in which b has failed.
async fn failed() -> (Place, RunHandle, crate::fixture::Crew) {
    let place = Place::with(LINEAR, json!({})).await;
    let crew = place.crew(&Script::default().on("b", [broken()]));
    let run = place.start().await;
    assert_eq!(place.ended(&run).await, (RunState::Failed, "a=succeeded b=failed c=skipped".to_owned()));
    (place, run, crew)
}

/// Waits until it has ended so.
async fn ends(place: &Place, run: &RunHandle, state: RunState, states: &str) {
    until("it has ended", async || {
        place.bugle.flow().show(run.id()).await.unwrap().unwrap().state == state
            && place.states(run.id()).await == states
    })
    .await;
}

#[tokio::test]
async fn a_step_that_failed_is_tried_again_and_the_run_goes_on() {
    let (place, run, crew) = failed().await;
    let flow = place.bugle.flow();
    assert_eq!(flow.retry(run.id(), "b", 0, ANN).await.unwrap(), "failed");
    ends(&place, &run, RunState::Succeeded, "a=succeeded b=succeeded c=succeeded").await;
    let refused = flow.retry(run.id(), "b", 0, ANN).await.unwrap_err().to_string();
    assert!(refused.contains("is succeeded"), "{refused}");
    let refused = flow.retry(run.id(), "x", 0, ANN).await.unwrap_err().to_string();
    assert!(refused.contains("has no step \"x\"") && refused.contains("a, b, c"), "{refused}");
    crew.stop().await;
}

#[tokio::test]
async fn a_step_is_resolved_or_skipped_by_hand() {
    let (place, run, crew) = failed().await;
    let flow = place.bugle.flow();
    assert_eq!(flow.resolve(run.id(), "b", json!({"by": "hand"}), ANN).await.unwrap(), "failed");
    ends(&place, &run, RunState::Succeeded, "a=succeeded b=succeeded c=succeeded").await;
    let steps = flow.steps(run.id()).await.unwrap();
    assert_eq!(steps[1].output.as_ref().unwrap().0.get(), r#"{"by": "hand"}"#);
    assert_eq!(steps[1].worker.as_deref(), Some("Ann"));
    crew.stop().await;

    let (place, run, crew) = failed().await;
    assert_eq!(place.bugle.flow().skip(run.id(), "b", ANN).await.unwrap(), "failed");
    ends(&place, &run, RunState::Succeeded, "a=succeeded b=skipped c=skipped").await;
    crew.stop().await;
}

#[tokio::test]
async fn a_run_is_restarted_from_a_step() {
    let place = Place::with(&["a", "b < a", "c < b", "d < a"], json!({})).await;
    let crew = place.crew(&Script::default());
    let run = place.start().await;
    assert_eq!(place.ended(&run).await.0, RunState::Succeeded);
    let ran = "SELECT string_agg(no::text, '' ORDER BY at, no) FROM bugle.flow_event WHERE to_state = 'running' AND no > 0";
    let before: String = place.one(ran).await;
    assert_eq!(place.bugle.flow().restart(run.id(), "b", ANN).await.unwrap(), 2);
    ends(&place, &run, RunState::Succeeded, "a=succeeded b=succeeded c=succeeded d=succeeded").await;
    assert_eq!(place.one::<String>(ran).await, format!("{before}23"), "those two and no other");
    crew.stop().await;
}

#[tokio::test]
async fn an_element_of_a_map_is_tried_again_alone() {
    let place =
        Place::with(&["m", "b < m"], json!({"m": {"kind": "map", "over": {"no": null, "at": "/list"}}}))
            .await;
    let crew = place.crew(&Script::default().on("m.2", [broken()]));
    let run = place.start().await;
    let failed = "m=failed m.1=succeeded m.2=failed m.3=succeeded b=skipped";
    assert_eq!(place.ended(&run).await, (RunState::Failed, failed.to_owned()));
    assert_eq!(place.bugle.flow().retry(run.id(), "m", 2, ANN).await.unwrap(), "failed");
    ends(
        &place,
        &run,
        RunState::Succeeded,
        "m=succeeded m.1=succeeded m.2=succeeded m.3=succeeded b=succeeded",
    )
    .await;
    crew.stop().await;
}

#[tokio::test]
async fn a_step_that_waits_for_its_next_attempt_is_tried_at_once() {
    let place = Place::with(LINEAR, json!({})).await;
    let later = Verdict::retry_in(Duration::from_hours(1), "later", "not now");
    let crew = place.crew(&Script::default().on("b", [later, again()]));
    let run = place.start().await;
    until("it waits", async || place.states(run.id()).await == "a=succeeded b=waiting c=pending").await;
    assert_eq!(place.bugle.flow().retry(run.id(), "b", 0, ANN).await.unwrap(), "waiting");
    ends(&place, &run, RunState::Succeeded, "a=succeeded b=succeeded c=succeeded").await;
    crew.stop().await;
}

#[tokio::test]
async fn a_paused_run_begins_nothing_until_it_is_resumed() {
    let place = Place::with(&["a", "b"], json!({})).await;
    let flow = place.bugle.flow();
    let run = place.start().await;
    assert!(flow.pause(run.id(), ANN).await.unwrap());
    assert!(!flow.pause(run.id(), ANN).await.unwrap(), "it is already");
    let crew = place.crew(&Script::default());
    until("both are held", async || place.states(run.id()).await == "a=waiting b=waiting").await;
    assert!(flow.resume(run.id(), ANN).await.unwrap());
    ends(&place, &run, RunState::Succeeded, "a=succeeded b=succeeded").await;
    assert!(!flow.resume(run.id(), ANN).await.unwrap(), "it was not paused");
    crew.stop().await;
}

#[tokio::test]
async fn what_has_been_followed_by_others_is_restarted_not_retried() {
    let place = Place::with(&["a", "b < a!"], json!({})).await;
    let crew = place.crew(&Script::default().on("a", [broken()]));
    let run = place.start().await;
    assert_eq!(place.ended(&run).await, (RunState::Succeeded, "a=failed b=succeeded".to_owned()));
    let refused = place.bugle.flow().retry(run.id(), "a", 0, ANN).await.unwrap_err().to_string();
    assert!(refused.contains("have begun: b") && refused.contains("Restart"), "{refused}");
    place.bugle.flow().restart(run.id(), "a", ANN).await.unwrap();
    ends(&place, &run, RunState::Succeeded, "a=succeeded b=skipped").await;
    crew.stop().await;
}
