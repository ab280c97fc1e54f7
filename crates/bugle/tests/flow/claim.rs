//! Steps claimed and ended one by one, without a handler.
use crate::fixture::{Place, SOON};
use bugle::flow::{By, Claim, ClaimedStep, RunState, StepQueue};
use bugle::{Error, Verdict};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinHandle;

const HOUR: Duration = Duration::from_hours(1);

async fn queue(place: &Place) -> StepQueue {
    place.bugle.flow().queue("steps").await.unwrap()
}

fn by(worker: &str) -> Claim {
    Claim::new(worker).unwrap().lease(HOUR)
}

async fn one(queue: &StepQueue, worker: &str) -> ClaimedStep {
    let mut steps = queue.claim_within(&by(worker), SOON).await.unwrap();
    assert_eq!(steps.len(), 1, "{steps:?}");
    steps.remove(0)
}

fn waiting(queue: &StepQueue, worker: &'static str) -> JoinHandle<Vec<ClaimedStep>> {
    let queue = queue.clone();
    tokio::spawn(async move { queue.claim_within(&by(worker), HOUR).await.unwrap() })
}

fn json_of(raw: Option<&serde_json::value::RawValue>) -> Value {
    raw.map_or(Value::Null, |raw| serde_json::from_str(raw.get()).unwrap())
}

fn fault(error: &Error) -> String {
    assert!(matches!(error, Error::StepLost { .. }), "{error:?}");
    assert_eq!(error.outcome(), bugle::Outcome::Refused);
    error.to_string()
}

#[tokio::test]
async fn a_step_is_claimed_with_what_it_needs_and_its_end_lets_the_next_begin() {
    let place = Place::with(&["a", "b < a"], json!({})).await;
    let (run, queue) = (place.start().await, queue(&place).await);
    let a = one(&queue, "w").await;
    assert_eq!((a.run, &*a.name, &*a.handler, &*a.definition), (run.id(), "a", "a", "d"));
    assert_eq!((a.version, a.index, a.attempt, a.attempts), (1, 0, 1, 3));
    assert_eq!(json_of(a.input.as_deref()), json!({"list": [1, 2, 3]}));
    assert_eq!(place.states(run.id()).await, "a=running b=pending");
    assert!(queue.claim(&by("w")).await.unwrap().is_empty(), "the other waits for it");
    queue.renew(&a.receipt).await.unwrap();
    let kept = serde_json::value::to_raw_value(&json!({"page": 3})).unwrap();
    queue.save(&a.receipt, Some(kept.clone()), Some(kept)).await.unwrap();
    // As it travels: through a text.
    let receipt = a.receipt.to_string().parse().unwrap();
    let end = queue.settle(&receipt, Verdict::done_with(&json!({"n": 1}))).await.unwrap();
    assert_eq!((&*end.state, end.was_ended), ("succeeded", false));
    let b = one(&queue, "w").await;
    assert_eq!(json_of(b.outputs.as_deref()), json!({"a": {"n": 1}}));
    queue.settle(&b.receipt, Verdict::Done).await.unwrap();
    assert_eq!(place.ended(&run).await, (RunState::Succeeded, "a=succeeded b=succeeded".to_owned()));
    let leases: i64 = place.one("SELECT count(*) FROM bugle.lease").await;
    assert_eq!(leases, 0, "each was closed with its only step");
}

#[tokio::test]
async fn of_two_who_wait_one_gets_the_step() {
    let place = Place::with(&["a", "b < a"], json!({})).await;
    let queue = queue(&place).await;
    let waiters = [waiting(&queue, "w1"), waiting(&queue, "w2")];
    let run = place.start().await;
    // Whoever gets the first step ends it, and the other gets the second: nobody is left waiting, and nobody got the same.
    let answers = waiters.into_iter().map(|waiter| {
        let queue = queue.clone();
        Box::pin(async move {
            let mut steps = waiter.await.unwrap();
            assert_eq!(steps.len(), 1);
            let step = steps.remove(0);
            queue.settle(&step.receipt, Verdict::Done).await.unwrap();
            step.name
        })
    });
    let (name, _, rest) = futures_util::future::select_all(answers).await;
    let mut names = vec![name];
    names.extend(futures_util::future::join_all(rest).await);
    assert_eq!(names, ["a", "b"]);
    assert_eq!(place.ended(&run).await.0, RunState::Succeeded);
}

#[tokio::test]
async fn whoever_goes_while_it_waits_takes_nothing_along() {
    let place = Place::with(&["a"], json!({})).await;
    let queue = queue(&place).await;
    for _ in 0..20 {
        let waiter = waiting(&queue, "gone");
        let (run, ()) = tokio::join!(place.start(), async { waiter.abort() });
        let step = match waiter.await {
            Ok(mut steps) => steps.remove(0), // it was faster
            Err(_) => one(&queue, "w").await,
        };
        assert_eq!((step.run, step.attempt), (run.id(), 1), "given back at once, and not counted");
        queue.settle(&step.receipt, Verdict::Done).await.unwrap();
        assert_eq!(place.ended(&run).await.0, RunState::Succeeded);
    }
}

#[tokio::test]
async fn a_late_finisher_is_told_who_has_the_step_now() {
    let place = Place::with(&["a", "b < a"], json!({})).await;
    let (run, queue) = (place.start().await, queue(&place).await);
    let late = one(&queue, "slow").await;
    place.end_leases().await;
    let unclaimed = fault(&queue.renew(&late.receipt).await.unwrap_err());
    assert!(unclaimed.contains("its lease has ended"), "{unclaimed}");
    let taken = one(&queue, "quick").await;
    assert_eq!((taken.run, taken.attempt), (run.id(), 2));
    let kept = serde_json::value::to_raw_value(&1).unwrap();
    for error in [
        queue.settle(&late.receipt, Verdict::done_with(&"late")).await.unwrap_err(),
        queue.settle(&late.receipt, Verdict::dead("late", "late")).await.unwrap_err(),
        queue.settle(&late.receipt, Verdict::Release).await.unwrap_err(),
        queue.renew(&late.receipt).await.unwrap_err(),
        queue.save(&late.receipt, Some(kept), None).await.unwrap_err(),
    ] {
        let fault = fault(&error);
        assert!(
            fault.starts_with(&format!("step \"a\" of run {} was taken over by worker \"quick\"", run.id())),
            "{fault}"
        );
        assert!(fault.contains("claim again"), "{fault}");
    }
    assert_eq!(place.states(run.id()).await, "a=running b=pending");
    queue.settle(&taken.receipt, Verdict::done_with(&"in time")).await.unwrap();
    assert_eq!(json_of(one(&queue, "w").await.outputs.as_deref()), json!({"a": "in time"}));
}

#[tokio::test]
async fn the_same_end_again_is_answered_as_the_first_time() {
    let place = Place::with(&["a", "b"], json!({})).await;
    let (run, queue) = (place.start().await, queue(&place).await);
    let both = queue.claim_within(&by("w").most(2).unwrap(), SOON).await.unwrap();
    let [a, b] = &both[..] else { panic!("{both:?}") };
    for was_ended in [false, true] {
        let end = queue.settle(&a.receipt, Verdict::done_with(&1)).await.unwrap();
        assert_eq!((&*end.state, end.was_ended), ("succeeded", was_ended));
        let end = queue.settle(&b.receipt, Verdict::dead("no", "never")).await.unwrap();
        assert_eq!((&*end.state, end.was_ended), ("failed", was_ended));
    }
    let other = fault(&queue.settle(&a.receipt, Verdict::fail("no", "no")).await.unwrap_err());
    assert!(other.contains("is succeeded"), "{other}");
    assert_eq!(place.ended(&run).await.0, RunState::Failed);
}

#[tokio::test]
async fn a_failure_is_tried_again_by_the_rule_or_when_it_says() {
    let more = json!({"a": {"attempts": 4, "backoff": {"table_s": [0, 1000, 2000, 3000]}}});
    let place = Place::with(&["a"], more).await;
    let (run, queue) = (place.start().await, queue(&place).await);
    let by_rule = queue.settle(&one(&queue, "w").await.receipt, Verdict::fail("x", "by rule")).await.unwrap();
    let wait = by_rule.due_at.unwrap() - chrono::Utc::now();
    assert!((900..=1_000).contains(&wait.num_seconds()), "{wait}");
    assert_eq!((&*by_rule.state, by_rule.message.as_deref()), ("waiting", Some("by rule")));
    place.bugle.flow().retry(run.id(), "a", 0, By::default()).await.unwrap();
    let soon = Verdict::retry_in(Duration::ZERO, "x", "now");
    queue.settle(&one(&queue, "w").await.receipt, soon).await.unwrap();
    let again = one(&queue, "w").await;
    assert_eq!(again.attempt, 2);
    let end = queue.settle(&again.receipt, Verdict::dead("x", "never")).await.unwrap();
    assert_eq!((&*end.state, end.due_at), ("failed", None));
    assert_eq!(place.ended(&run).await.0, RunState::Failed);
}

#[tokio::test]
async fn what_is_given_back_is_ready_for_anybody_and_not_counted() {
    let place = Place::with(&["a"], json!({})).await;
    let (run, queue) = (place.start().await, queue(&place).await);
    let step = one(&queue, "w1").await;
    assert_eq!(queue.settle(&step.receipt, Verdict::Release).await.unwrap().state, "ready");
    assert_eq!(place.states(run.id()).await, "a=ready");
    let now = place.one("SELECT clock_timestamp()").await;
    let logged = place.bugle.flow().run_at(run.id(), now).await.unwrap().unwrap();
    let (logged, there) = (&logged.steps[0].row, &place.bugle.flow().steps(run.id()).await.unwrap()[0]);
    assert_eq!(
        (&logged.state, logged.attempt, &logged.worker),
        (&there.state, 0, &there.worker),
        "as the log says"
    );
    let given_back = fault(&queue.settle(&step.receipt, Verdict::Done).await.unwrap_err());
    assert!(given_back.contains("given back"), "{given_back}");
    let step = one(&queue, "w2").await;
    assert_eq!(step.attempt, 1);
    queue.settle(&step.receipt, Verdict::Done).await.unwrap();
    assert_eq!(place.ended(&run).await.0, RunState::Succeeded);
}

#[tokio::test]
async fn whoever_holds_a_step_of_a_cancelled_run_is_told_so() {
    let place = Place::with(&["a"], json!({})).await;
    let (run, queue) = (place.start().await, queue(&place).await);
    let step = one(&queue, "w").await;
    place.bugle.flow().cancel(run.id(), By::default()).await.unwrap();
    for error in [
        queue.renew(&step.receipt).await.unwrap_err(),
        queue.settle(&step.receipt, Verdict::done_with(&1)).await.unwrap_err(),
        queue.settle(&step.receipt, Verdict::done_with(&1)).await.unwrap_err(),
    ] {
        assert!(fault(&error).contains("was cancelled"), "{error}");
    }
    assert_eq!(place.ended(&run).await, (RunState::Cancelled, "a=cancelled".to_owned()));
}

#[tokio::test]
async fn a_step_that_has_run_for_too_long_is_not_kept_alive() {
    let place = Place::with(&["a"], json!({"a": {"timeout_ms": 60_000}})).await;
    let (_, queue) = (place.start().await, queue(&place).await);
    let step = one(&queue, "w").await;
    assert_eq!(step.timeout, Some(Duration::from_mins(1)));
    queue.renew(&step.receipt).await.unwrap();
    place.one::<i64>("WITH u AS (UPDATE bugle.step SET since = since - interval '2 minutes' RETURNING 1) SELECT count(*) FROM u").await;
    let late = fault(&queue.renew(&step.receipt).await.unwrap_err());
    assert!(late.contains("longer than its timeout"), "{late}");
    queue.settle(&step.receipt, Verdict::fail("timeout", "too slow")).await.unwrap();
}

#[tokio::test]
async fn a_choice_of_no_child_fails_the_decision() {
    let place = Place::with(&["a", "b < a", "c < a"], json!({"a": {"kind": "decision"}})).await;
    let (run, queue) = (place.start().await, queue(&place).await);
    let end = queue.settle(&one(&queue, "w").await.receipt, Verdict::done_with(&["x"])).await.unwrap();
    assert_eq!(end.state, "failed");
    assert!(
        end.message.as_deref().is_some_and(|m| m.contains("the steps to choose from are b, c")),
        "{end:?}"
    );
    assert_eq!(place.ended(&run).await.0, RunState::Failed);
}

#[tokio::test]
async fn attempts_that_never_came_back_end_the_step_and_nobody_gets_it() {
    let place = Place::with(&["a"], json!({"a": {"attempts": 2}})).await;
    let (run, queue) = (place.start().await, queue(&place).await);
    for attempt in 1..=2 {
        assert_eq!(one(&queue, "w").await.attempt, attempt);
        place.end_leases().await;
    }
    let waiter = waiting(&queue, "w");
    assert_eq!(place.ended(&run).await, (RunState::Failed, "a=failed".to_owned()));
    waiter.abort();
}

#[tokio::test]
async fn a_receipt_is_for_its_queue_alone() {
    let place = Place::with(&["a", "b"], json!({"b": {"queue": "other"}})).await;
    let (run, queue) = (place.start().await, queue(&place).await);
    let other = place.bugle.flow().queue("other").await.unwrap();
    let (a, b) = (one(&queue, "w").await, one(&other, "w").await);
    assert_eq!((a.receipt.queue(), b.receipt.queue()), ("steps", "other"));
    assert!(queue.settle(&b.receipt, Verdict::Done).await.is_err());
    assert!(queue.renew(&b.receipt).await.is_err());
    // One job's place with another lease's token.
    let own: Vec<String> = a.receipt.to_string().split('.').map(str::to_owned).collect();
    let mut forged: Vec<String> = b.receipt.to_string().split('.').map(str::to_owned).collect();
    forged[4].clone_from(&own[4]);
    assert!(other.settle(&forged.join(".").parse().unwrap(), Verdict::Done).await.is_err());
    assert_eq!(place.states(run.id()).await, "a=running b=running");
    other.settle(&b.receipt, Verdict::Done).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_claimed_is_refused_with_what_to_do() {
    let place = Place::with(&["a"], json!({})).await;
    for (refused, why) in [
        (Claim::new("").map(drop), "1 to 255 bytes"),
        (Claim::new("a\nb").map(drop), "control characters"),
        (Claim::new("w").unwrap().most(0).map(drop), "use 1 to 100"),
        (Claim::new("w").unwrap().most(101).map(drop), "use 1 to 100"),
        (place.bugle.flow().queue("").await.map(drop), "is empty"),
        (place.bugle.flow().queue("flow engine").await.map(drop), "a definition names"),
    ] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let short = Claim::new("w").unwrap().lease(Duration::ZERO);
    assert!(queue(&place).await.claim(&short).await.unwrap_err().to_string().contains("100 milliseconds"));
}
