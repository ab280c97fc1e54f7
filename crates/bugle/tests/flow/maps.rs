//! Steps that run once for each element of a list.

use crate::fixture::{Place, Script, broken};
use bugle::flow::RunState;
use bugle::{Done, Verdict};
use serde_json::{Value, json};

const OVER_INPUT: &[&str] = &["a", "m < a", "b < m"];

fn over(at: &str) -> Value {
    json!({"m": {"kind": "map", "over": {"no": null, "at": at}}})
}

#[tokio::test]
async fn a_map_runs_once_for_each_element_and_its_children_get_the_list() {
    let place = Place::with(OVER_INPUT, over("/list")).await;
    let stop = tokio_util::sync::CancellationToken::new();
    let flow = place.bugle.flow();
    let worker = flow
        .worker("steps")
        .handle("a", |_| async {})
        .handle("m", |step| async move { Done(step.element::<i64>().unwrap() * 10) })
        .handle("b", |step| async move { Done(step.output::<Vec<i64>>("m").unwrap()) });
    let working = tokio::spawn({
        let stop = stop.clone();
        async move { worker.run(stop).await.unwrap() }
    });
    let run = place.start().await;
    let (state, states) = place.ended(&run).await;
    assert_eq!(state, RunState::Succeeded);
    assert_eq!(states, "a=succeeded m=succeeded m.1=succeeded m.2=succeeded m.3=succeeded b=succeeded");
    let steps = flow.steps(run.id()).await.unwrap();
    assert_eq!(steps.last().unwrap().output.as_ref().unwrap().0.get(), "[10, 20, 30]");
    stop.cancel();
    working.await.unwrap();
}

#[tokio::test]
async fn a_map_over_nothing_is_done_at_once_and_one_without_a_list_has_failed() {
    for (at, state, states) in [
        ("/none", RunState::Failed, "a=succeeded m=failed b=skipped"),
        ("", RunState::Failed, "a=succeeded m=failed b=skipped"),
    ] {
        let place = Place::with(OVER_INPUT, over(at)).await;
        let crew = place.crew(&Script::default());
        assert_eq!(place.ended(&place.start().await).await, (state, states.to_owned()), "{at}");
        crew.stop().await;
    }
    let place =
        Place::with(&["a", "m < a", "b < m"], json!({"m": {"kind": "map", "over": {"no": 1, "at": ""}}}))
            .await;
    let crew = place.crew(&Script::default().on("a", [Verdict::DoneWith { result: json!([]) }]));
    let ended = place.ended(&place.start().await).await;
    assert_eq!(ended, (RunState::Succeeded, "a=succeeded m=succeeded b=succeeded".to_owned()));
    crew.stop().await;
}

#[tokio::test]
async fn elements_that_fail_fail_the_map_unless_it_goes_on() {
    for (on_failure, state, end) in
        [("stop", RunState::Failed, "m=failed"), ("continue", RunState::Succeeded, "m=succeeded")]
    {
        let mut more = over("/list");
        more["m"]["on_failure"] = json!(on_failure);
        let place = Place::with(OVER_INPUT, more).await;
        let crew = place.crew(&Script::default().on("m.2", [broken()]));
        let (ended, states) = place.ended(&place.start().await).await;
        assert_eq!(ended, state);
        assert!(
            states.contains(end) && states.contains("m.1=succeeded m.2=failed m.3=succeeded"),
            "{states}"
        );
        crew.stop().await;
    }
}

#[tokio::test]
async fn a_map_has_no_more_elements_ready_than_it_may_run_at_once() {
    let mut more = over("/list");
    more["m"]["concurrency"] = json!(2);
    let place = Place::with(&["m"], more).await;
    let run = place.start().await;
    assert_eq!(place.states(run.id()).await, "m=waiting m.1=ready m.2=ready m.3=pending");
    let crew = place.crew(&Script::default());
    let (state, states) = place.ended(&run).await;
    assert_eq!(
        (state, states.as_str()),
        (RunState::Succeeded, "m=succeeded m.1=succeeded m.2=succeeded m.3=succeeded")
    );
    crew.stop().await;
}

#[tokio::test]
async fn a_thousand_ways_out_and_in_again() {
    let place = Place::with(OVER_INPUT, over("/list")).await;
    let crew = place.crew(&Script::default());
    let list: Vec<i64> = (0..1_000).collect();
    let run = place.bugle.flow().start("d", &json!({"list": list})).send().await.unwrap();
    let (state, states) = place.ended(&run).await;
    assert_eq!(state, RunState::Succeeded);
    assert_eq!(states.matches("=succeeded").count(), 1_003);
    crew.stop().await;
}
