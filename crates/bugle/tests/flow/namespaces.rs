//! Coordinators: many namespaces on one node.
use crate::fixture::{Place, SOON, spec, until};
use bugle::flow::{Coordinators, Flow, For, RunHandle, RunState, Settings, Step};
use bugle::name::NamespaceName;
use bugle::{Bugle, Done};
use bugle_wake::Mode;
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

impl Place {
    /// A namespace with the definition `d` of these steps.
    pub(crate) async fn space(&self, name: &str, steps: &[&str]) -> Bugle {
        let name = NamespaceName::parse(name).unwrap();
        self.bugle.create_namespace(&name).await.unwrap();
        let bugle = self.bugle.in_namespace(&name).await.unwrap();
        let sql = self.db.sql("SELECT version FROM bugle.define($1, sha256($1::text::bytea), $2)").unwrap();
        let spec = spec(steps, &json!({}));
        sqlx::query(sql).bind(spec).bind(name.as_str()).execute(self.db.pool()).await.unwrap();
        bugle
    }
}

async fn start(bugle: &Bugle) -> RunHandle {
    bugle.flow().start("d", &json!({})).send().await.unwrap()
}

/// Waits for the end of a run, which must have succeeded.
async fn ends_well(run: &RunHandle) {
    let ended = run.wait_within(SOON).await.unwrap().expect("the run has not ended");
    assert_eq!(ended.state, RunState::Succeeded);
}

/// The state of a run's only step.
async fn state(bugle: &Bugle, run: &RunHandle) -> String {
    bugle.flow().steps(run.id()).await.unwrap()[0].state.clone()
}

/// Handlers that say where they run, and wait for a permit.
#[derive(Clone)]
struct Hall {
    inside: Arc<Mutex<HashMap<String, usize>>>,
    gate: Arc<Semaphore>,
}

impl Hall {
    /// So many may pass the gate.
    fn new(permits: usize) -> Self {
        Self { inside: Arc::default(), gate: Arc::new(Semaphore::new(permits)) }
    }

    fn inside(&self, namespace: &str) -> usize {
        self.inside.lock().unwrap().get(namespace).copied().unwrap_or(0)
    }

    async fn pass(self, step: Step) -> Result<Done<String>, std::io::Error> {
        let name = step.namespace().to_owned();
        *self.inside.lock().unwrap().entry(name.clone()).or_default() += 1;
        self.gate.acquire().await.unwrap().forget();
        *self.inside.lock().unwrap().get_mut(&name).unwrap() -= 1;
        Ok(Done(name))
    }

    fn coordinators(&self, flow: &Flow) -> Coordinators {
        ["a", "b", "c", "d", "e", "f"].into_iter().fold(flow.coordinators("steps"), |all, name| {
            let hall = self.clone();
            all.handle(name, move |step| hall.clone().pass(step))
        })
    }
}

struct Running {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), bugle::Error>>,
}

impl Running {
    fn new(coordinators: Coordinators) -> Self {
        let stop = CancellationToken::new();
        Self { task: tokio::spawn(coordinators.run(stop.clone())), stop }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn namespaces_are_found_at_the_start_and_when_they_come() {
    let place = Place::new().await;
    let early = [place.space("one", &["a", "b < a"]).await, place.space("two", &["a"]).await];
    let waiting = start(&early[0]).await; // there before anybody serves it
    let coordinators = Hall::new(100).coordinators(&place.bugle.flow());
    let board = coordinators.board();
    let running = Running::new(coordinators);
    ends_well(&waiting).await;
    ends_well(&start(&early[1]).await).await;

    let late = place.space("three", &["a", "b < a"]).await;
    let run = start(&late).await;
    ends_well(&run).await;
    let output = late.flow().steps(run.id()).await.unwrap().remove(1).output;
    assert_eq!(output.unwrap().get(), "\"three\"", "the handler knows where it is");
    let names: Vec<_> = board.active().into_iter().map(|one| one.namespace).collect();
    assert_eq!(names, ["one", "three", "two"]);
    running.stop().await;
    assert_eq!((board.active().len(), board.started()), (0, 3));
    assert_eq!(place.bugle.node().unwrap().counters().connects.get(), 1, "one listener for all of them");
}

#[tokio::test]
async fn a_worker_set_that_a_namespace_begins_to_use_is_served_from_then_on() {
    let place = Place::new().await;
    let space = place.space("one", &["a"]).await;
    let other =
        place.bugle.flow().coordinators("other").handle("a", |step: Step| async move {
            Ok::<_, std::io::Error>(Done(step.namespace().to_owned()))
        });
    let running = Running::new(other);
    let spec = spec(&["a"], &json!({"a": {"queue": "other"}}));
    let sql = place.db.sql("SELECT version FROM bugle.define($1, sha256($1::text::bytea), 'one')").unwrap();
    sqlx::query(sql).bind(spec).execute(place.db.pool()).await.unwrap();
    ends_well(&start(&space).await).await;
    running.stop().await;
}

#[tokio::test]
async fn only_namespaces_whose_names_fit_are_served() {
    let place = Place::new().await;
    let mut spaces = Vec::new();
    for name in ["shop_1", "shopx1", "other"] {
        spaces.push(place.space(name, &["a"]).await);
    }
    let hall = Hall::new(100);
    let coordinators = hall.coordinators(&place.bugle.flow()).namespaces(["shop_*", "*er"]);
    let board = coordinators.board();
    let running = Running::new(coordinators);
    until("they are served", async || board.active().len() == 2).await;
    let names: Vec<_> = board.active().into_iter().map(|one| one.namespace).collect();
    assert_eq!(names, ["other", "shop_1"], "_ and % are letters");
    let (served, not) = (start(&spaces[0]).await, start(&spaces[1]).await);
    ends_well(&served).await;
    assert_eq!(state(&spaces[1], &not).await, "ready");
    running.stop().await;
}

#[tokio::test]
async fn each_namespace_has_its_least_and_the_rest_is_shared() {
    let place = Place::new().await;
    let steps = ["a", "b", "c", "d", "e", "f"];
    let (greedy, late) = (place.space("greedy", &steps).await, place.space("late", &steps).await);
    let hall = Hall::new(0);
    let coordinators = hall.coordinators(&place.bugle.flow()).slots(3).each(1, 5);
    let board = coordinators.board();
    let running = Running::new(coordinators);
    let runs = [start(&greedy).await, start(&greedy).await];
    until("it takes all that is common", async || hall.inside("greedy") == 4).await;
    assert_eq!(board.common_slots_taken(), 3);
    let third = start(&late).await;
    until("the other has its own", async || hall.inside("late") == 1).await;

    // What is given back goes to whoever has work; never is more in use than there is.
    hall.gate.add_permits(2);
    until("slots are taken again", async || hall.inside("greedy") + hall.inside("late") == 5).await;
    assert_eq!(board.common_slots_taken(), 3);
    assert!(hall.inside("late") >= 1 && hall.inside("greedy") >= 1);
    hall.gate.add_permits(100);
    for run in runs.iter().chain([&third]) {
        ends_well(run).await;
    }
    until("all is given back", async || board.common_slots_taken() == 0).await;
    running.stop().await;
}

#[tokio::test]
async fn settings_are_inherited_and_take_effect_while_coordinators_run() {
    let place = Place::new().await;
    let (one, two) = (place.space("one", &["a"]).await, place.space("two", &["a"]).await);
    let coordinators = Hall::new(100).coordinators(&place.bugle.flow()).each(1, 7);
    let board = coordinators.board();
    let running = Running::new(coordinators);
    let limits = async |wanted: [(u32, u32); 2]| {
        until(&format!("{wanted:?}"), async || {
            board.active().iter().map(|one| (one.least, one.most)).collect::<Vec<_>>() == wanted
        })
        .await;
    };
    limits([(1, 7), (1, 7)]).await;
    let all = Settings { slots_most: Some(Some(9)), slots_least: Some(Some(2)), ..Settings::default() };
    place.bugle.flow().set(&all, For::All).await.unwrap();
    limits([(2, 9), (2, 9)]).await;
    let own = Settings { slots_most: Some(Some(3)), ..Settings::default() };
    two.flow().set(&own, For::Namespace).await.unwrap();
    limits([(2, 9), (2, 3)]).await;
    two.flow()
        .set(&Settings { slots_most: Some(None), ..Settings::default() }, For::Namespace)
        .await
        .unwrap();
    limits([(2, 9), (2, 9)]).await;
    for space in [&one, &two] {
        ends_well(&start(space).await).await;
    }
    let wrong = Settings { slots_most: Some(Some(0)), ..Settings::default() };
    let refused = one.flow().set(&wrong, For::Namespace).await.unwrap_err().to_string();
    assert!(refused.contains("slots_most") && refused.contains("are 1 to 1000"), "{refused}");
    running.stop().await;
}

#[tokio::test]
async fn a_paused_namespace_begins_no_step_and_goes_on_when_it_is_resumed() {
    let place = Place::new().await;
    let (one, two) = (place.space("one", &["a"]).await, place.space("two", &["a"]).await);
    let running = Running::new(Hall::new(100).coordinators(&place.bugle.flow()));
    ends_well(&start(&one).await).await;
    assert_eq!(one.flow().pause_steps(For::Namespace).await.unwrap(), 1);
    assert_eq!(one.flow().pause_steps(For::Namespace).await.unwrap(), 0, "it is paused already");
    let run = start(&one).await;
    ends_well(&start(&two).await).await; // the other goes on
    assert_eq!(state(&one, &run).await, "ready");
    assert_eq!(one.flow().resume_steps(For::Namespace).await.unwrap(), 1);
    ends_well(&run).await;

    // For all: but one that says itself that it is not paused is not.
    assert_eq!(place.bugle.flow().pause_steps(For::All).await.unwrap(), 1, "two; one says otherwise");
    let late = place.space("late", &["a"]).await;
    let (run, waits) = (start(&one).await, start(&late).await);
    ends_well(&run).await;
    assert_eq!(state(&late, &waits).await, "ready", "it inherits the pause");
    place.bugle.flow().resume_steps(For::All).await.unwrap();
    ends_well(&waits).await;
    running.stop().await;
}

#[tokio::test]
async fn modes_are_set_for_a_namespace_and_inherited_by_those_that_come() {
    let place = Place::new().await;
    let one = place.space("one", &["a"]).await;
    place.space("two", &["a"]).await;
    let modes = async || -> Vec<(String, String)> {
        let sql = "SELECT n.name, string_agg(DISTINCT q.mode, ' ') FROM bugle.queue q JOIN bugle.namespace n ON n.id = q.namespace
            WHERE q.holds = 'steps' GROUP BY 1 ORDER BY 1";
        sqlx::query_as(place.db.sql(sql).unwrap()).fetch_all(place.db.pool()).await.unwrap()
    };
    let pair = |name: &str, mode: &str| (name.to_owned(), mode.to_owned());
    assert_eq!(modes().await, [pair("one", "hybrid"), pair("two", "hybrid")]);
    let changed = one.flow().set_mode(Some(Mode::Shadow), None, For::Namespace).await.unwrap();
    assert_eq!(changed, 2, "its steps, and what Bugle does itself");
    place.bugle.flow().set_mode(Some(Mode::PollingOnly), None, For::All).await.unwrap();
    place.space("late", &["a"]).await;
    assert_eq!(
        modes().await,
        [pair("late", "polling_only"), pair("one", "shadow"), pair("two", "polling_only")]
    );
    one.flow().set_mode(None, None, For::Namespace).await.unwrap();
    assert_eq!(modes().await[1], pair("one", "polling_only"), "it inherits again");
    // Served in any of them.
    let running = Running::new(Hall::new(100).coordinators(&place.bugle.flow()));
    ends_well(&start(&one).await).await;
    running.stop().await;
}

#[tokio::test]
async fn a_hundred_idle_namespaces_send_nothing() {
    let mut wake = bugle_wake::Options::default();
    wake.times.heartbeat = std::time::Duration::from_hours(1);
    let place = Place::with_wake(wake).await;
    for n in 0..100 {
        place.space(&format!("n{n}"), &["a"]).await;
    }
    let coordinators = Hall::new(100).coordinators(&place.bugle.flow());
    let board = coordinators.board();
    let running = Running::new(coordinators);
    until("all are served", async || board.active().len() == 100).await;
    let node = place.bugle.node().unwrap();
    until("all wait", async || node.status().intentions == 200).await; // a worker and the engine of each
    until("it is silent", async || {
        let before = node.counters().table();
        tokio::time::sleep(std::time::Duration::from_secs(1)).await; // the only way to see that nothing happens
        before == node.counters().table()
    })
    .await;
    let status = node.status();
    assert!(status.sleeps.is_empty(), "{status:?}");
    let last = place.bugle.in_namespace(&NamespaceName::parse("n99").unwrap()).await.unwrap();
    ends_well(&start(&last).await).await;
    running.stop().await;
}

#[tokio::test]
async fn queues_of_one_name_in_two_namespaces_are_two() {
    let place = Place::new().await;
    let (one, two) = (place.space("one", &["a"]).await, place.space("two", &["a"]).await);
    let stop = CancellationToken::new();
    let heard: Arc<Mutex<Vec<(&'static str, String)>>> = Arc::default();
    let workers: Vec<_> = [("one", &one), ("two", &two)]
        .into_iter()
        .map(|(name, bugle)| {
            let heard = heard.clone();
            let worker = bugle.worker("q").handle_any(move |job: bugle::jobs::Claimed, _: bugle::Ctx| {
                heard.lock().unwrap().push((name, job.kind.clone()));
                async {}
            });
            tokio::spawn(worker.run(stop.clone()))
        })
        .collect();
    for n in 0..5 {
        for (bugle, name) in [(&one, "one"), (&two, "two")] {
            let payload = serde_json::value::to_raw_value(&n).unwrap();
            bugle.enqueue_raw("q", name, payload).send().await.unwrap();
        }
    }
    until("all have run", async || heard.lock().unwrap().len() == 10).await;
    assert!(heard.lock().unwrap().iter().all(|(worker, kind)| worker == kind), "{heard:?}");
    stop.cancel();
    for worker in workers {
        worker.await.unwrap().unwrap();
    }
}
