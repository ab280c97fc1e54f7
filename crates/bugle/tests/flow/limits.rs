//! How many steps of a namespace run at once, on all nodes together. No heart beats here: who is refused must be rung for.
use crate::fixture::{Place, SOON, spec, until};
use bugle::flow::inspect::Reason;
use bugle::flow::{Claim, ClaimedStep, Flow, For, RunHandle, RunState, Settings, Step, StepQueue};
use bugle::wake_engine::{Node, Options};
use bugle::{Bugle, Done, Verdict};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const HOUR: Duration = Duration::from_hours(1);

fn wake() -> Options {
    let mut wake = Options::default();
    wake.times.heartbeat = HOUR;
    wake
}

/// A place with the definition `d`: `a` for the queue `steps`, `b` for the queue `other`.
async fn place(steps_most: u32) -> Place {
    let place = Place::with_wake(wake()).await;
    place.define(&spec(&["a", "b"], &json!({"b": {"queue": "other"}}))).await;
    limit(&place, Some(steps_most)).await;
    place
}

async fn limit(place: &Place, steps_most: Option<u32>) {
    let settings = Settings { steps_most: Some(steps_most), ..Settings::default() };
    place.bugle.flow().set(&settings, For::Namespace).await.unwrap();
}

/// Another node.
async fn node(place: &Place) -> Bugle {
    let schema = place.db.schema_name().unwrap();
    let options = bugle::Options { schema, wake: wake(), ..bugle::Options::default() };
    Bugle::new(place.db.pool().clone(), options).await.unwrap()
}

async fn queue(bugle: &Bugle, name: &str) -> StepQueue {
    bugle.flow().queue(name).await.unwrap()
}

fn waiting(queue: &StepQueue, lease: Duration) -> JoinHandle<Vec<ClaimedStep>> {
    let (queue, claim) = (queue.clone(), Claim::new("w").unwrap().lease(lease));
    tokio::spawn(async move { queue.claim_within(&claim, HOUR).await.unwrap() })
}

async fn given(waiting: JoinHandle<Vec<ClaimedStep>>) -> ClaimedStep {
    let mut steps = tokio::time::timeout(SOON, waiting).await.expect("nobody was rung for").unwrap();
    assert_eq!(steps.len(), 1, "{steps:?}");
    steps.remove(0)
}

/// Waits until a node sleeps with so many that wait.
async fn asleep(bugle: &Bugle, waiting: usize) {
    until("the node sleeps", async || {
        let Some(status) = bugle.node().map(Node::status) else { return false };
        status.intentions == waiting && !(status.seats.sentinel.is_empty() && status.seats.reserve.is_empty())
    })
    .await;
}

async fn succeeded(run: &RunHandle) {
    let ended = run.wait_within(SOON).await.unwrap().expect("the run has not ended");
    assert_eq!(ended.state, RunState::Succeeded);
}

#[tokio::test]
async fn who_is_refused_claims_when_a_step_of_another_queue_ends_on_another_node() {
    let place = place(1).await;
    let run = place.start().await;
    let (steps, far) = (queue(&place.bugle, "steps").await, node(&place).await);
    let other = queue(&far, "other").await;
    let a = given(waiting(&steps, HOUR)).await;
    let refused = waiting(&other, HOUR);
    asleep(&far, 1).await;
    assert!(!refused.is_finished(), "one runs already");
    let said = place.bugle.flow().why(run.id()).await.unwrap().unwrap();
    let of_b = said.waits.iter().find(|wait| wait.step == "b").unwrap();
    assert_eq!(of_b.reason, Reason::Limit { most: 1, running: 1 });
    steps.settle(&a.receipt, Verdict::Done).await.unwrap();
    let b = given(refused).await;
    other.settle(&b.receipt, Verdict::Done).await.unwrap();
    succeeded(&run).await;
    far.close().await;
}

#[tokio::test]
async fn every_way_in_which_a_step_is_given_up_makes_room() {
    let place = place(1).await;
    let run = place.start().await;
    let far = node(&place).await;
    let (steps, other) = (queue(&place.bugle, "steps").await, queue(&far, "other").await);
    for verdict in
        [Verdict::snooze(HOUR), Verdict::fail("passing", "try again"), Verdict::dead("broken", "never")]
    {
        let b = given(waiting(&other, HOUR)).await;
        let refused = waiting(&steps, HOUR);
        asleep(&place.bugle, 1).await;
        assert!(!refused.is_finished(), "one runs already");
        other.settle(&b.receipt, verdict).await.unwrap();
        let a = given(refused).await;
        // It is put off as well, and both are made ready again.
        steps.settle(&a.receipt, Verdict::snooze(HOUR)).await.unwrap();
        let now = place
            .db
            .sql("UPDATE bugle.due SET due_at = clock_timestamp() WHERE due_at > clock_timestamp()")
            .unwrap();
        sqlx::raw_sql(now).execute(place.db.pool()).await.unwrap();
        sqlx::raw_sql(place.db.sql("SELECT bugle.ring_queue('other'), bugle.ring_queue('steps')").unwrap())
            .execute(place.db.pool())
            .await
            .unwrap();
    }
    let a = given(waiting(&steps, HOUR)).await;
    let refused = waiting(&steps, HOUR);
    asleep(&place.bugle, 1).await;
    steps.settle(&a.receipt, Verdict::Release).await.unwrap();
    given(refused).await;
    let ended = place.bugle.flow().steps(run.id()).await.unwrap();
    assert_eq!((&*ended[0].state, &*ended[1].state), ("running", "failed"));
    far.close().await;
}

#[tokio::test]
async fn what_a_dead_worker_held_is_free_when_its_lease_ends() {
    let place = place(1).await;
    place.start().await;
    let far = node(&place).await;
    // Nobody renews it, and nobody looks at its queue either.
    given(waiting(&queue(&place.bugle, "steps").await, Duration::from_secs(3))).await;
    let refused = waiting(&queue(&far, "other").await, HOUR);
    asleep(&far, 1).await;
    assert!(!refused.is_finished(), "one runs already");
    assert_eq!(given(refused).await.name, "b");
    far.close().await;
}

#[tokio::test]
async fn a_limit_that_is_raised_or_lifted_lets_those_in_who_were_refused() {
    let place = place(1).await;
    for _ in 0..3 {
        place.start().await;
    }
    let steps = queue(&place.bugle, "steps").await;
    given(waiting(&steps, HOUR)).await;
    for most in [Some(2), None] {
        let refused = waiting(&steps, HOUR);
        asleep(&place.bugle, 1).await;
        assert!(!refused.is_finished(), "it is not higher yet");
        limit(&place, most).await;
        given(refused).await;
    }
    assert_eq!(place.one::<i64>("SELECT count(*) FROM bugle.claim_limit").await, 0, "nothing is left of it");
}

/// A claim for many gets what the limit leaves, and no more; whoever comes second waits for the first to have claimed.
#[tokio::test]
async fn two_claims_at_once_share_what_is_left() {
    let place = place(5).await;
    for _ in 0..10 {
        place.start().await;
    }
    let far = node(&place).await;
    let (steps, other) = (queue(&place.bugle, "steps").await, queue(&far, "other").await);
    let many = Claim::new("w").unwrap().lease(HOUR).most(4).unwrap();
    // Somebody claims under the limit and has not committed.
    let mut tx = place.db.pool().begin().await.unwrap();
    let take = "SELECT pg_advisory_xact_lock(bugle.limit_class(), id) FROM bugle.claim_limit";
    sqlx::query(place.db.sql(take).unwrap()).execute(&mut *tx).await.unwrap();
    let both = tokio::spawn(async move { tokio::join!(steps.claim(&many), other.claim(&many)) });
    let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND classid::bigint = bugle.limit_class()::bigint & 4294967295";
    until("both wait", async || place.one::<i64>(held).await == 2).await;
    tx.commit().await.unwrap();
    let (a, b) = both.await.unwrap();
    let mut got = [a.unwrap().len(), b.unwrap().len()];
    got.sort_unstable();
    assert_eq!(got, [1, 4]);
    far.close().await;
}

/// Steps that say how many of them there are.
fn worker(
    flow: &Flow,
    queue: &str,
    inside: &Arc<AtomicUsize>,
    most: &Arc<AtomicUsize>,
) -> bugle::flow::StepWorker {
    let mut worker = flow.worker(queue).concurrency(8);
    for name in ["a", "b"] {
        let (inside, most) = (inside.clone(), most.clone());
        worker = worker.handle(name, move |_: Step| {
            let (inside, most) = (inside.clone(), most.clone());
            async move {
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                Done(())
            }
        });
    }
    worker
}

#[tokio::test]
async fn two_nodes_with_sixteen_slots_each_never_run_more_and_leave_nothing() {
    let place = place(3).await;
    let far = node(&place).await;
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let stop = CancellationToken::new();
    let mut tasks = Vec::new();
    for bugle in [&place.bugle, &far] {
        for queue in ["steps", "other"] {
            tasks.push(tokio::spawn(worker(&bugle.flow(), queue, &inside, &most).run(stop.clone())));
        }
    }
    let mut runs = Vec::new();
    for _ in 0..60 {
        runs.push(place.start().await);
    }
    for run in &runs {
        succeeded(run).await;
    }
    assert!((1..=3).contains(&most.load(Ordering::SeqCst)), "{most:?} ran at once");
    stop.cancel();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    place.audit().await;
    far.close().await;
}

/// A queue that is made while the settings change has either the old ones or the new ones, not none.
#[tokio::test]
async fn a_queue_that_is_made_while_a_limit_is_set_has_it() {
    let place = place(7).await;
    let mut tx = place.db.pool().begin().await.unwrap();
    sqlx::query(place.db.sql("SELECT bugle.set_flow('{\"steps_most\": null}', 'default')").unwrap())
        .execute(&mut *tx)
        .await
        .unwrap();
    sqlx::query(place.db.sql("SELECT bugle.set_flow('{\"steps_most\": 9}')").unwrap())
        .execute(&mut *tx)
        .await
        .unwrap();
    let flow = place.bugle.flow();
    let made = tokio::spawn(async move { flow.queue("late").await.map(drop) });
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype IN ('transactionid', 'tuple')";
    until("the queue waits for the setting", async || place.one::<i64>(waits).await > 0).await;
    tx.commit().await.unwrap();
    made.await.unwrap().unwrap();
    let of = "SELECT m.most FROM bugle.queue q JOIN bugle.claim_limit m ON m.id = q.claim_limit WHERE q.name = 'late'";
    assert_eq!(place.one::<i32>(of).await, 9, "its namespace inherits from all");
}

#[tokio::test]
async fn a_limit_that_cannot_be_is_refused() {
    let place = place(1).await;
    let settings = Settings { steps_most: Some(Some(0)), ..Settings::default() };
    let error = place.bugle.flow().set(&settings, For::Namespace).await.unwrap_err().to_string();
    assert!(error.contains("steps_most 1 to 100000"), "{error}");
}
