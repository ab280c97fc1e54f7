//! Random workflows beside a model of them in memory, on nodes that die at random.
use crate::fixture::{Place, SOON, spec};
use bugle::flow::{RunState, Step};
use bugle::jobs::worker::IntoVerdict as _;
use bugle::pg::connect;
use bugle::{Bugle, Done, Verdict};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

const PLANS: u64 = 150;
const STEPS_MAX: usize = 12;
const ELEMENTS: usize = 3;
const NODES: usize = 2;
/// So many kills, and more until one has hit a step that ran.
const KILLS_LEAST: usize = 12;
const KILLS_MAX: usize = 100;
/// Steps that were lost with a node and begun again.
const LOST: &str = "SELECT count(*) FROM bugle.flow_event WHERE cause = 'claim' AND from_state = 'running'";
/// The jobs of a node that died are back after this.
const LEASE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq)]
enum On {
    Success,
    Failure,
    Always,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Task,
    /// It decides for these.
    Decision(Vec<String>),
    /// Its elements fail for good, or do not.
    Map([bool; ELEMENTS]),
    Sleep,
}

/// What becomes of an attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Succeeds,
    /// So many attempts fail first.
    After(u16),
    Fails,
}

#[derive(Debug, Clone)]
struct Planned {
    kind: Kind,
    parents: Vec<(usize, On)>,
    any: bool,
    goes_on: bool,
    fate: Fate,
}

/// A workflow, and what its steps do.
#[derive(Debug, Clone)]
struct Plan {
    name: String,
    steps: Vec<Planned>,
}

impl Plan {
    fn random(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut steps: Vec<Planned> = Vec::new();
        for n in 0..rng.random_range(1..=STEPS_MAX) {
            let mut parents: Vec<(usize, On)> = Vec::new();
            for _ in 0..rng.random_range(0..4) {
                let Some(parent) = (n > 0).then(|| rng.random_range(0..n)) else { break };
                let on = match (&steps[parent].kind, rng.random_range(0..6)) {
                    (Kind::Decision(_), _) => On::Success,
                    (_, 0) => On::Failure,
                    (_, 1) => On::Always,
                    _ => On::Success,
                };
                if parents.iter().all(|(known, _)| *known != parent) {
                    parents.push((parent, on));
                }
            }
            let kind = match rng.random_range(0..8) {
                0 => Kind::Decision(Vec::new()),
                1 => Kind::Map([(); ELEMENTS].map(|()| rng.random_ratio(1, 6))),
                2 => Kind::Sleep,
                _ => Kind::Task,
            };
            let fate = match rng.random_range(0..8) {
                0 => Fate::Fails,
                1 => Fate::After(rng.random_range(1..3)),
                _ => Fate::Succeeds,
            };
            let (any, goes_on) = (rng.random_ratio(1, 4), kind != Kind::Sleep && rng.random_ratio(1, 5));
            steps.push(Planned { kind, parents, any, goes_on, fate });
        }
        for n in 0..steps.len() {
            if matches!(steps[n].kind, Kind::Decision(_)) {
                let children =
                    (0..steps.len()).filter(|child| steps[*child].parents.contains(&(n, On::Success)));
                let chosen =
                    children.filter(|_| rng.random_ratio(1, 2)).map(|child| format!("s{child}")).collect();
                steps[n].kind = Kind::Decision(chosen);
            }
        }
        Self { name: format!("d{seed}"), steps }
    }

    fn spec(&self) -> Value {
        let mut lines = Vec::new();
        let mut more = serde_json::Map::new();
        for (n, step) in self.steps.iter().enumerate() {
            let mark = |on: On| match on {
                On::Success => "",
                On::Failure => "!",
                On::Always => "*",
            };
            let parents: Vec<_> = step.parents.iter().map(|(p, on)| format!("s{p}{}", mark(*on))).collect();
            let join = if step.any { "|" } else { "<" };
            lines.push(format!("s{n} {join} {}", parents.join(" ")));
            let mut own =
                json!({"attempts": 100, "on_failure": if step.goes_on { "continue" } else { "stop" }});
            let own_map = own.as_object_mut().unwrap();
            match step.kind {
                Kind::Task => {}
                Kind::Decision(_) => drop(own_map.insert("kind".into(), "decision".into())),
                Kind::Map(_) => {
                    own_map.insert("kind".into(), "map".into());
                    own_map.insert("over".into(), json!({"no": null, "at": "/list"}));
                    own_map.insert("concurrency".into(), json!(2));
                }
                Kind::Sleep => {
                    own_map.insert("kind".into(), "sleep".into());
                    own_map.insert("sleep_ms".into(), json!(1));
                }
            }
            more.insert(format!("s{n}"), own);
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let mut spec = spec(&lines, &Value::Object(more));
        spec["name"] = json!(self.name);
        spec
    }

    /// What the model says becomes of it: the run, and its steps as [`Place::states`] writes them.
    fn model(&self) -> (RunState, String) {
        let mut states: Vec<&str> = Vec::new();
        let mut said = Vec::new();
        let mut failed = false;
        for (n, step) in self.steps.iter().enumerate() {
            let satisfied = step.parents.iter().filter(|(parent, on)| {
                let (state, parent) = (states[*parent], &self.steps[*parent]);
                match on {
                    On::Always => true,
                    On::Failure => state == "failed" && !parent.goes_on,
                    On::Success if state == "failed" => parent.goes_on,
                    On::Success => {
                        state == "succeeded"
                            && match &parent.kind {
                                Kind::Decision(chosen) => chosen.contains(&format!("s{n}")),
                                _ => true,
                            }
                    }
                }
            });
            let satisfied = satisfied.count();
            let runs = step.parents.is_empty()
                || if step.any { satisfied > 0 } else { satisfied == step.parents.len() };
            let state = match (&step.kind, step.fate) {
                _ if !runs => "skipped",
                (Kind::Map(elements), _) if elements.contains(&true) && !step.goes_on => "failed",
                (Kind::Map(_) | Kind::Sleep, _) | (_, Fate::Succeeds | Fate::After(_)) => "succeeded",
                (_, Fate::Fails) => "failed",
            };
            let is_seen_to = self.steps.iter().any(|child| child.parents.contains(&(n, On::Failure)));
            failed |= state == "failed" && !step.goes_on && !is_seen_to;
            states.push(state);
            said.push(format!("s{n}={state}"));
            if let Kind::Map(elements) = &step.kind
                && runs
            {
                for (i, fails) in elements.iter().enumerate() {
                    said.push(format!("s{n}.{}={}", i + 1, if *fails { "failed" } else { "succeeded" }));
                }
            }
        }
        (if failed { RunState::Failed } else { RunState::Succeeded }, said.join(" "))
    }

    /// What an attempt does.
    fn play(&self, step: &Step) -> Verdict {
        let n: usize = step.name.trim_start_matches('s').parse().unwrap();
        let broken = || Verdict::dead("broken", "it can never work");
        let planned = &self.steps[n];
        match (&planned.kind, planned.fate) {
            (Kind::Map(elements), _) if elements[usize::try_from(step.index - 1).unwrap()] => broken(),
            (Kind::Task | Kind::Decision(_), Fate::Fails) => broken(),
            (Kind::Task | Kind::Decision(_), Fate::After(fails)) if step.attempt <= fails => {
                Verdict::fail("passing", "try again")
            }
            (Kind::Decision(chosen), _) => Done(chosen.clone()).into_verdict(),
            _ => Done(step.name.clone()).into_verdict(),
        }
    }
}

/// A node: a worker and the engine in a runtime of their own, gone without a word when it is killed.
struct Node(Option<Runtime>);

impl Node {
    fn start(place: &Place, plans: &Arc<HashMap<String, Plan>>) -> Self {
        let (url, schema) = (place.db.url().to_owned(), place.db.schema_name().unwrap());
        let plans = plans.clone();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(async move {
            let pool = connect::pool(&connect::Options::parse(&url).unwrap()).await.unwrap();
            let options = bugle::Options { schema, ..bugle::Options::default() };
            work(&Bugle::new(pool, options).await.unwrap(), &plans).await;
        });
        Self(Some(runtime))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

async fn work(bugle: &Bugle, plans: &Arc<HashMap<String, Plan>>) {
    let flow = bugle.flow();
    let mut worker = flow.worker("steps").concurrency(8).lease(LEASE);
    for n in 0..STEPS_MAX {
        let plans = plans.clone();
        worker = worker.handle(&format!("s{n}"), move |step: Step| {
            let plans = plans.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(rand::random_range(0..100))).await; // work
                plans[&step.definition].play(&step)
            }
        });
    }
    let stop = CancellationToken::new();
    tokio::try_join!(worker.run(stop.clone()), flow.run_engine(stop)).unwrap();
}

/// Kills a node and starts another, again and again; looks at the books meanwhile.
async fn disturb(place: &Place, plans: &Arc<HashMap<String, Plan>>) -> Vec<Node> {
    let mut rng = StdRng::seed_from_u64(1);
    let mut nodes: Vec<Node> = (0..NODES).map(|_| Node::start(place, plans)).collect();
    for kill in 0..KILLS_MAX {
        if kill >= KILLS_LEAST && place.one::<i64>(LOST).await > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(rng.random_range(100..400))).await;
        place.audit_while_it_works().await;
        nodes[rng.random_range(0..NODES)] = Node::start(place, plans);
    }
    nodes
}

#[tokio::test]
async fn random_workflows_end_as_the_model_says_on_nodes_that_die() {
    let place = Place::new().await;
    let plans: Vec<Plan> = (0..PLANS).map(Plan::random).collect();
    let by_name: Arc<HashMap<String, Plan>> =
        Arc::new(plans.iter().map(|plan| (plan.name.clone(), plan.clone())).collect());
    let mut runs = Vec::new();
    for plan in &plans {
        place.define(&plan.spec()).await;
        runs.push(place.bugle.flow().start(&plan.name, &json!({"list": [1, 2, 3]})).send().await.unwrap());
    }
    let nodes = disturb(&place, &by_name).await;
    for (plan, run) in plans.iter().zip(&runs) {
        let ended = run.wait_within(SOON).await.unwrap();
        let state = ended.unwrap_or_else(|| panic!("{plan:?} has not ended")).state;
        assert_eq!((state, place.states(run.id()).await), plan.model(), "{plan:?}");
    }
    drop(nodes);
    let ends: i64 = place
        .one("SELECT max(n) FROM (SELECT count(*) AS n FROM bugle.flow_event WHERE no = 0 AND to_state IN ('succeeded', 'failed', 'cancelled') GROUP BY run) s")
        .await;
    assert_eq!(ends, 1, "every run has ended once");
    assert!(place.one::<i64>(LOST).await > 0, "no step was lost with a node: nothing was tried");
    let left: i64 = place
        .one("SELECT count(*) FROM bugle.job j JOIN bugle.queue q ON q.id = j.queue WHERE q.name = 'steps'")
        .await;
    assert_eq!(left, 0, "no job is left behind");
    crate::moved::compare_moved(&place, &Place::new().await, None).await;
}
