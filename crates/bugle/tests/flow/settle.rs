//! What happens when several things happen at once, or too late.

use crate::fixture::{Place, SOON, Script, spec, until};
use bugle::flow::{By, RunState, Step};
use bugle::{Bugle, Done};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const ANN: By = By { actor: Some("Ann"), reason: Some("no longer wanted") };

/// A worker whose steps tell that they have begun, and wait until they may end.
struct Gated {
    bugle: Bugle,
    begun: mpsc::UnboundedReceiver<String>,
    open: Arc<Semaphore>,
    stop: CancellationToken,
    working: JoinHandle<()>,
}

impl Gated {
    /// One on a node of its own that hears of a lost lease only after an hour, and runs so many steps at once. A node knows when its leases end: one that
    /// a test ends before its time is found by another.
    async fn new(place: &Place, steps: u32) -> Self {
        let bugle = place.db.bugle().await.unwrap();
        let (tell, begun) = mpsc::unbounded_channel();
        let (open, stop) = (Arc::new(Semaphore::new(0)), CancellationToken::new());
        let worker = bugle.flow().worker("steps").concurrency(steps);
        let mut worker = worker.lease(Duration::from_hours(3)).drain(Duration::ZERO);
        for name in ["a", "b", "c", "d"] {
            let (tell, open) = (tell.clone(), open.clone());
            worker = worker.handle(name, move |step: Step| {
                let (tell, open) = (tell.clone(), open.clone());
                async move {
                    tell.send(step.name.clone()).unwrap();
                    open.acquire().await.unwrap().forget();
                    Done(step.name)
                }
            });
        }
        let working = tokio::spawn({
            let stop = stop.clone();
            async move { worker.run(stop).await.unwrap() }
        });
        Self { bugle, begun, open, stop, working }
    }

    async fn next(&mut self) -> String {
        tokio::time::timeout(SOON, self.begun.recv()).await.expect("no step began").unwrap()
    }

    async fn stop(self) {
        self.stop.cancel();
        self.working.await.unwrap();
        drop(self.bugle); // no sooner
    }
}

#[tokio::test]
async fn two_parents_that_end_at_once_make_their_child_ready_once() {
    let place = Place::with(&["a", "b", "c < a b"], json!({})).await;
    let mut gated = Gated::new(&place, 8).await;
    for _ in 0..20 {
        let run = place.start().await;
        gated.next().await;
        gated.next().await;
        gated.open.add_permits(2);
        assert_eq!(gated.next().await, "c");
        gated.open.add_permits(1);
        assert_eq!(place.ended(&run).await.0, RunState::Succeeded);
    }
    assert!(gated.begun.try_recv().is_err(), "none ran twice");
    gated.stop().await;
}

#[tokio::test]
async fn cancelling_a_run_stops_what_runs_and_nothing_begins_any_more() {
    let place = Place::with(&["a", "b < a", "c"], json!({})).await;
    let mut gated = Gated::new(&place, 8).await;
    let run = place.start().await;
    gated.next().await;
    gated.next().await;
    assert!(place.bugle.flow().cancel(run.id(), ANN).await.unwrap());
    assert!(!place.bugle.flow().cancel(run.id(), By::default()).await.unwrap(), "it has ended");
    let ended = place.ended(&run).await;
    assert_eq!(ended, (RunState::Cancelled, "a=cancelled b=cancelled c=cancelled".to_owned()));
    gated.open.add_permits(10); // had the handlers not been dropped they would end now
    let logged = "SELECT count(*) FROM bugle.flow_event WHERE cause = 'cancel' AND actor = 'Ann' AND why = 'no longer wanted'";
    assert_eq!(place.one::<i64>(logged).await, 4, "the run and its three steps");
    let left = "SELECT count(*) FROM bugle.job";
    until("whoever ran them ends their jobs", async || place.one::<i64>(left).await == 0).await;
    gated.stop().await;
    assert_eq!(place.states(run.id()).await, "a=cancelled b=cancelled c=cancelled");
}

#[tokio::test]
async fn who_finishes_after_another_has_taken_over_changes_nothing() {
    let place = Place::with(&["a", "b < a"], json!({"b": {"queue": "nobody"}})).await;
    let mut first = Gated::new(&place, 1).await;
    let run = place.start().await;
    first.next().await;
    // Its lease ends although it lives, and another one takes over.
    place.end_leases().await;
    let crew = place.crew(&Script::default());
    until("another one ends it", async || place.states(run.id()).await == "a=succeeded b=ready").await;
    let since = "SELECT since::text FROM bugle.step WHERE no = 1";
    let before: String = place.one(since).await;
    first.open.add_permits(2);
    first.stop().await;
    crew.stop().await;
    assert_eq!(place.one::<String>(since).await, before, "it ended once");
    let ends = "SELECT count(*) FROM bugle.flow_event WHERE no = 1 AND to_state = 'succeeded'";
    assert_eq!(place.one::<i64>(ends).await, 1);
    assert_eq!(place.states(run.id()).await, "a=succeeded b=ready");
}

#[tokio::test]
async fn a_step_whose_workers_all_die_has_failed_when_its_attempts_are_used_up() {
    let place = Place::with(&["a", "b < a!"], json!({"a": {"attempts": 2}})).await;
    let run = place.start().await;
    let mut dead = Vec::new();
    for _ in 0..2 {
        let mut gated = Gated::new(&place, 1).await;
        gated.next().await;
        place.end_leases().await;
        dead.push(gated); // no word of it
    }
    let crew = place.crew(&Script::default());
    assert_eq!(place.ended(&run).await, (RunState::Succeeded, "a=failed b=succeeded".to_owned()));
    assert_eq!(place.one::<String>("SELECT why FROM bugle.step WHERE no = 1").await, "lease_expired");
    crew.stop().await;
    for gated in dead {
        gated.stop().await;
    }
}

#[tokio::test]
async fn a_run_keeps_the_version_with_which_it_was_started() {
    let place = Place::with(&["a", "b < a"], json!({})).await;
    let run = place.start().await;
    assert_eq!(place.define(&spec(&["a", "c < a"], &json!({}))).await, 2);
    assert_eq!(place.define(&spec(&["a", "c < a"], &json!({}))).await, 2, "the same again");
    let crew = place.crew(&Script::default());
    assert_eq!(place.ended(&run).await, (RunState::Succeeded, "a=succeeded b=succeeded".to_owned()));
    let newer = place.start().await;
    assert_eq!(place.ended(&newer).await, (RunState::Succeeded, "a=succeeded c=succeeded".to_owned()));
    crew.stop().await;
}

#[tokio::test]
async fn a_start_belongs_to_the_transaction_that_it_is_made_in() {
    let place = Place::with(&["a"], json!({})).await;
    let (flow, pool) = (place.bugle.flow(), place.db.pool());
    let mut tx = pool.begin().await.unwrap();
    flow.start("d", &1).on(&mut *tx).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(place.one::<i64>("SELECT count(*) FROM bugle.run").await, 0);
    let mut tx = pool.begin().await.unwrap();
    let run = flow.start("d", &1).on(&mut *tx).await.unwrap();
    assert_eq!(place.one::<i64>("SELECT count(*) FROM bugle.run").await, 0);
    tx.commit().await.unwrap();
    assert_eq!(place.states(run.id()).await, "a=ready");
}

#[tokio::test]
async fn a_start_is_repeated_by_its_key_or_by_its_input_as_the_definition_says() {
    let place = Place::new().await;
    let flow = place.bugle.flow();
    for (identity, name) in [("always_new", "new"), ("strict", "strict"), ("key", "key")] {
        let mut spec = spec(&["a"], &json!({}));
        spec["name"] = json!(name);
        spec["identity"] = json!(identity);
        place.define(&spec).await;
    }
    let (one, two) =
        (flow.start("new", &1).send().await.unwrap(), flow.start("new", &1).send().await.unwrap());
    assert_ne!(one.id(), two.id());
    let (one, two) = (
        flow.start("new", &1).key("k").send().await.unwrap(),
        flow.start("new", &2).key("k").send().await.unwrap(),
    );
    assert_eq!(one.id(), two.id());
    let (one, two) =
        (flow.start("strict", &1).send().await.unwrap(), flow.start("strict", &1).send().await.unwrap());
    assert_eq!(one.id(), two.id());
    assert_ne!(flow.start("strict", &2).send().await.unwrap().id(), one.id());
    let refused = flow.start("key", &1).send().await.err().unwrap().to_string();
    assert!(refused.contains("wants a key"), "{refused}");
    assert!(flow.start("key", &1).key("k").send().await.unwrap().id() != one.id());
    let refused = flow.start("none", &1).send().await.err().unwrap().to_string();
    assert!(refused.contains(r#"definition "none" does not exist"#), "{refused}");
}

#[tokio::test]
async fn a_step_ends_inside_the_transaction_of_its_handler() {
    let place = Place::with(&["a", "b < a"], json!({"b": {"queue": "nobody"}})).await;
    let pool = place.db.pool().clone();
    let stop = CancellationToken::new();
    let worker = place.bugle.flow().worker("steps").handle("a", move |step: Step| {
        let pool = pool.clone();
        async move {
            let mut tx = pool.begin().await.unwrap();
            step.complete_in(&mut tx, &"out").await.unwrap();
            if step.attempt == 1 {
                tx.rollback().await.unwrap(); // as if it had never been
            } else {
                tx.commit().await.unwrap();
            }
            Done("ignored")
        }
    });
    let working = tokio::spawn({
        let stop = stop.clone();
        async move { worker.run(stop).await.unwrap() }
    });
    let run = place.start().await;
    until("it has ended", async || place.states(run.id()).await == "a=succeeded b=ready").await;
    let steps = place.bugle.flow().steps(run.id()).await.unwrap();
    assert_eq!((steps[0].attempt, steps[0].output.as_ref().unwrap().0.get()), (2, "\"out\""));
    stop.cancel();
    working.await.unwrap();
}

#[tokio::test]
async fn a_run_that_somebody_holds_holds_up_no_other() {
    let place = Place::with(&["a"], json!({})).await;
    let mut gated = Gated::new(&place, 8).await;
    let (held, free) = (place.start().await, place.start().await);
    gated.next().await;
    gated.next().await;
    let mut stranger = place.db.pool().begin().await.unwrap();
    let lock = place.db.sql("SELECT 1 FROM bugle.run WHERE id = $1 FOR UPDATE").unwrap();
    sqlx::query(lock).bind(held.id()).execute(&mut *stranger).await.unwrap();
    gated.open.add_permits(2); // both end, in one statement
    assert_eq!(place.ended(&free).await, (RunState::Succeeded, "a=succeeded".to_owned()));
    assert_eq!(place.states(held.id()).await, "a=running");
    stranger.rollback().await.unwrap();
    assert_eq!(place.ended(&held).await, (RunState::Succeeded, "a=succeeded".to_owned()));
    gated.stop().await;
}

#[tokio::test]
async fn the_job_that_carries_a_step_is_nobody_elses() {
    let place = Place::with(&["a"], json!({})).await;
    let run = place.start().await;
    let job = place.one::<i64>("SELECT id FROM bugle.job").await;
    assert_eq!(place.bugle.cancel_job(bugle::JobId(job)).await.unwrap(), None, "it is no job of anybody's");
    assert!(
        place
            .bugle
            .enqueue_raw("steps", "k", serde_json::value::to_raw_value(&1).unwrap())
            .send()
            .await
            .is_err()
    );
    assert_eq!(place.states(run.id()).await, "a=ready");
}
