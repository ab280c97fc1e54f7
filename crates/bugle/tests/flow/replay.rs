//! A run as it was at an earlier time, worked out from its log: the same as what was seen in the tables then.

use crate::fixture::{Place, Script, again, broken, until};
use bugle::Verdict;
use bugle::flow::inspect::RunDetail;
use bugle::flow::{By, RunId, StepRow};
use chrono::{DateTime, Utc};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

const ANN: By = By { actor: Some("Ann"), reason: Some("because") };

/// Writes down every row of a step and of a run that there ever is.
const WATCH: &str = "
CREATE TABLE bugle.seen_step (n bigint GENERATED ALWAYS AS IDENTITY, op text, row bugle.step);
CREATE TABLE bugle.seen_run (n bigint GENERATED ALWAYS AS IDENTITY, run bigint, state text, paused boolean);
CREATE FUNCTION bugle.see_step() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO bugle.seen_step (op, row) VALUES (TG_OP, CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END);
  RETURN NULL;
END $$;
CREATE FUNCTION bugle.see_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO bugle.seen_run (run, state, paused) VALUES (NEW.id, NEW.state, NEW.paused);
  RETURN NULL;
END $$;
CREATE TRIGGER see AFTER INSERT OR UPDATE OR DELETE ON bugle.step FOR EACH ROW EXECUTE FUNCTION bugle.see_step();
CREATE TRIGGER see AFTER INSERT OR UPDATE ON bugle.run FOR EACH ROW EXECUTE FUNCTION bugle.see_run();";

/// What there is to compare of a step.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
struct Seen {
    state: String,
    attempt: i16,
    since: DateTime<Utc>,
    worker: Option<String>,
    why: Option<String>,
    due_at: Option<DateTime<Utc>>,
    message: Option<String>,
}

type Steps = BTreeMap<(i16, i32), Seen>;

/// A row of a step that there was, or that it is gone.
#[derive(sqlx::FromRow)]
struct Record {
    n: i64,
    is_gone: bool,
    no: i16,
    idx: i32,
    #[sqlx(flatten)]
    seen: Seen,
}

async fn watched(steps: &[&str], more: serde_json::Value) -> Place {
    let place = Place::with(steps, more).await;
    sqlx::raw_sql(place.db.sql(WATCH).unwrap()).execute(place.db.pool()).await.unwrap();
    place
}

async fn records(place: &Place, run: RunId) -> Vec<Record> {
    let sql =
        "SELECT n, op = 'DELETE' AS is_gone, (row).* FROM bugle.seen_step WHERE (row).run = $1 ORDER BY n";
    let sql = place.db.sql(sql).unwrap();
    sqlx::query_as(sql).bind(run).fetch_all(place.db.pool()).await.unwrap()
}

/// The steps as they were seen at a time: of each the last row that was written by then. Elements go with the next row of their map.
fn seen_at(records: &[Record], at: DateTime<Utc>) -> Steps {
    let mut steps = Steps::new();
    for record in records {
        if record.is_gone {
            let of_map = |later: &&Record| later.n > record.n && later.no == record.no && later.idx == 0;
            if records.iter().find(of_map).is_some_and(|map| map.seen.since <= at) {
                steps.remove(&(record.no, record.idx));
            }
        } else if record.seen.since <= at {
            steps.insert((record.no, record.idx), record.seen.clone());
        }
    }
    steps
}

fn said(detail: &RunDetail) -> Steps {
    let all = detail.steps.iter().flat_map(|step| std::iter::once(&step.row).chain(&step.elements));
    all.map(|row: &StepRow| {
        let row = row.clone();
        let seen = Seen {
            state: row.state,
            attempt: row.attempt,
            since: row.since,
            worker: row.worker,
            why: row.why,
            due_at: row.due_at,
            message: row.message,
        };
        ((row.no, row.idx), seen)
    })
    .collect()
}

/// Compares what the log says with what was seen, at the time of every event.
async fn check(place: &Place, run: RunId) {
    let flow = place.bugle.flow();
    let records = records(place, run).await;
    let events = flow.list_events(run, None, 10_000).await.unwrap();
    assert!(events.len() > 3, "{events:?}");
    let mut told = Vec::new();
    let mut last = None;
    for event in &events {
        let then = flow.run_at(run, event.at).await.unwrap().unwrap();
        assert_eq!(said(&then), seen_at(&records, event.at), "at {} after {event:?}", event.at);
        told.push((then.run.state.as_str().to_owned(), then.run.paused));
        last = Some(then);
    }
    // Two moves of a run at one moment are one to whoever looks at that time.
    let sql = place.db.sql("SELECT state, paused FROM bugle.seen_run WHERE run = $1 ORDER BY n").unwrap();
    let seen: Vec<(String, bool)> = sqlx::query_as(sql).bind(run).fetch_all(place.db.pool()).await.unwrap();
    assert_eq!(told.last(), seen.last());
    told.dedup();
    let mut rest = seen.iter();
    assert!(told.iter().all(|state| rest.any(|seen| seen == state)), "{told:?} is not in {seen:?}");

    let (last, now) = (last.unwrap(), flow.show_run(run).await.unwrap().unwrap());
    // Of a run that was stopped nobody counts any more.
    let is_stopped = now.steps.iter().any(|step| step.row.state == "cancelled");
    let counters = |detail: &RunDetail| {
        let run = &detail.run;
        let parents_left = |row: &StepRow| (!is_stopped).then_some(row.parents_left);
        let steps: Vec<_> = detail
            .steps
            .iter()
            .map(|step| {
                let row = &step.row;
                let output = row.output.as_ref().map(|output| output.0.get().to_owned());
                (
                    row.name.clone(),
                    row.kind.clone(),
                    row.attempts,
                    parents_left(row),
                    output,
                    step.element_counts.clone(),
                )
            })
            .collect();
        (run.state, run.paused, run.steps_left, run.started_at, run.ended_at, steps)
    };
    assert_eq!(counters(&last), counters(&now));
    assert_eq!(said(&last), said(&now));
    crate::moved::compare_moved(place, &Place::new().await, Some(&[run])).await;
}

async fn ends(place: &Place, run: RunId, states: &str) {
    until("it has ended", async || {
        place.bugle.flow().show(run).await.unwrap().unwrap().state.has_ended()
            && place.states(run).await == states
    })
    .await;
}

#[tokio::test]
async fn a_diamond_that_is_tried_again_and_fails_and_is_mended_by_hand() {
    let place = watched(&["a", "b < a", "c < a", "d < b c", "e < d!"], json!({})).await;
    let crew = place.crew(&Script::default().on("b", [again(), again()]).on("c", [broken()]));
    let run = place.start().await.id();
    ends(&place, run, "a=succeeded b=succeeded c=failed d=skipped e=skipped").await;
    let flow = place.bugle.flow();
    flow.retry(run, "c", 0, ANN).await.unwrap();
    ends(&place, run, "a=succeeded b=succeeded c=succeeded d=succeeded e=skipped").await;
    flow.restart(run, "b", ANN).await.unwrap();
    ends(&place, run, "a=succeeded b=succeeded c=succeeded d=succeeded e=skipped").await;
    crew.stop().await;
    check(&place, run).await;
}

#[tokio::test]
async fn steps_that_are_resolved_or_skipped() {
    let place = watched(&["a", "b < a", "c < b"], json!({})).await;
    let crew = place.crew(&Script::default().on("a", [broken()]).on("b", [broken()]));
    let run = place.start().await.id();
    ends(&place, run, "a=failed b=skipped c=skipped").await;
    let flow = place.bugle.flow();
    flow.resolve(run, "a", json!(7), ANN).await.unwrap();
    ends(&place, run, "a=succeeded b=failed c=skipped").await;
    flow.skip(run, "b", ANN).await.unwrap();
    ends(&place, run, "a=succeeded b=skipped c=skipped").await;
    crew.stop().await;
    check(&place, run).await;
}

#[tokio::test]
async fn a_map_of_which_elements_fail_and_that_is_restarted() {
    let more = json!({"m": {"kind": "map", "over": {"no": 1, "at": ""}, "concurrency": 2}});
    let place = watched(&["a", "m < a", "b < m"], more).await;
    let list = || Verdict::done_with(&json!(["x", "y", "z"]));
    let crew = place.crew(&Script::default().on("a", [list(), list()]).on("m.2", [again(), broken()]));
    let run = place.start().await.id();
    ends(&place, run, "a=succeeded m=failed m.1=succeeded m.2=failed m.3=succeeded b=skipped").await;
    let flow = place.bugle.flow();
    let well = "a=succeeded m=succeeded m.1=succeeded m.2=succeeded m.3=succeeded b=succeeded";
    flow.retry(run, "m", 2, ANN).await.unwrap();
    ends(&place, run, well).await;
    flow.restart(run, "a", ANN).await.unwrap();
    ends(&place, run, well).await;
    crew.stop().await;
    check(&place, run).await;
}

#[tokio::test]
async fn sleeps_signals_and_decisions() {
    let more = json!({
        "a": {"kind": "sleep", "sleep_ms": 20},
        "b": {"kind": "signal", "signal": {"key": "go:{run}", "timeout_ms": 3_600_000}},
        "c": {"kind": "decision"},
        "g": {"kind": "signal", "signal": {"key": "never:{run}", "timeout_ms": 20}, "on_failure": "continue"},
        "m": {"kind": "map", "over": {"no": null, "at": "/nothing"}, "on_failure": "continue"},
    });
    let place = watched(&["a", "b < a", "c < b", "d < c", "e < c", "g < d", "m < d", "f < g m"], more).await;
    let crew = place.crew(&Script::default().on("c", [Verdict::done_with(&"d")]));
    let run = place.start().await.id();
    place.bugle.flow().signal(&format!("go:{run}"), &1, Some("Ann")).await.unwrap();
    ends(
        &place,
        run,
        "a=succeeded b=succeeded c=succeeded d=succeeded e=skipped g=failed m=failed f=succeeded",
    )
    .await;
    place.bugle.flow().restart(run, "g", ANN).await.unwrap();
    ends(
        &place,
        run,
        "a=succeeded b=succeeded c=succeeded d=succeeded e=skipped g=failed m=failed f=succeeded",
    )
    .await;
    crew.stop().await;
    check(&place, run).await;
}

#[tokio::test]
async fn a_run_that_is_paused_resumed_and_cancelled() {
    let later = Verdict::retry_in(Duration::from_hours(1), "later", "not now");
    let place = watched(&["a", "b", "c < a b"], json!({})).await;
    let flow = place.bugle.flow();
    let run = place.start().await.id();
    flow.pause(run, ANN).await.unwrap();
    let crew = place.crew(&Script::default().on("b", [later]));
    until("both are held", async || place.states(run).await == "a=waiting b=waiting c=pending").await;
    flow.resume(run, ANN).await.unwrap();
    until("b backs off", async || place.states(run).await == "a=succeeded b=waiting c=pending").await;
    flow.cancel(run, ANN).await.unwrap();
    ends(&place, run, "a=succeeded b=cancelled c=cancelled").await;
    crew.stop().await;
    check(&place, run).await;
}

#[tokio::test]
async fn deadlines_of_a_step_and_of_a_run() {
    let later = || Verdict::retry_in(Duration::from_hours(1), "later", "not now");
    let place = watched(&["a", "b < a*"], json!({"a": {"deadline_ms": 50}})).await;
    let crew = place.crew(&Script::default().on("a", [later()]));
    let run = place.start().await.id();
    ends(&place, run, "a=failed b=succeeded").await;
    check(&place, run).await;
    let mut spec = crate::fixture::spec(&["a", "b < a"], &json!({}));
    spec["deadline_ms"] = json!(200);
    place.define(&spec).await;
    crew.stop().await; // nobody else would end it
    let run = place.start().await.id();
    let crew = place.crew(&Script::default().on("a", [later()]));
    ends(&place, run, "a=cancelled b=cancelled").await;
    crew.stop().await;
    check(&place, run).await;
}

#[tokio::test]
async fn there_was_nothing_before_the_start() {
    let place = watched(&["a"], json!({})).await;
    let flow = place.bugle.flow();
    let run = place.start().await.id();
    let created = flow.show(run).await.unwrap().unwrap().created_at;
    assert!(flow.run_at(run, created - Duration::from_millis(1)).await.unwrap().is_none());
    assert!(flow.run_at(RunId(i64::MAX), created).await.unwrap().is_none());
    let then = flow.run_at(run, created).await.unwrap().unwrap();
    assert_eq!((then.run.state.as_str(), then.steps[0].row.state.as_str()), ("queued", "ready"));
    // A log that lost its beginning tells nothing, rather than something wrong.
    let sql = place.db.sql("DELETE FROM bugle.flow_event WHERE cause = 'start'").unwrap();
    sqlx::raw_sql(sql).execute(place.db.pool()).await.unwrap();
    let error = flow.run_at(run, created).await.unwrap_err().to_string();
    assert!(error.contains("does not reach back to its start"), "{error}");
}
