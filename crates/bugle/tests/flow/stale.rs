//! Steps that are ready for long: an alarm when somebody could have taken them, and only then.
use crate::fixture::{Place, SOON, until};
use bugle::flow::{RunHandle, RunState, Step, StepWorker};
use bugle::health::Level;
use bugle::wake_engine::Options;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Longer than a look takes on a busy machine.
const LONG: Duration = Duration::from_secs(2);

/// A place with the definition `d` of one step, whose heart beats so often.
async fn place(heartbeat: Duration) -> Place {
    let mut wake = Options::default();
    wake.times.heartbeat = heartbeat;
    let place = Place::with_wake(wake).await;
    place.define(&crate::fixture::spec(&["a"], &json!({}))).await;
    place
}

/// A worker whose steps end when there is a permit for them.
fn worker(place: &Place, gate: &Arc<Semaphore>, stale_after: Duration) -> StepWorker {
    let gate = gate.clone();
    place.bugle.flow().worker("steps").stale_after(stale_after).handle("a", move |_: Step| {
        let gate = gate.clone();
        async move { gate.acquire().await.unwrap().forget() }
    })
}

async fn ends_well(run: &RunHandle) {
    let ended = run.wait_within(SOON).await.unwrap().expect("the run has not ended");
    assert_eq!(ended.state, RunState::Succeeded);
}

#[tokio::test]
async fn a_step_that_no_ring_announced_and_the_heartbeat_found_is_stale() {
    let place = place(3 * LONG).await;
    let worker = worker(&place, &Arc::new(Semaphore::new(100)), LONG);
    let (stale, stop) = (worker.stale(), CancellationToken::new());
    let running = tokio::spawn(worker.run(stop.clone()));
    ends_well(&place.start().await).await;
    assert_eq!(stale.get(), 0, "it was told of");
    until("it sleeps", async || {
        place.bugle.node().is_some_and(|node| !node.status().seats.sentinel.is_empty())
    })
    .await;
    // A producer that does not ring, and between two heartbeats: the worker sleeps for longer than it may. Unless the heart beats just then.
    let beats = &place.bugle.node().unwrap().counters().heartbeats;
    for _ in 0..5 {
        let before = beats.get();
        until("the heart beats", async || beats.get() > before).await;
        let mut tx = place.bugle.pool().begin().await.unwrap();
        let silently = place.db.sql("SET LOCAL bugle.ring = 'off'").unwrap();
        sqlx::raw_sql(silently).execute(&mut *tx).await.unwrap();
        let run = place.bugle.flow().start("d", &json!({})).on(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
        ends_well(&run).await;
        if stale.get() > 0 {
            break;
        }
    }
    assert_eq!(stale.get(), 1);
    assert_eq!(place.bugle.flow().counters().stale.get(), 1);
    until("the alarm is told", async || {
        let health = place.bugle.health();
        let fallback = health.checks.iter().find(|check| check.name == "fallback").unwrap();
        fallback.level == Level::Degraded && fallback.reason.contains("found work that no ring had announced")
    })
    .await;
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_step_that_waits_for_a_busy_worker_or_a_paused_namespace_is_not() {
    let place = place(Duration::from_hours(1)).await;
    let gate = Arc::new(Semaphore::new(0));

    let worker = worker(&place, &gate, LONG).concurrency(1);
    let (stale, stop) = (worker.stale(), CancellationToken::new());
    let running = tokio::spawn(worker.run(stop.clone()));
    let runs = [place.start().await, place.start().await];
    until("one runs", async || {
        place.one::<i64>("SELECT count(*) FROM bugle.step WHERE state = 'running'").await == 1
    })
    .await;
    tokio::time::sleep(2 * LONG).await; // the other waits for as long as that
    gate.add_permits(100);
    for run in &runs {
        ends_well(run).await;
    }
    assert_eq!(stale.get(), 0, "nobody could have taken it");

    let flow = place.bugle.flow();
    flow.pause_steps(bugle::flow::For::Namespace).await.unwrap();
    let run = place.start().await;
    tokio::time::sleep(2 * LONG).await;
    flow.resume_steps(bugle::flow::For::Namespace).await.unwrap();
    ends_well(&run).await;
    assert_eq!(stale.get(), 0, "nor was it to be taken");
    stop.cancel();
    running.await.unwrap().unwrap();
}
