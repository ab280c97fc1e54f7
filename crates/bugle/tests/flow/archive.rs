//! Runs exported from one database and imported into another: they go on there. That their rows are the same is compared for every state in
//! `moves.rs`, for what becomes of them in `replay.rs` and `random.rs`.

use crate::fixture::{Place, Script, again, spec, until};
use crate::moved::{compare_moved, exported, imported, rows};
use bugle::Verdict;
use bugle::flow::archive::{Cause, ExportError, ImportOptions, Which};
use bugle::flow::{By, Claim, RunId, RunState};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use std::time::Duration;

const NOBODY: By = By { actor: None, reason: None };
const HOUR: Duration = Duration::from_hours(1);

/// Why a file is not imported, and how many runs of it were.
async fn refused(place: &Place, file: &[u8]) -> (String, u64) {
    let error = place.bugle.flow().import(&mut &file[..], ImportOptions::default()).await.unwrap_err();
    (error.to_string(), error.imported.runs)
}

/// One of everything that waits: `a` has ended, a map has an element that backs off and others that had no turn, a sleep, a signal, one that was put off.
async fn half_done(place: &Place) -> RunId {
    let more = json!({
        "m": {"kind": "map", "over": {"no": 1, "at": ""}, "concurrency": 2, "deadline_ms": 7_200_000},
        "s": {"kind": "sleep", "sleep_ms": 3_600_000},
        "w": {"kind": "signal", "signal": {"key": "go:{run}", "timeout_ms": 3_600_000}},
        "b": {"deadline_ms": 7_200_000},
    });
    let mut spec = spec(&["a", "m < a", "s < a", "w < a", "b < a", "c < m s w b"], &more);
    spec["deadline_ms"] = json!(86_400_000);
    place.define(&spec).await;
    let list = Verdict::done_with(&json!(["x", "y", "z"]));
    let later = || Verdict::retry_in(HOUR, "later", "not now");
    let script = Script::default().on("a", [again(), list]).on("m.1", [later()]).on("m.2", [later()]);
    let crew = place.crew(&script.on("b", [Verdict::snooze(HOUR)]));
    let flow = place.bugle.flow();
    let start = flow.start("d", &json!({"list": [1]})).key("one of everything").tags(json!({"of": "Ann"}));
    let run = start.send().await.unwrap().id();
    let states =
        "a=succeeded m=waiting m.1=waiting m.2=waiting m.3=pending s=waiting w=waiting b=waiting c=pending";
    until("it is half done", async || place.states(run).await == states).await;
    crew.stop().await;
    run
}

#[tokio::test]
async fn a_run_that_is_half_done_goes_on_elsewhere() {
    let (here, there) = (Place::new().await, Place::new().await);
    let run = half_done(&here).await;
    compare_moved(&here, &there, None).await;
    // By its key the run is found there as well, and numbers that it has are nobody else's.
    let flow = there.bugle.flow();
    let again = flow.start("d", &json!({})).key("one of everything").send().await.unwrap();
    assert_eq!(again.id(), run);
    assert!(flow.start("d", &json!({})).send().await.unwrap().id() > run);

    let crew = there.crew(&Script::default());
    flow.signal(&format!("go:{run}"), &1, None).await.unwrap();
    for (step, element) in [("m", 1), ("m", 2), ("b", 0)] {
        flow.retry(run, step, element, NOBODY).await.unwrap();
    }
    flow.resolve(run, "s", json!(null), NOBODY).await.unwrap();
    let (state, steps) = there.ended(&flow.handle(run)).await;
    assert_eq!(state, RunState::Succeeded, "{steps}");
    crew.stop().await;
    assert_eq!(here.bugle.flow().show(run).await.unwrap().unwrap().state, RunState::Running, "it stays here");
}

#[tokio::test]
async fn what_comes_by_itself_comes_elsewhere() {
    let (here, there) = (Place::new().await, Place::new().await);
    let more = json!({
        "s": {"kind": "sleep", "sleep_ms": 1_000},
        "w": {"kind": "signal", "signal": {"key": "never", "timeout_ms": 1_000}, "on_failure": "continue"},
        "b": {"deadline_ms": 1_000, "on_failure": "continue"},
        "f": {"backoff": {"table_s": [1, 1, 1]}},
    });
    here.define(&spec(&["s", "w", "b", "f", "c < s w b f"], &more)).await;
    let run = here.start().await.id();
    let queue = here.bugle.flow().queue("steps").await.unwrap();
    for claimed in queue.claim(&Claim::new("w").unwrap().most(10).unwrap()).await.unwrap() {
        let verdict = if claimed.name == "f" {
            Verdict::retry_in(Duration::from_secs(1), "later", "not now")
        } else {
            Verdict::snooze(HOUR)
        };
        queue.settle(&claimed.receipt, verdict).await.unwrap();
    }
    assert_eq!(here.states(run).await, "s=waiting w=waiting b=waiting f=waiting c=pending");
    compare_moved(&here, &there, None).await;
    let crew = there.crew(&Script::default());
    let (state, states) = there.ended(&there.bugle.flow().handle(run)).await;
    assert_eq!(states, "s=succeeded w=failed b=failed f=succeeded c=succeeded");
    assert_eq!(state, RunState::Succeeded);
    crew.stop().await;
}

#[tokio::test]
async fn a_step_that_somebody_runs_is_ready_elsewhere() {
    let (here, there) = (Place::with(&["a", "b < a"], json!({})).await, Place::new().await);
    let run = here.start().await.id();
    let queue = here.bugle.flow().queue("steps").await.unwrap();
    let claimed = queue.claim(&Claim::new("w").unwrap().lease(HOUR)).await.unwrap().remove(0);
    let raw = |json: &str| Some(serde_json::value::RawValue::from_string(json.to_owned()).unwrap());
    queue.save(&claimed.receipt, raw("{\"at\": 7}"), raw("\"half\"")).await.unwrap();
    compare_moved(&here, &there, None).await;
    assert_eq!(there.states(run).await, "a=ready b=pending");
    let events = there.bugle.flow().list_events(run, None, 100).await.unwrap();
    let last = events.last().unwrap();
    assert_eq!((last.cause.as_str(), last.actor.as_deref(), last.attempt), ("release", Some("import"), 0));
    let queue = there.bugle.flow().queue("steps").await.unwrap();
    let again = queue.claim(&Claim::new("v").unwrap()).await.unwrap().remove(0);
    assert_eq!((again.attempt, again.checkpoint.unwrap().get()), (1, "{\"at\": 7}"));
    queue.settle(&again.receipt, Verdict::Done).await.unwrap();
    assert_eq!(there.states(run).await, "a=succeeded b=ready");
}

#[tokio::test]
async fn a_paused_run_and_a_signal_that_nobody_has_taken_are_moved() {
    let (here, there) = (Place::new().await, Place::new().await);
    let more = json!({"b": {"kind": "signal", "signal": {"key": "go"}}});
    here.define(&spec(&["a", "b < a"], &more)).await;
    let flow = here.bugle.flow();
    let run = here.start().await.id();
    flow.pause(run, NOBODY).await.unwrap();
    flow.signal("go", &json!("now"), Some("Ann")).await.unwrap();
    compare_moved(&here, &there, None).await;
    let crew = there.crew(&Script::default());
    let flow = there.bugle.flow();
    until("it is held", async || there.states(run).await == "a=waiting b=pending").await;
    flow.resume(run, NOBODY).await.unwrap();
    assert_eq!(there.ended(&flow.handle(run)).await.1, "a=succeeded b=succeeded");
    crew.stop().await;
}

#[tokio::test]
async fn what_is_there_is_refused_or_left_out() {
    let (here, there) = (Place::with(&["a"], json!({})).await, Place::new().await);
    let first = here.start().await.id();
    imported(&there, &exported(&here, Which::All).await).await;
    let second = here.start().await.id();
    let file = exported(&here, Which::All).await;
    let (error, runs) = refused(&there, &file).await;
    assert!(error.contains(&format!("run {first} is in this database already")), "{error}");
    assert!(error.contains("no run was imported") && runs == 0, "{error}");
    let flow = there.bugle.flow();
    let done = flow.import(&mut &file[..], ImportOptions::default().skip_existing(true)).await.unwrap();
    assert_eq!((done.runs, done.skipped, done.definitions), (1, 1, 0));
    assert_eq!(rows(&here, None).await, rows(&there, None).await);
    assert!(flow.show(second).await.unwrap().is_some());

    // Another definition of the same name and version; a number that is a job's.
    let other = Place::with(&["a", "b < a"], json!({})).await;
    let (error, _) = refused(&other, &file).await;
    assert!(error.contains("\"d\" has a version 1 already") && error.contains("empty database"), "{error}");
    let other = Place::new().await;
    while other.one::<i64>("SELECT bugle.enqueue('q', 'k')").await < first.0 {}
    let (error, _) = refused(&other, &file).await;
    assert!(error.contains(&format!("number {first} of a run is a job's here")), "{error}");
}

#[tokio::test]
async fn a_run_that_was_removed_is_brought_back() {
    let place = Place::with(&["a"], json!({})).await;
    let crew = place.crew(&Script::default());
    let run = place.start().await;
    place.ended(&run).await;
    crew.stop().await;
    let file = exported(&place, Which::Runs(&[run.id()])).await;
    let before = rows(&place, None).await;
    let later = place.one::<DateTime<Utc>>("SELECT now()").await + TimeDelta::days(31);
    until("it was removed", async || {
        place.bugle.sweep(Some(later)).await.unwrap();
        place.bugle.flow().show(run.id()).await.unwrap().is_none()
    })
    .await;
    imported(&place, &file).await;
    assert_eq!(rows(&place, None).await, before);
}

#[tokio::test]
async fn a_file_that_is_cut_off_or_something_else_is_refused() {
    let here = Place::with(&["a"], json!({})).await;
    for _ in 0..2 {
        here.start().await;
    }
    let file = exported(&here, Which::All).await;
    let text = String::from_utf8(file.clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // Wherever it is cut, whole runs are imported or nothing of them, and it is said how far it came.
    for cut in 1..lines.len() {
        let there = Place::new().await;
        let part = lines[..cut].join("\n") + "\n";
        let (error, runs) = refused(&there, part.as_bytes()).await;
        assert!(error.contains("the file was cut off"), "{error}");
        assert_eq!(there.one::<i64>("SELECT count(*) FROM bugle.run").await, i64::try_from(runs).unwrap());
        let whole = lines[..cut].iter().filter(|line| line.starts_with("{\"run_end\"")).count();
        assert_eq!(runs, u64::try_from(whole).unwrap(), "{error}");
        there.audit().await;
    }
    let there = Place::new().await;
    let in_a_line = &file[..file.len() - 5];
    assert!(refused(&there, in_a_line).await.0.contains("2 runs before it were imported"));
    let without =
        |part: &str| -> String { text.split_inclusive('\n').filter(|l| !l.contains(part)).collect() };
    // In one place: nothing of these is imported, but a definition, and runs of the last.
    let there = Place::new().await;
    for (file, fault) in [
        (without("{\"definition\""), "which the file does not have before it"),
        (String::new(), "line 1: the file is empty"),
        ("PGDMP\n".to_owned(), "begins with \"PGDMP\""),
        ("{\"a\": 1}\n".to_owned(), "import what `bugle flow export` wrote"),
        (
            text.replace("\"format\":1", "\"format\":7"),
            "the file has format 7, and this version of Bugle knows 1",
        ),
        (text.replace("bugle workflows", "queen"), "the file has \"queen\""),
        (without("\"cause\": \"start\""), "its end says"),
        (without("{\"value\""), "0 values"),
        (format!("{}\n{}\n", lines[0], lines[3]), "it is a value, which does not come here"),
        (format!("{}\n{{\"run\": 7}}\n", lines[0]), "it is no line of an export"),
        (text.clone() + &text, "goes on behind its end"),
    ] {
        let (error, _) = refused(&there, file.as_bytes()).await;
        assert!(error.contains(fault), "{error}\n  does not say: {fault}");
        assert!(error.contains("no run was imported") || file.len() > text.len(), "{error}");
    }
}

#[tokio::test]
async fn a_run_that_is_not_there_is_not_exported() {
    let place = Place::with(&["a"], json!({})).await;
    let run = place.start().await.id();
    let mut file = Vec::new();
    let error = place.bugle.flow().export(Which::Runs(&[run, RunId(4711)]), &mut file).await.unwrap_err();
    assert!(matches!(error, ExportError::NoRun { run: RunId(4711), .. }), "{error}");
    let there = Place::new().await;
    let error = there.bugle.flow().import(&mut &file[..], ImportOptions::default()).await.unwrap_err();
    assert!(matches!(error.cause, Cause::Line { .. }) && error.imported.runs == 1, "{error}");
}
