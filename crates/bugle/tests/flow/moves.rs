//! Every cause on every state of a step: what happens, what is refused; and the tables of legal moves list exactly what happened.

use crate::fixture::{Place, spec};
use crate::moved::compare_moved;
use bugle::Verdict;
use bugle::flow::{By, Claim, ClaimedStep, RunId, StepQueue, StepReceipt};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

const ANN: By = By { actor: Some("Ann"), reason: Some("because") };
const HOUR: Duration = Duration::from_hours(1);

/// In each `s` is the one that is looked at, after `p` and before `z`.
const STATES: &[&str] = &[
    "pending",
    "ready",
    "ready, begin forgotten",
    "running",
    "waiting snoozed",
    "waiting retry",
    "waiting retry, begin forgotten",
    "waiting sleep",
    "waiting signal",
    "waiting map",
    "waiting paused",
    "waiting paused, a sleep",
    "succeeded",
    "succeeded, as the run",
    "failed",
    "skipped",
    "cancelled",
];

/// What a worker with a receipt says, what Bugle does when a time has come, and what people do.
const CAUSES: &[&str] = &[
    "claim",
    "ack",
    "fail",
    "dead",
    "snooze",
    "release",
    "retry",
    "resolve",
    "skip",
    "restart",
    "cancel",
    "pause",
    "resume",
    "signal",
    "sleep over",
    "signal late",
    "deadline",
    "run's deadline",
];

/// A state and whatever brings about something in it; what is not here does nothing. `lost`: the worker is told that the step is not its any more.
/// `refused`: with an error that says in which state it is.
const EXPECTED: &str = include_str!("moves.txt");

/// Where steps are claimed by hand.
struct Bench {
    place: Place,
    /// Where every run is moved to, in whatever state it is.
    elsewhere: Place,
    queue: StepQueue,
}

/// A step in some state; the receipt of whoever has it, or had it last.
struct Subject {
    run: RunId,
    receipt: Option<StepReceipt>,
}

impl Bench {
    async fn new() -> Self {
        let place = Place::new().await;
        let kinds = json!({
            "task": {},
            "sleep": {"kind": "sleep", "sleep_ms": 3_600_000},
            "signal": {"kind": "signal", "signal": {"key": "s{run}", "timeout_ms": 3_600_000}},
            "map": {"kind": "map", "over": {"no": null, "at": "/list"}, "concurrency": 1},
            "nothing": {"kind": "map", "over": {"no": null, "at": "/none"}},
        });
        for (name, kind) in kinds.as_object().unwrap() {
            place.define(&named(name, spec(&["p", "s < p", "z < s"], &json!({"s": kind})))).await;
        }
        let lenient =
            json!({"s": {"kind": "map", "over": {"no": null, "at": "/list"}, "on_failure": "continue"}});
        place.define(&named("lenient", spec(&["p", "s < p"], &lenient))).await;
        place.define(&named("beside", spec(&["s", "q", "z < s q"], &json!({})))).await;
        let queue = place.bugle.flow().queue("steps").await.unwrap();
        Self { place, elsewhere: Place::new().await, queue }
    }

    async fn run_of(&self, definition: &str) -> RunId {
        let input = json!({"list": [1, 2], "none": []});
        self.place.bugle.flow().start(definition, &input).send().await.unwrap().id()
    }

    async fn sql(&self, sql: &str) {
        sqlx::raw_sql(self.place.db.sql(sql).unwrap()).execute(self.place.db.pool()).await.unwrap();
    }

    async fn resolve(&self, run: RunId, step: &str) {
        self.place.bugle.flow().resolve(run, step, json!(1), ANN).await.unwrap();
    }

    /// As if the time of every lease and of every next attempt had come.
    async fn let_time_pass(&self) {
        self.place.end_leases().await;
        let steps = "WITH q AS (SELECT id FROM bugle.queue WHERE name = 'steps')";
        self.sql(&format!(
            "{steps} UPDATE bugle.due SET due_at = clock_timestamp() WHERE queue = (SELECT id FROM q)"
        ))
        .await;
        // A node looks for what it knows of; this comes before its time.
        self.sql(&format!("{steps} SELECT bugle.sweep(id), bugle.move_due(id, '-infinity', 1000) FROM q"))
            .await;
    }

    /// Claims this step, as soon as it may be; `None`: no job carries it, or none does when it was claimed.
    async fn claim(&self, run: RunId, step: &str, element: i32) -> Option<ClaimedStep> {
        self.let_time_pass().await;
        let carried = format!(
            "SELECT EXISTS (
              SELECT FROM (SELECT queue, payload FROM bugle.job UNION ALL SELECT queue, payload FROM bugle.due) j
              JOIN bugle.queue q ON q.id = j.queue AND q.name = 'steps'
              JOIN bugle.step s ON j.payload = jsonb_build_array(s.run, s.no, s.idx, s.epoch)
              JOIN bugle.run r ON r.id = s.run JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = s.no
              WHERE s.run = {run} AND d.name = '{step}' AND s.idx = {element})"
        );
        let claim = Claim::new("w").unwrap().lease(HOUR);
        let mut found = None;
        crate::fixture::until("the step is claimed", async || {
            if !self.place.one::<bool>(&carried).await {
                return true;
            }
            let claimed = self.queue.claim(&claim).await.unwrap();
            found = claimed.into_iter().find(|c| (c.run, &*c.name, c.index) == (run, step, element));
            found.is_some()
        })
        .await;
        found
    }

    async fn take(&self, run: RunId, step: &str, element: i32) -> StepReceipt {
        self.claim(run, step, element).await.expect("nobody carries it").receipt
    }

    async fn settle(&self, receipt: &StepReceipt, verdict: Verdict) {
        self.queue.settle(receipt, verdict).await.unwrap();
    }

    /// The server crashed, and what is not flushed is forgotten: that the step was begun. Its job is held all the same.
    async fn forget_begin(&self, run: RunId, state: &str, why: &str) {
        self.sql(&format!(
            "UPDATE bugle.step SET state = '{state}', why = {why}, token = NULL, worker = NULL WHERE run = {run} AND no = 2;
            DELETE FROM bugle.flow_event WHERE run = {run} AND no = 2 AND at = (SELECT max(at) FROM bugle.flow_event WHERE run = {run} AND no = 2)"
        ))
        .await;
    }

    /// Brings a step into a state.
    async fn subject(&self, state: &str) -> Subject {
        let flow = self.place.bugle.flow();
        let run = self
            .run_of(match state {
                "waiting sleep" | "waiting paused, a sleep" => "sleep",
                "waiting signal" => "signal",
                "waiting map" => "map",
                _ => "task",
            })
            .await;
        if state == "waiting paused, a sleep" {
            assert!(flow.pause(run, ANN).await.unwrap());
        }
        if state == "skipped" {
            self.settle(&self.take(run, "p", 0).await, dead()).await;
        } else if state != "pending" {
            self.resolve(run, "p").await;
        }
        if state == "waiting paused" {
            assert!(flow.pause(run, ANN).await.unwrap());
            assert!(self.claim(run, "s", 0).await.is_none());
        }
        let unclaimed = ["pending", "ready", "skipped"].contains(&state)
            || state.starts_with("waiting")
                && !state.starts_with("waiting retry")
                && state != "waiting snoozed";
        if unclaimed {
            return Subject { run, receipt: None };
        }
        let mut receipt = self.take(run, "s", 0).await;
        match state {
            "ready, begin forgotten" => self.forget_begin(run, "ready", "NULL").await,
            "waiting snoozed" => self.settle(&receipt, Verdict::snooze(HOUR)).await,
            "waiting retry" => self.settle(&receipt, later()).await,
            "waiting retry, begin forgotten" => {
                self.settle(&receipt, later()).await;
                receipt = self.take(run, "s", 0).await;
                self.forget_begin(run, "waiting", "'retry'").await;
            }
            "failed" => self.settle(&receipt, dead()).await,
            "cancelled" => assert!(flow.cancel(run, ANN).await.unwrap()),
            "succeeded" | "succeeded, as the run" => self.settle(&receipt, Verdict::Done).await,
            other => assert_eq!(other, "running"),
        }
        if state == "succeeded, as the run" {
            self.resolve(run, "z").await;
        }
        Subject { run, receipt: Some(receipt) }
    }

    /// What the engine does when a time has come for step `no`.
    async fn engine(&self, kind: &str, run: RunId, no: i16) {
        self.sql(&format!(
            "SELECT bugle.run_engine(f.engine, '{kind}', jsonb_build_array(s.run, s.no, 0, s.epoch)) FROM bugle.flow f, bugle.step s WHERE s.run = {run} AND s.no = {no} AND s.idx = 0"
        ))
        .await;
    }

    /// Lets a cause come to a step. The error, if somebody was told of one.
    async fn cause(&self, cause: &str, subject: &Subject) -> Result<(), bugle::Error> {
        let (flow, run) = (self.place.bugle.flow(), subject.run);
        let verdict = match cause {
            "ack" => Some(Verdict::Done),
            "fail" => Some(later()),
            "dead" => Some(dead()),
            "snooze" => Some(Verdict::snooze(HOUR)),
            "release" => Some(Verdict::Release),
            _ => None,
        };
        match (verdict, &subject.receipt) {
            (Some(verdict), Some(receipt)) => return self.queue.settle(receipt, verdict).await.map(drop),
            (Some(_), None) => return Ok(()), // nobody has it, and nobody had
            (None, _) => {}
        }
        match cause {
            "claim" => drop(self.claim(run, "s", 0).await),
            "retry" => drop(flow.retry(run, "s", 0, ANN).await?),
            "resolve" => drop(flow.resolve(run, "s", json!(1), ANN).await?),
            "skip" => drop(flow.skip(run, "s", ANN).await?),
            "restart" => drop(flow.restart(run, "s", ANN).await?),
            "cancel" => drop(flow.cancel(run, ANN).await?),
            "pause" => {
                flow.pause(run, ANN).await?;
                self.claim(run, "s", 0).await; // what is paused is told to whoever claims it
            }
            "resume" => drop(flow.resume(run, ANN).await?),
            "signal" => {
                flow.signal(&format!("s{run}"), &1, Some("Ann")).await?;
                self.sql(&format!("SELECT bugle.run_engine(engine, 'match', '\"s{run}\"') FROM bugle.flow"))
                    .await;
            }
            "sleep over" => self.engine("end_sleep", run, 2).await,
            "signal late" => self.engine("end_wait", run, 2).await,
            "deadline" => self.engine("end_step", run, 2).await,
            "run's deadline" => self.engine("end_run", run, 2).await,
            other => panic!("{other}"),
        }
        Ok(())
    }

    /// How many events there are of the step, and of its run; and the states of both.
    async fn look(&self, run: RunId) -> (i64, i64, String, String) {
        let sql = format!(
            "SELECT (SELECT count(*) FROM bugle.flow_event WHERE run = {run} AND no = 2), (SELECT count(*) FROM bugle.flow_event WHERE run = {run} AND no = 0),
              (SELECT concat_ws(' ', state, CASE WHEN state = 'waiting' THEN why END) FROM bugle.step WHERE run = {run} AND no = 2 AND idx = 0), (SELECT state FROM bugle.run WHERE id = {run})"
        );
        sqlx::query_as(self.place.db.sql(&sql).unwrap()).fetch_one(self.place.db.pool()).await.unwrap()
    }

    /// What comes of a cause in a state; empty: nothing.
    async fn outcome(&self, state: &str, cause: &str) -> String {
        let subject = self.subject(state).await;
        let before = self.look(subject.run).await;
        let name = before.2.split(' ').next().unwrap();
        let told = self.cause(cause, &subject).await;
        let after = self.look(subject.run).await;
        self.place.audit().await;
        if !state.ends_with("forgotten") {
            // The log of such a one lacks what the server forgot.
            compare_moved(&self.place, &self.elsewhere, Some(&[subject.run])).await;
        }
        let _ = self.place.bugle.flow().resume(subject.run, ANN).await.unwrap();
        self.place.bugle.flow().cancel(subject.run, ANN).await.unwrap();
        let moved = (after.0 > before.0).then_some(after.2);
        let run_moved = (after.1 > before.1).then(|| format!("run {}", after.3));
        match told {
            Ok(()) => [moved, run_moved].into_iter().flatten().collect::<Vec<_>>().join(", "),
            Err(error) => {
                assert_eq!((moved, run_moved), (None, None), "{state}: {cause}: {error}");
                if matches!(error, bugle::Error::StepLost { .. }) {
                    return "lost".to_owned();
                }
                assert!(error.to_string().contains(name), "{state}: {cause}: does not say so: {error}");
                "refused".to_owned()
            }
        }
    }

    /// What the states above do not show: elements of maps, and steps further down.
    async fn other_moves(&self) {
        let flow = self.place.bugle.flow();
        // Elements one after the other; then one fails, and is tried again.
        let run = self.started_map("map").await;
        self.settle(&self.take(run, "s", 1).await, Verdict::Done).await;
        self.settle(&self.take(run, "s", 2).await, dead()).await;
        flow.retry(run, "s", 2, ANN).await.unwrap();
        self.settle(&self.take(run, "s", 2).await, Verdict::Done).await;
        let run = self.started_map("lenient").await;
        self.settle(&self.take(run, "s", 1).await, dead()).await;
        self.settle(&self.take(run, "s", 2).await, Verdict::Done).await;
        flow.retry(run, "s", 1, ANN).await.unwrap();
        self.settle(&self.take(run, "s", 1).await, Verdict::Done).await;
        self.started_map("nothing").await;
        // A deadline takes the elements along that have not begun.
        let run = self.started_map("map").await;
        self.engine("end_step", run, 2).await;
        // No signal came; waited for once more.
        let run = self.run_of("signal").await;
        self.resolve(run, "p").await;
        self.engine("end_wait", run, 2).await;
        flow.retry(run, "s", 0, ANN).await.unwrap();
        // What was cancelled waits again for one that is tried again.
        let run = self.run_of("beside").await;
        self.settle(&self.take(run, "s", 0).await, dead()).await;
        flow.cancel(run, ANN).await.unwrap();
        flow.retry(run, "s", 0, ANN).await.unwrap();
        // Ended by hand from the first step to the last: nobody has claimed anything.
        let run = self.run_of("task").await;
        for step in ["p", "s", "z"] {
            self.resolve(run, step).await;
        }
        self.place.audit().await;
    }

    async fn started_map(&self, definition: &str) -> RunId {
        let run = self.run_of(definition).await;
        self.resolve(run, "p").await;
        run
    }

    /// What a table of moves lists, or what has happened.
    async fn moves(&self, sql: &str) -> BTreeSet<(String, String, String)> {
        let moves: Vec<(String, String, String)> =
            sqlx::query_as(self.place.db.sql(sql).unwrap()).fetch_all(self.place.db.pool()).await.unwrap();
        moves.into_iter().collect()
    }
}

fn named(name: &str, mut spec: Value) -> Value {
    spec["name"] = json!(name);
    spec
}

fn later() -> Verdict {
    Verdict::retry_in(HOUR, "later", "not now")
}

fn dead() -> Verdict {
    Verdict::dead("broken", "it can never work")
}

#[tokio::test]
async fn every_cause_in_every_state_moves_as_the_tables_list_or_not_at_all() {
    let bench = Bench::new().await;
    let mut seen = String::new();
    for state in STATES {
        write!(seen, "\n{state}:").unwrap();
        for cause in CAUSES {
            let outcome = bench.outcome(state, cause).await;
            if !outcome.is_empty() {
                write!(seen, "\n  {cause}: {outcome}").unwrap();
            }
        }
    }
    assert!(seen.trim() == EXPECTED.trim(), "{seen}");
    bench.other_moves().await;
    for (table, which) in [("step_move", "no > 0"), ("run_move", "no = 0")] {
        let listed = bench.moves(&format!("SELECT from_state, to_state, cause FROM bugle.{table}")).await;
        let happened = format!(
            "SELECT DISTINCT from_state, to_state, cause FROM bugle.flow_event WHERE from_state IS NOT NULL AND {which}"
        );
        let happened = bench.moves(&happened).await;
        let never: Vec<_> = listed.difference(&happened).collect();
        let unlisted: Vec<_> = happened.difference(&listed).collect();
        assert!(never.is_empty() && unlisted.is_empty(), "{table}: never: {never:?}; unlisted: {unlisted:?}");
    }
}
