//! Shapes of workflows, each as it goes well, as it fails and recovers, and as it fails.

use crate::fixture::{Place, Script, again, broken};
use bugle::Verdict;
use bugle::flow::RunState;
use serde_json::{Value, json};

const LINEAR: &[&str] = &["a", "b < a", "c < b", "d < c"];
const DIAMOND: &[&str] = &["a", "b < a", "c < a", "d < b c"];
const TREE: &[&str] = &["a", "b < a", "c < a", "d < b", "e < b", "f < c", "g < c", "h < d e f g"];
const MIXED: &[&str] = &["a", "b", "c < a b", "d < a", "e < c d", "f < e", "g < b"];

/// Runs it to its end, and says how its steps ended.
async fn play(steps: &[&str], more: Value, script: Script) -> (RunState, String) {
    let place = Place::with(steps, more).await;
    let crew = place.crew(&script);
    let run = place.start().await;
    let ended = place.ended(&run).await;
    crew.stop().await;
    assert_eq!(place.one::<i64>("SELECT count(*) FROM bugle.run WHERE ended_at IS NULL").await, 0);
    ended
}

#[tokio::test]
async fn every_shape_goes_through() {
    for steps in [LINEAR, DIAMOND, TREE, MIXED] {
        let (state, states) = play(steps, json!({}), Script::default()).await;
        assert_eq!(state, RunState::Succeeded);
        assert_eq!(states.matches("=succeeded").count(), steps.len(), "{states}");
    }
}

#[tokio::test]
async fn every_shape_recovers_from_attempts_that_fail() {
    for steps in [LINEAR, DIAMOND, TREE, MIXED] {
        let mut script = Script::default();
        for name in ["a", "b", "c", "d"] {
            script =
                script.on(name, [again(), Verdict::retry_in(std::time::Duration::ZERO, "passing", "again")]);
        }
        let (state, states) = play(steps, json!({}), script).await;
        assert_eq!(state, RunState::Succeeded, "{states}");
        assert_eq!(states.matches("=succeeded").count(), steps.len(), "{states}");
    }
}

#[tokio::test]
async fn a_failure_is_the_end_of_what_comes_after_it() {
    let cases = [
        (LINEAR, "a", "a=failed b=skipped c=skipped d=skipped"),
        (LINEAR, "c", "a=succeeded b=succeeded c=failed d=skipped"),
        (DIAMOND, "b", "a=succeeded b=failed c=succeeded d=skipped"),
        (DIAMOND, "d", "a=succeeded b=succeeded c=succeeded d=failed"),
        (MIXED, "d", "a=succeeded b=succeeded c=succeeded d=failed e=skipped f=skipped g=succeeded"),
    ];
    for (steps, fails, expected) in cases {
        let (state, states) = play(steps, json!({}), Script::default().on(fails, [broken()])).await;
        assert_eq!((state, states.as_str()), (RunState::Failed, expected));
    }
}

#[tokio::test]
async fn a_step_that_fails_until_its_attempts_are_used_up_has_failed() {
    let (state, states) =
        play(LINEAR, json!({"b": {"attempts": 2}}), Script::default().on("b", [again(), again(), again()]))
            .await;
    assert_eq!((state, states.as_str()), (RunState::Failed, "a=succeeded b=failed c=skipped d=skipped"));
}

#[tokio::test]
async fn edges_on_failure_see_to_it_and_those_on_always_run_in_any_case() {
    let steps = &["a", "b < a", "c < a!", "d < a*", "e | b c"];
    let (state, states) = play(steps, json!({}), Script::default()).await;
    assert_eq!(
        (state, states.as_str()),
        (RunState::Succeeded, "a=succeeded b=succeeded c=skipped d=succeeded e=succeeded")
    );
    let (state, states) = play(steps, json!({}), Script::default().on("a", [broken()])).await;
    assert_eq!(
        (state, states.as_str()),
        (RunState::Succeeded, "a=failed b=skipped c=succeeded d=succeeded e=succeeded")
    );
}

#[tokio::test]
async fn a_run_goes_on_after_a_failure_where_the_definition_says_so() {
    let (state, states) =
        play(LINEAR, json!({"b": {"on_failure": "continue"}}), Script::default().on("b", [broken()])).await;
    assert_eq!(
        (state, states.as_str()),
        (RunState::Succeeded, "a=succeeded b=failed c=succeeded d=succeeded")
    );
}

#[tokio::test]
async fn a_decision_chooses_which_children_run() {
    let steps = &["a", "b < a", "c < a", "d | b c"];
    let more = json!({"a": {"kind": "decision"}});
    let cases = [
        (json!("b"), "a=succeeded b=succeeded c=skipped d=succeeded"),
        (json!(["b", "c"]), "a=succeeded b=succeeded c=succeeded d=succeeded"),
        (json!([]), "a=succeeded b=skipped c=skipped d=skipped"),
    ];
    for (choice, expected) in cases {
        let script = Script::default().on("a", [Verdict::DoneWith { result: choice.clone() }]);
        let (state, states) = play(steps, more.clone(), script).await;
        assert_eq!((state, states.as_str()), (RunState::Succeeded, expected), "{choice}");
    }
    for wrong in [json!("d"), json!(["b", 7]), json!(null)] {
        let script = Script::default().on("a", [Verdict::DoneWith { result: wrong.clone() }]);
        let (state, states) = play(steps, more.clone(), script).await;
        assert_eq!(
            (state, states.as_str()),
            (RunState::Failed, "a=failed b=skipped c=skipped d=skipped"),
            "{wrong}"
        );
    }
}
