//! What a process counts of workflows, and how well it says that it is.
use crate::fixture::{Place, SOON, until};
use bugle::flow::{Claim, Coordinators, For, RunHandle, Step};
use bugle::health::{Check, Level};
use bugle::wake_engine::{Options, Path};
use bugle::{Bugle, Mode};
use serde_json::json;
use sqlx::postgres::PgConnectOptions;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// A busy machine makes no alarm, and the heart does not beat.
fn calm() -> Options {
    let mut wake = Options::default();
    wake.times.heartbeat = Duration::from_hours(1);
    wake.times.delivery_timeout = Duration::from_hours(1);
    wake
}

/// Coordinators whose steps end when there is a permit for them.
fn coordinators(bugle: &Bugle, gate: &Arc<Semaphore>) -> Coordinators {
    ["a", "b"].into_iter().fold(bugle.flow().coordinators("steps"), |all, name| {
        let gate = gate.clone();
        all.handle(name, move |_: Step| {
            let gate = gate.clone();
            async move { gate.acquire().await.unwrap().forget() }
        })
    })
}

async fn start(bugle: &Bugle) -> RunHandle {
    bugle.flow().start("d", &json!({})).send().await.unwrap()
}

async fn ends(run: &RunHandle) {
    run.wait_within(SOON).await.unwrap().expect("the run has not ended");
}

/// Waits until so many wait and nothing is under way.
async fn idle(bugle: &Bugle, intentions: usize) {
    until("all wait", async || {
        let status = bugle.node().unwrap().status();
        status.intentions == intentions && status.looking == 0 && status.listening
    })
    .await;
}

fn check(bugle: &Bugle, name: &str) -> Check {
    bugle.health().checks.into_iter().find(|check| check.name == name).unwrap()
}

fn has_line(bugle: &Bugle, line: &str) -> bool {
    bugle.metrics().lines().any(|found| found == line)
}

#[tokio::test]
async fn steps_are_counted_by_the_path_that_they_came_by() {
    let place = Place::with_wake(calm()).await;
    let (rung, polled) = (place.space("rung", &["a", "b < a"]).await, place.space("polled", &["a"]).await);
    let poll = Some(Duration::from_millis(20));
    polled.flow().set_mode(Some(Mode::PollingOnly), poll, For::Namespace).await.unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(coordinators(&place.bugle, &Arc::new(Semaphore::new(100))).run(stop.clone()));
    let counters = place.bugle.flow();
    let counters = counters.counters();
    until("both are served", async || counters.coordinators() == 2).await;
    until("the mode is known", async || {
        let node = place.bugle.node().unwrap();
        node.status().intentions == 4 && node.counters().looks_by(bugle::wake_engine::Why::Poll) > 0
    })
    .await;
    let run = start(&rung).await;
    ends(&run).await;
    let claimed = || Path::ALL.map(|path| counters.claimed(path));
    assert_eq!(claimed()[2..], [0, 0], "not by a poll, nor the fallback");
    assert_eq!(claimed()[..2].iter().sum::<u64>(), 2, "{:?}", claimed());
    assert!(counters.claimed(Path::Event) >= 1, "{:?}", claimed());
    ends(&start(&polled).await).await;
    assert_eq!(counters.claimed(Path::Poll), 1, "{:?}", claimed());
    for path in Path::ALL {
        assert_eq!(counters.ready(path).read().count, counters.claimed(path), "{path:?}");
    }
    for line in [
        "bugle_flow_coordinators 2",
        "bugle_flow_coordinators_started_total 2",
        "bugle_flow_common_slots 64",
        "bugle_flow_steps_claimed_total{path=\"poll\"} 1",
        "bugle_flow_steps_claimed_total{path=\"fallback\"} 0",
        "bugle_flow_step_ready_seconds_count{path=\"poll\"} 1",
        "bugle_flow_stale_steps_total 0",
        "bugle_listening 1",
    ] {
        assert!(has_line(&place.bugle, line), "{line} is not in\n{}", place.bugle.metrics());
    }
    stop.cancel();
    running.await.unwrap().unwrap();
    assert!(has_line(&place.bugle, "bugle_flow_coordinators 0"));
    assert_eq!(counters.common_slots(), (0, 0), "nobody shares any more");
}

#[tokio::test]
async fn slots_in_use_and_claims_in_vain_are_counted() {
    let place = Place::with_wake(calm()).await;
    let space = place.space("one", &["a"]).await;
    let gate = Arc::new(Semaphore::new(0));
    let (stop, flow) = (CancellationToken::new(), place.bugle.flow());
    let running = tokio::spawn(coordinators(&place.bugle, &gate).slots(3).each(1, 4).run(stop.clone()));
    let runs = [start(&space).await, start(&space).await];
    until("both run", async || flow.counters().running.get() == 2).await;
    until("one of them in a common slot", async || flow.counters().common_slots() == (1, 3)).await;
    gate.add_permits(2);
    for run in &runs {
        ends(run).await;
    }
    until("all is given back", async || {
        flow.counters().running.get() == 0 && flow.counters().common_slots().0 == 0
    })
    .await;
    stop.cancel();
    running.await.unwrap().unwrap();

    // A job that carries a step which is nobody's any more, and one whose run is paused.
    let (cancelled, paused) = (start(&space).await, start(&space).await);
    space.flow().cancel(cancelled.id(), bugle::flow::By::default()).await.unwrap();
    space.flow().pause(paused.id(), bugle::flow::By::default()).await.unwrap();
    let claim = Claim::new("w").unwrap().most(10).unwrap();
    assert!(space.flow().queue("steps").await.unwrap().claim(&claim).await.unwrap().is_empty());
    let counters = space.flow();
    let counters = counters.counters();
    assert_eq!((counters.gone.get(), counters.paused.get(), counters.lost.get()), (1, 1, 0));
}

#[tokio::test]
async fn a_process_that_is_well_says_so() {
    let place = Place::with_wake(calm()).await;
    assert_eq!(place.bugle.health().level(), Level::Ok);
    let space = place.space("one", &["a"]).await;
    let stop = CancellationToken::new();
    let running = tokio::spawn(coordinators(&place.bugle, &Arc::new(Semaphore::new(100))).run(stop.clone()));
    until("it is served", async || check(&place.bugle, "coordinators").reason == "1 namespace is served")
        .await;
    idle(&place.bugle, 2).await;
    ends(&start(&space).await).await;
    until("no alert", async || place.bugle.health().level() == Level::Ok).await;
    let names: Vec<_> = place.bugle.health().checks.iter().map(|check| check.name).collect();
    assert_eq!(names, ["listener", "coordinators", "fallback", "lag"]);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_listener_that_cannot_connect_is_told_with_its_reason() {
    let place = Place::new().await;
    let nowhere = PgConnectOptions::new().host("127.0.0.1").port(1);
    let options = bugle::Options {
        schema: place.db.schema_name().unwrap(),
        wake: calm(),
        listener: Some(nowhere),
        ..bugle::Options::default()
    };
    let bugle = Bugle::new(place.db.pool().clone(), options).await.unwrap();
    let space = place.space("one", &["a"]).await;
    let stop = CancellationToken::new();
    let running = tokio::spawn(coordinators(&bugle, &Arc::new(Semaphore::new(100))).run(stop.clone()));
    until("it is told", async || {
        let (listener, lag) = (check(&bugle, "listener"), check(&bugle, "lag"));
        listener.level == Level::Degraded
            && listener.reason.contains("no connection")
            && lag.level == Level::Degraded
            && lag.reason.contains("on alert")
    })
    .await;
    ends(&start(&space).await).await; // degraded is served all the same
    assert_eq!(bugle.health().level(), Level::Degraded);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn coordinators_that_cannot_know_their_namespaces_say_so() {
    let place = Place::with_wake(calm()).await;
    place.space("one", &["a"]).await;
    let rename = async |sql: &str| {
        sqlx::raw_sql(place.db.sql(sql).unwrap()).execute(place.db.pool()).await.unwrap();
    };
    rename("ALTER VIEW bugle.flow_effective RENAME TO gone").await;
    let stop = CancellationToken::new();
    let running = tokio::spawn(coordinators(&place.bugle, &Arc::new(Semaphore::new(100))).run(stop.clone()));
    until("it is told", async || {
        let told = check(&place.bugle, "coordinators");
        told.level == Level::Failed && told.reason.contains("the namespaces cannot be listed")
    })
    .await;
    rename("ALTER VIEW bugle.gone RENAME TO flow_effective").await;
    until("it is well again", async || check(&place.bugle, "coordinators").reason == "1 namespace is served")
        .await;
    stop.cancel();
    running.await.unwrap().unwrap();
}
