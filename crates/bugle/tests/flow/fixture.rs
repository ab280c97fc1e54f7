//! What most tests begin with: a place, definitions in a few words, and steps taken by hand or by a worker.

use bugle::flow::{RunHandle, RunId, RunState, Step, StepRow};
use bugle::{Bugle, Done, Verdict};
use bugle_testkit::postgres::TestDb;
use serde_json::{Value, json};
use sqlx::FromRow;
use sqlx::postgres::PgRow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) use bugle_testkit::{SOON, until};

pub(crate) struct Place {
    pub(crate) db: TestDb,
    pub(crate) bugle: Bugle,
}

/// A definition: `a`, `b < a` (after a), `c < a!` (when a fails), `d < a*` (in any case), `e | b c` (when one of them was satisfied);
/// more by [`spec`]'s second argument, by the step's name.
pub(crate) fn spec(steps: &[&str], more: &Value) -> Value {
    let mut numbers = HashMap::new();
    let mut all = Vec::new();
    for (step, no) in steps.iter().zip(1..) {
        let words: Vec<&str> = step.split_whitespace().collect();
        let after: Vec<Value> = words
            .iter()
            .skip(2)
            .map(|parent| {
                let name = parent.trim_end_matches(['!', '*']);
                let on = match parent.strip_prefix(name) {
                    Some("!") => "failure",
                    Some("*") => "always",
                    _ => "success",
                };
                json!({"no": numbers[name], "on": on})
            })
            .collect();
        let join = if words.get(1) == Some(&"|") { "any" } else { "all" };
        numbers.insert(words[0], no);
        let mut one = json!({"no": no, "name": words[0], "kind": "task", "queue": "steps", "priority": 2, "attempts": 3,
            "on_failure": "stop", "join": join, "after": after, "backoff": {"table_s": [0, 0, 0]}});
        if let Some(Value::Object(own)) = more.get(words[0]) {
            one.as_object_mut().unwrap().extend(own.clone());
        }
        all.push(one);
    }
    json!({"name": "d", "identity": "always_new", "steps": all})
}

impl Place {
    pub(crate) async fn new() -> Self {
        let db = TestDb::schema().await.unwrap();
        let bugle = db.bugle().await.unwrap();
        Self { db, bugle }
    }

    /// A place whose handle wakes like this.
    pub(crate) async fn with_wake(wake: bugle_wake::Options) -> Self {
        let db = TestDb::schema().await.unwrap();
        let schema = db.schema_name().unwrap();
        let options = bugle::Options { schema, wake, ..bugle::Options::default() };
        let bugle = Bugle::new(db.pool().clone(), options).await.unwrap();
        Self { db, bugle }
    }

    /// A place with a definition `d`.
    pub(crate) async fn with(steps: &[&str], more: Value) -> Self {
        let place = Self::new().await;
        place.define(&spec(steps, &more)).await;
        place
    }

    pub(crate) async fn define(&self, spec: &Value) -> i32 {
        let sql = self.db.sql("SELECT version FROM bugle.define($1, sha256($1::text::bytea))").unwrap();
        sqlx::query_scalar(sql).bind(spec).fetch_one(self.db.pool()).await.unwrap()
    }

    pub(crate) async fn start(&self) -> RunHandle {
        self.bugle.flow().start("d", &json!({"list": [1, 2, 3]})).send().await.unwrap()
    }

    /// One value, from SQL written for the schema `bugle`.
    pub(crate) async fn one<T>(&self, sql: &str) -> T
    where
        (T,): for<'r> FromRow<'r, PgRow>,
        T: Send + Unpin,
    {
        sqlx::query_scalar(self.db.sql(sql).unwrap()).fetch_one(self.db.pool()).await.unwrap()
    }

    /// Ends all leases now, as if their time had passed.
    pub(crate) async fn end_leases(&self) {
        let sql = self.db.sql("UPDATE bugle.lease SET until = clock_timestamp()").unwrap();
        sqlx::raw_sql(sql).execute(self.db.pool()).await.unwrap();
    }

    /// The states of a run's steps, as `a=succeeded b=ready`; elements of maps as `m.1=ready`.
    pub(crate) async fn states(&self, run: RunId) -> String {
        self.audit().await;
        let steps = self.bugle.flow().steps(run).await.unwrap();
        let say = |step: &StepRow| match step.idx {
            0 => format!("{}={}", step.name, step.state),
            idx => format!("{}.{idx}={}", step.name, step.state),
        };
        steps.iter().map(say).collect::<Vec<_>>().join(" ")
    }

    /// Compares every counter with what is worked out from scratch, and every move with those that are legal.
    pub(crate) async fn audit(&self) {
        let sql = self.db.sql("SELECT run, no, fault FROM bugle.audit_flow()").unwrap();
        let faults: Vec<(i64, Option<i16>, String)> =
            sqlx::query_as(sql).fetch_all(self.db.pool()).await.unwrap();
        assert!(faults.is_empty(), "{faults:?}");
        for (table, which) in [("step_move", "e.no > 0"), ("run_move", "e.no = 0")] {
            let sql = format!(
                "SELECT DISTINCT e.from_state, e.to_state, e.cause FROM bugle.flow_event e WHERE e.from_state IS NOT NULL AND {which}
                EXCEPT SELECT m.from_state, m.to_state, m.cause FROM bugle.{table} m"
            );
            let illegal: Vec<(String, String, String)> =
                sqlx::query_as(self.db.sql(&sql).unwrap()).fetch_all(self.db.pool()).await.unwrap();
            assert!(illegal.is_empty(), "{illegal:?}");
        }
    }

    /// The same of one moment, while others go on.
    pub(crate) async fn audit_while_it_works(&self) {
        let mut tx = self.db.pool().begin().await.unwrap();
        sqlx::raw_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").execute(&mut *tx).await.unwrap();
        let sql = self.db.sql("SELECT run, no, fault FROM bugle.audit_flow()").unwrap();
        let faults: Vec<(i64, Option<i16>, String)> = sqlx::query_as(sql).fetch_all(&mut *tx).await.unwrap();
        assert!(faults.is_empty(), "{faults:?}");
    }

    /// How the run ended, and its steps.
    pub(crate) async fn ended(&self, run: &RunHandle) -> (RunState, String) {
        let ended = run.wait_within(SOON).await.unwrap().expect("the run has not ended");
        (ended.state, self.states(run.id()).await)
    }

    /// A worker and the engine, until it is dropped.
    pub(crate) fn crew(&self, script: &Script) -> Crew {
        let stop = CancellationToken::new();
        let flow = self.bugle.flow();
        let mut worker = flow.worker("steps").concurrency(8);
        for name in ["a", "b", "c", "d", "e", "f", "g", "h", "m"] {
            let script = script.clone();
            worker = worker.handle(name, move |step| {
                let script = script.clone();
                async move { script.play(&step) }
            });
        }
        let tasks = vec![
            tokio::spawn({
                let stop = stop.clone();
                async move { worker.run(stop).await.unwrap() }
            }),
            tokio::spawn({
                let (flow, stop) = (flow.clone(), stop.clone());
                async move { flow.run_engine(stop).await.unwrap() }
            }),
        ];
        Crew { stop, tasks }
    }
}

/// What steps do: by default they succeed with their own name.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Mutex<HashMap<String, Vec<Verdict>>>>);

impl Script {
    /// The verdicts of a step's attempts, one after the other; of an element by `name.index`.
    pub(crate) fn on(self, step: &str, verdicts: impl IntoIterator<Item = Verdict>) -> Self {
        self.0.lock().unwrap().insert(step.to_owned(), verdicts.into_iter().collect());
        self
    }

    fn play(&self, step: &Step) -> Verdict {
        let name = match step.index {
            0 => step.name.clone(),
            index => format!("{}.{index}", step.name),
        };
        let mut script = self.0.lock().unwrap();
        match script.get_mut(&name) {
            Some(verdicts) if !verdicts.is_empty() => verdicts.remove(0),
            _ => {
                use bugle::jobs::worker::IntoVerdict as _;
                Done(name).into_verdict()
            }
        }
    }
}

pub(crate) struct Crew {
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Crew {
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

pub(crate) fn broken() -> Verdict {
    Verdict::dead("broken", "it can never work")
}

pub(crate) fn again() -> Verdict {
    Verdict::fail("passing", "try again")
}
