//! How long runs and their log are kept: the sweep, with its clock moved.

use crate::fixture::{Place, Script, broken, spec, until};
use bugle::Verdict;
use bugle::flow::{By, RunId, RunState};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use std::time::Duration;

const NOBODY: By = By { actor: None, reason: None };

async fn in_days(place: &Place, days: i64) -> DateTime<Utc> {
    place.one::<DateTime<Utc>>("SELECT now()").await + TimeDelta::days(days)
}

/// Sweeps as if so many days had passed, until this is so. Again, because a pass that the node itself is at makes another one do nothing.
async fn sweep_until(place: &Place, days: i64, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let later = in_days(place, days).await;
    until(what, async || {
        place.bugle.sweep(Some(later)).await.unwrap();
        is_so().await
    })
    .await;
}

/// The days for which the log has partitions.
async fn days(place: &Place) -> Vec<String> {
    place
        .one(
            "SELECT coalesce(array_agg(right(c.relname, 8) ORDER BY c.relname), '{}') FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = 'bugle.flow_event'::regclass AND c.relname ~ '_[0-9]{8}$'",
        )
        .await
}

/// How many rows there are of runs: runs, steps, values, waits for signals, events that were moved.
async fn rows(place: &Place) -> String {
    place
        .one(
            "SELECT concat_ws(' ', (SELECT count(*) FROM bugle.run), (SELECT count(*) FROM bugle.step), (SELECT count(*) FROM bugle.flow_value),
            (SELECT count(*) FROM bugle.signal_wait), (SELECT count(*) FROM bugle.flow_event_kept))",
        )
        .await
}

async fn events(place: &Place, run: RunId) -> usize {
    place.bugle.flow().list_events(run, None, 10_000).await.unwrap().len()
}

#[tokio::test]
async fn partitions_are_made_ahead_and_dropped_and_an_open_run_stays_whole() {
    let place =
        Place::with(&["a", "b < a"], json!({"b": {"kind": "signal", "signal": {"key": "go:{run}"}}})).await;
    let crew = place.crew(&Script::default());
    let (open, ended) = (place.start().await, place.start().await);
    let flow = place.bugle.flow();
    flow.signal(&format!("go:{}", ended.id()), &1, None).await.unwrap();
    assert_eq!(place.ended(&ended).await.0, RunState::Succeeded);
    until("it waits", async || place.states(open.id()).await == "a=succeeded b=waiting").await;
    let before = flow.list_events(open.id(), None, 100).await.unwrap();
    let of_default = "SELECT count(*) FROM bugle.flow_event_default";
    assert_eq!(place.one::<i64>(of_default).await, 0, "every event went into its day");

    for day in 0..=40 {
        let now = in_days(&place, day).await;
        let name = |at: DateTime<Utc>| at.format("%Y%m%d").to_string();
        let all = (0..=7).map(|ahead| name(now + TimeDelta::days(ahead)));
        let all: Vec<_> = all.collect();
        sweep_until(&place, day, "a week ahead is there, and nothing older than thirty days", async || {
            let days = days(&place).await;
            all.iter().all(|day| days.contains(day)) && days[0] >= name(now - TimeDelta::days(30))
        })
        .await;
        place.audit().await;
    }
    let went = async || flow.show(ended.id()).await.unwrap().is_none();
    sweep_until(&place, 41, "it went", went).await;
    assert_eq!(flow.list_events(open.id(), None, 100).await.unwrap().len(), before.len());
    let then = flow.run_at(open.id(), before[0].at).await.unwrap().unwrap();
    assert_eq!((then.run.state, then.steps[0].row.state.as_str()), (RunState::Queued, "ready"));
    flow.signal(&format!("go:{}", open.id()), &1, None).await.unwrap();
    assert_eq!(place.ended(&open).await, (RunState::Succeeded, "a=succeeded b=succeeded".to_owned()));
    assert_eq!(events(&place, open.id()).await, before.len() + 2, "the old ones and the new ones");
    crew.stop().await;
    // It ended today, by the database's clock: it goes with all that is left of it.
    let all = "SELECT count(*) FROM bugle.flow_event";
    let went = async || rows(&place).await == "0 0 0 0 0" && place.one::<i64>(all).await == 0;
    sweep_until(&place, 42, "nothing is left", went).await;
}

#[tokio::test]
async fn a_failed_run_is_kept_for_longer_and_days_can_be_set() {
    let place = Place::with(&["a"], json!({})).await;
    let crew = place.crew(&Script::default().on("a", [broken()]));
    let failed = place.start().await;
    assert_eq!(place.ended(&failed).await.0, RunState::Failed);
    let done = place.start().await;
    assert_eq!(place.ended(&done).await.0, RunState::Succeeded);
    crew.stop().await;
    let log = events(&place, failed.id()).await;
    let flow = place.bugle.flow();
    place.bugle.sweep(Some(in_days(&place, 29).await)).await.unwrap();
    assert!(flow.show(done.id()).await.unwrap().is_some());
    let moved = async || rows(&place).await == format!("1 1 1 0 {log}");
    sweep_until(&place, 33, "one is gone, and the day of the other", moved).await;
    assert!(flow.show(done.id()).await.unwrap().is_none());
    assert_eq!(events(&place, failed.id()).await, log, "whoever sees to it finds its log");
    flow.restart(failed.id(), "a", NOBODY).await.unwrap();
    let crew = place.crew(&Script::default());
    assert_eq!(place.ended(&failed).await.0, RunState::Succeeded);
    crew.stop().await;
    place.one::<i32>("UPDATE bugle.meta SET run_days = 2 RETURNING run_days").await;
    place.bugle.sweep(Some(in_days(&place, 1).await)).await.unwrap();
    assert!(flow.show(failed.id()).await.unwrap().is_some());
    sweep_until(&place, 3, "it is gone", async || rows(&place).await == "0 0 0 0 0").await;
}

#[tokio::test]
async fn a_large_run_goes_bit_by_bit_and_is_not_seen_meanwhile() {
    let more = json!({"m": {"kind": "map", "over": {"no": null, "at": "/list"}}});
    let place = Place::with(&["m"], more).await;
    let list: Vec<i32> = (0..500).collect();
    let flow = place.bugle.flow();
    let run = flow.start("d", &json!({"list": list})).send().await.unwrap();
    let crew = place.crew(&Script::default());
    assert_eq!(run.wait().await.unwrap().state, RunState::Succeeded);
    crew.stop().await;
    let part = "SELECT bugle.remove_runs(now() + interval '31 days', 10, 200)";
    until("a part of it went", async || place.one::<i64>(part).await == 1 + 200 + 200).await;
    assert!(flow.show(run.id()).await.unwrap().is_none());
    assert_eq!(rows(&place).await, "0 301 301 0 0");
    place.audit().await;
    for left in ["0 101 101 0 0", "0 0 0 0 0"] {
        until("the next part went", async || place.one::<i64>(part).await > 0).await;
        assert_eq!(rows(&place).await, left);
    }
    assert_eq!(place.one::<i64>(part).await, 0);
    assert_eq!(place.one::<i64>("SELECT count(*) FROM bugle.run_gone").await, 0);
}

#[tokio::test]
async fn a_run_that_somebody_is_changing_is_skipped() {
    let place = Place::with(&["a"], json!({})).await;
    let crew = place.crew(&Script::default());
    let run = place.start().await;
    place.ended(&run).await;
    crew.stop().await;
    let mut tx = place.db.pool().begin().await.unwrap();
    let restart = place.db.sql("SELECT bugle.restart_from($1, 'a')").unwrap();
    sqlx::query(restart).bind(run.id()).execute(&mut *tx).await.unwrap();
    let later = in_days(&place, 40).await;
    let swept = tokio::time::timeout(Duration::from_mins(1), place.bugle.sweep(Some(later))).await;
    swept.expect("the sweep waits for nobody").unwrap();
    tx.commit().await.unwrap();
    place.bugle.sweep(Some(later)).await.unwrap();
    assert_eq!(place.states(run.id()).await, "a=ready", "it goes on, and stays");
    assert!(events(&place, run.id()).await > 4);
}

#[tokio::test]
async fn nodes_that_sweep_at_once_lose_nothing_and_hold_up_nobody() {
    let place =
        Place::with(&["a", "b < a"], json!({"b": {"kind": "signal", "signal": {"key": "never"}}})).await;
    let crew = place.crew(&Script::default());
    let mut open = Vec::new();
    for n in 0..20 {
        let run = place.start().await;
        until("it waits", async || place.states(run.id()).await == "a=succeeded b=waiting").await;
        if n % 2 == 0 {
            place.bugle.flow().cancel(run.id(), NOBODY).await.unwrap();
        } else {
            open.push((run.id(), events(&place, run.id()).await));
        }
    }
    let other = place.db.bugle().await.unwrap();
    for day in 30..40 {
        let later = in_days(&place, day).await;
        let (mine, others, during) =
            tokio::join!(place.bugle.sweep(Some(later)), other.sweep(Some(later)), async {
                let run = place.start().await;
                until("it is settled", async || place.states(run.id()).await == "a=succeeded b=waiting")
                    .await;
                run.id()
            });
        mine.unwrap();
        others.unwrap();
        open.push((during, events(&place, during).await));
        place.audit().await;
    }
    let runs = "SELECT count(*) FROM bugle.run";
    sweep_until(&place, 41, "the cancelled ones are gone", async || place.one::<i64>(runs).await == 20).await;
    crew.stop().await;
    for (run, log) in &open {
        assert_eq!(events(&place, *run).await, *log, "of run {run}");
    }
    assert_eq!(place.one::<i64>("SELECT count(*) FROM bugle.signal_wait").await, 20, "and wait for nothing");
}

#[tokio::test]
async fn a_job_that_outlives_its_run_is_ended_by_whoever_claims_it() {
    let place = Place::with(&["a"], json!({"a": {"queue": "steps"}})).await;
    let later = Verdict::retry_in(Duration::from_hours(1), "later", "not now");
    let crew = place.crew(&Script::default().on("a", [later]));
    let run = place.start().await;
    until("it backs off", async || place.states(run.id()).await == "a=waiting").await;
    place.bugle.flow().cancel(run.id(), NOBODY).await.unwrap();
    sweep_until(&place, 40, "it is gone", async || rows(&place).await == "0 0 0 0 0").await;
    let due = "UPDATE bugle.due SET due_at = clock_timestamp() RETURNING 1";
    assert_eq!(place.one::<i32>(due).await, 1);
    // A node looks for what it knows of; this comes before its time.
    let moved = "SELECT count(bugle.move_due(id, '-infinity', 1000)) FROM bugle.queue WHERE name = 'steps'";
    assert_eq!(place.one::<i64>(moved).await, 1);
    let next = place.start().await; // wakes the worker
    assert_eq!(place.ended(&next).await.0, RunState::Succeeded);
    let left = "SELECT (SELECT count(*) FROM bugle.job) + (SELECT count(*) FROM bugle.due)";
    until("its job is gone", async || place.one::<i64>(left).await == 0).await;
    crew.stop().await;
}

#[tokio::test]
async fn removing_reads_what_it_removes_and_no_table() {
    let place = Place::new().await;
    place.define(&spec(&["a", "b < a"], &json!({}))).await;
    let fill = "
        INSERT INTO bugle.run (id, namespace, definition, state, steps_left, created_at, ended_at)
        SELECT i, d.namespace, d.id, CASE WHEN i % 100 = 0 THEN 'failed' ELSE 'succeeded' END, 0, now() - interval '1 minute' * (50000 - i), now() - interval '1 minute' * (50000 - i)
        FROM generate_series(1, 50000) AS i CROSS JOIN bugle.definition d;
        INSERT INTO bugle.step (run, no, state, parents_left, message) SELECT r.id, no, 'succeeded', 0, 'message' FROM bugle.run r CROSS JOIN generate_series(1, 2) AS no;
        INSERT INTO bugle.flow_value (run, no, idx, epoch, value) SELECT r.id, no, 0, 1, '{}' FROM bugle.run r CROSS JOIN generate_series(0, 2) AS no;
        INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, to_state) SELECT r.created_at, r.id, no, 0, 1, 'start', 'ready' FROM bugle.run r CROSS JOIN generate_series(0, 2) AS no;
        ANALYZE bugle.run; ANALYZE bugle.step; ANALYZE bugle.flow_event; ANALYZE bugle.flow_value";
    sqlx::raw_sql(place.db.sql(fill).unwrap()).execute(place.db.pool()).await.unwrap();
    // Nothing is due; ten runs are, with 20 steps, 30 values: each row is found, locked and deleted through an index or two.
    for (sql, most) in [
        ("SELECT bugle.remove_runs(now() - interval '10 days')", 60),
        ("SELECT bugle.remove_runs(now(), 10)", 2_000),
        ("SELECT bugle.keep_events(now())", 300),
    ] {
        let mut least = u64::MAX;
        for _ in 0..20 {
            least = least.min(place.db.pages_touched(sql).await.unwrap());
            if least <= most {
                break;
            }
        }
        assert!(least <= most, "{sql}: {least} pages");
    }
    let all = place.db.pages_touched("SELECT count(*) FROM bugle.step WHERE message <> ''").await.unwrap();
    assert!(all > 900, "the steps are only {all} pages: nothing would be noticed");
}
