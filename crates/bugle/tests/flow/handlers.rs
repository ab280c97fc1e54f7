//! What a handler is given, and what others hear of its steps.

use crate::fixture::{Place, Script, again, broken};
use bugle::Verdict;
use bugle::broker::Pop;
use bugle::flow::{RunState, Step};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Runs the step a with this handler to the end of its run.
async fn run<F, Fut>(more: Value, handler: F) -> (Place, RunState)
where
    F: Fn(Step) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Verdict> + Send + 'static,
{
    let place = Place::with(&["a"], more).await;
    let stop = CancellationToken::new();
    let worker = place.bugle.flow().worker("steps").handle("a", handler);
    let working = tokio::spawn({
        let stop = stop.clone();
        async move { worker.run(stop).await.unwrap() }
    });
    let (state, _) = place.ended(&place.start().await).await;
    stop.cancel();
    working.await.unwrap();
    (place, state)
}

#[tokio::test]
async fn the_next_attempt_finds_the_checkpoint_and_people_the_progress() {
    let (place, state) = run(json!({}), |step: Step| async move {
        match step.checkpoint::<i64>().unwrap() {
            None => {
                assert!(step.save_checkpoint(&41).await.unwrap());
                assert!(step.progress(&"half").await.unwrap());
                again()
            }
            Some(last) => Verdict::done_with(&(last + 1)),
        }
    })
    .await;
    assert_eq!(state, RunState::Succeeded);
    let kept = "SELECT s.progress::text || ' ' || v.value::text FROM bugle.step s JOIN bugle.flow_value v ON v.run = s.run AND v.no = s.no";
    assert_eq!(place.one::<String>(kept).await, "\"half\" 42");
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_has_failed() {
    let (place, state) =
        run(json!({"a": {"timeout_ms": 50, "attempts": 1}}), |_| std::future::pending()).await;
    assert_eq!(state, RunState::Failed);
    assert_eq!(place.one::<String>("SELECT why FROM bugle.step").await, "timeout");
}

#[tokio::test]
async fn the_idempotency_key_is_the_steps_and_not_the_attempts() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let (_, state) = run(json!({}), move |step: Step| {
        tell.send(step.idempotency_key()).unwrap();
        async move { if step.attempt == 1 { again() } else { Verdict::Done } }
    })
    .await;
    assert_eq!(state, RunState::Succeeded);
    assert_eq!(told.recv().await.unwrap(), told.recv().await.unwrap());
}

#[tokio::test]
async fn domain_events_are_messages_of_what_has_happened() {
    let events = |on: &[&str]| json!({"events": on.iter().map(|on| json!({"on": on, "queue": "news"})).collect::<Vec<_>>()});
    let more = json!({"a": events(&["success", "retry"]), "b": events(&["failure", "success"]), "c": events(&["always"])});
    let place = Place::with(&["a", "b < a", "c < b!"], more).await;
    let crew = place.crew(&Script::default().on("a", [again()]).on("b", [broken()]));
    let run = place.start().await;
    assert_eq!(place.ended(&run).await.0, RunState::Succeeded);
    crew.stop().await;
    let pop = Pop::new("news").unwrap().most(10).unwrap();
    let mut heard = Vec::new();
    while heard.len() < 4 {
        let popped =
            place.bugle.broker().pop_within(&pop, Duration::from_mins(1)).await.unwrap().expect("no event");
        for message in &popped.messages {
            let event: Value = serde_json::from_str(&message.payload).unwrap();
            assert_eq!((&event["run"], &event["definition"]), (&json!(run.id().0), &json!("d")));
            heard.push(format!("{} {}", event["step"].as_str().unwrap(), event["state"].as_str().unwrap()));
        }
        place
            .bugle
            .broker()
            .settle(&popped.receipts().map(|r| r.settle(bugle::broker::Verdict::Ack)).collect::<Vec<_>>())
            .await
            .unwrap();
    }
    assert_eq!(heard, ["a waiting", "a succeeded", "b failed", "c succeeded"]);
}
