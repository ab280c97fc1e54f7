//! What people see of runs and definitions.

use crate::fixture::{Place, Script, again, broken, spec, until};
use bugle::flow::inspect::{ElementCount, RunFilter};
use bugle::flow::{By, Definition, RunId, RunState};
use serde_json::json;
use std::collections::BTreeSet;

const MAP: &[&str] = &["m", "b < m"];

async fn define(place: &Place, name: &str, steps: &[&str]) {
    let mut spec = spec(steps, &json!({}));
    spec["name"] = json!(name);
    place.define(&spec).await;
}

async fn start(place: &Place, name: &str) -> RunId {
    place.bugle.flow().start(name, &7).send().await.unwrap().id()
}

#[tokio::test]
async fn runs_are_listed_by_what_is_asked_for_newest_first_and_page_by_page() {
    let place = Place::new().await;
    define(&place, "one", &["a"]).await;
    define(&place, "two", &["a", "b < a"]).await;
    let flow = place.bugle.flow();
    let mut all = Vec::new();
    for n in 0..12 {
        all.push(start(&place, if n % 3 == 0 { "one" } else { "two" }).await);
    }
    all.reverse();
    for run in &all[..4] {
        flow.cancel(*run, By::default()).await.unwrap();
    }
    define(&place, "two", &["a", "b < a", "c < b"]).await; // another version
    let newest = start(&place, "two").await;
    let ids = async |filter: &RunFilter, most: u32| {
        let rows = flow.list_runs(filter, most).await.unwrap();
        rows.iter().map(|row| row.id).collect::<Vec<_>>()
    };
    let any = RunFilter::default();
    let everything: Vec<_> = std::iter::once(newest).chain(all.iter().copied()).collect();
    assert_eq!(ids(&any, 100).await, everything);
    assert_eq!(ids(&any, 3).await, everything[..3]);
    let of = |definition: &str| RunFilter { definition: Some(definition.to_owned()), ..any.clone() };
    assert_eq!(ids(&of("one"), 100).await, [all[2], all[5], all[8], all[11]]);
    assert_eq!(ids(&of("two"), 2).await, [newest, all[0]]);
    assert_eq!(ids(&of("three"), 2).await, []);
    let cancelled = RunFilter { state: Some(RunState::Cancelled), ..any.clone() };
    assert_eq!(ids(&cancelled, 100).await, all[..4]);
    let both = RunFilter { state: Some(RunState::Queued), ..of("one") };
    assert_eq!(ids(&both, 100).await, [all[5], all[8], all[11]]);
    let third = flow.list_runs(&any, 3).await.unwrap()[2].created_at;
    let later = RunFilter { started_after: Some(third), ..any.clone() };
    assert_eq!(ids(&later, 100).await, everything[..3]);

    for filter in [any.clone(), of("two"), cancelled] {
        let whole = ids(&filter, 100).await;
        let (mut pages, mut filter) = (Vec::new(), filter);
        loop {
            let page = flow.list_runs(&filter, 2).await.unwrap();
            let Some(last) = page.last() else { break };
            filter.after = Some(last.mark().to_string().parse().unwrap());
            pages.extend(page.iter().map(|row| row.id));
        }
        assert_eq!(pages, whole);
    }
    let row = &flow.list_runs(&any, 1).await.unwrap()[0];
    assert_eq!((row.definition.as_str(), row.version, row.steps, row.steps_left), ("two", 2, 3, 3));
    let counts = |counts: Vec<bugle::flow::inspect::StateCount>| {
        counts.iter().map(|c| (c.state.as_str(), c.runs)).collect::<Vec<_>>()
    };
    let said = counts(flow.count_runs(None).await.unwrap());
    assert_eq!(said, [("queued", 9), ("running", 0), ("succeeded", 0), ("failed", 0), ("cancelled", 4)]);
    let said = counts(flow.count_runs(Some("one")).await.unwrap());
    assert_eq!(said, [("queued", 3), ("running", 0), ("succeeded", 0), ("failed", 0), ("cancelled", 1)]);
}

#[tokio::test]
async fn definitions_are_listed_with_their_versions_and_shown_as_they_were_written() {
    let place = Place::new().await;
    let flow = place.bugle.flow();
    assert!(flow.list_definitions(None).await.unwrap().is_empty());
    let text = "{ name: order, description: what is ordered, deadline: 1h, steps: [{ name: a }, { name: b, after: a }] }";
    let first = Definition::parse_yaml(text).unwrap();
    flow.define(&first).await.unwrap();
    flow.define(&Definition::parse_yaml("{ name: order, steps: [{ name: a }] }").unwrap()).await.unwrap();
    flow.define(&Definition::parse_yaml("{ name: mail, steps: [{ name: a }] }").unwrap()).await.unwrap();
    start(&place, "order").await;
    let rows = flow.list_definitions(None).await.unwrap();
    let said: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.version, row.steps, row.open)).collect();
    assert_eq!(said, [("mail", 1, 1, 0), ("order", 2, 1, 1), ("order", 1, 2, 0)]);
    assert_eq!(
        (rows[2].deadline_ms, rows[2].description.as_deref()),
        (Some(3_600_000), Some("what is ordered"))
    );
    assert_eq!(flow.list_definitions(Some("mail")).await.unwrap().len(), 1);
    let shown = flow.show_definition("order", Some(1)).await.unwrap().unwrap();
    assert_eq!((shown.version, shown.definition.hash()), (1, first.hash()));
    assert_eq!(shown.definition.draw(), "order, version 1\n●  a\n○  b\n");
    assert_eq!(flow.show_definition("order", None).await.unwrap().unwrap().version, 2);
    assert!(flow.show_definition("order", Some(3)).await.unwrap().is_none());
}

#[tokio::test]
async fn a_run_is_shown_in_full_and_the_elements_of_a_large_map_are_counted() {
    let more = json!({"m": {"kind": "map", "over": {"no": null, "at": ""}, "on_failure": "continue"}});
    let place = Place::with(MAP, more).await;
    let flow = place.bugle.flow();
    let crew = place.crew(&Script::default().on("m.41", [broken()]));
    let list: Vec<i32> = (0..50).collect();
    let run = flow.start("d", &list).tags(json!({"shop": "north"})).send().await.unwrap();
    assert_eq!(place.ended(&run).await.0, RunState::Succeeded);
    crew.stop().await;
    let shown = flow.show_run(run.id()).await.unwrap().unwrap();
    assert_eq!((shown.run.state, shown.steps.len()), (RunState::Succeeded, 2));
    let map = &shown.steps[0];
    let count = |state: &str, elements| ElementCount { state: state.to_owned(), elements };
    assert_eq!(map.element_counts, [count("succeeded", 49), count("failed", 1)]);
    assert_eq!(map.elements_total(), 50);
    let places: Vec<_> = map.elements.iter().map(|element| element.idx).collect();
    assert_eq!(
        places,
        (1..=19).chain([41]).collect::<Vec<_>>(),
        "the one that failed, and the first of the others"
    );
    assert!(shown.steps[1].elements.is_empty());
    let json = serde_json::to_value(&shown).unwrap();
    assert_eq!((&json["state"], &json["tags"]["shop"]), (&json!("succeeded"), &json!("north")));
    assert_eq!((&json["steps"][1]["name"], &json["steps"][1]["output"]), (&json!("b"), &json!("b")));
    assert!(flow.show_run(RunId(i64::MAX)).await.unwrap().is_none());
}

#[tokio::test]
async fn the_log_of_a_run_is_read_page_by_page_in_its_order() {
    let place = Place::with(&["a", "b < a"], json!({})).await;
    let flow = place.bugle.flow();
    let crew = place.crew(&Script::default().on("a", [again()]).on("b", [broken()]));
    let run = place.start().await;
    assert_eq!(place.ended(&run).await.0, RunState::Failed);
    flow.skip(run.id(), "b", By { actor: Some("Ann"), reason: Some("not today") }).await.unwrap();
    crew.stop().await;
    let events = flow.list_events(run.id(), None, 100).await.unwrap();
    let said: Vec<_> = events
        .iter()
        .filter(|event| event.no != 1)
        .map(|e| {
            format!(
                "{} {} {}>{}",
                e.step.as_deref().unwrap_or("run"),
                e.cause,
                e.from_state.as_deref().unwrap_or(""),
                e.to_state
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            "run start >queued",
            "b start >pending",
            "run claim queued>running",
            "b parents pending>ready",
            "b claim ready>running",
            "b fail running>failed",
            "run end running>failed",
            "b skip failed>pending",
            "run restart failed>running",
            "b skip pending>skipped",
            "run end running>succeeded",
        ]
    );
    let skipped = events.iter().find(|event| event.to_state == "skipped").unwrap();
    assert_eq!((skipped.actor.as_deref(), skipped.why.as_deref()), (Some("Ann"), Some("not today")));
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let page = flow.list_events(run.id(), after, 3).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.mark());
        pages.extend(page);
    }
    assert_eq!(pages.len(), events.len());
    assert!(pages.iter().zip(&events).all(|(a, b)| a.seq == b.seq));
    let numbers: BTreeSet<_> = events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers.len(), events.len());
    assert!(flow.list_events(RunId(i64::MAX), None, 3).await.unwrap().is_empty());
}

#[tokio::test]
async fn failed_runs_are_listed_with_the_step_that_failed_and_what_it_had_before_it() {
    let more = json!({
        "b": {"attempts": 2},
        "c": {"on_failure": "continue"},
        "m": {"kind": "map", "over": {"no": 1, "at": ""}},
    });
    let place = Place::with(&["a", "b < a", "c < a", "m < a"], more).await;
    let flow = place.bugle.flow();
    assert!(flow.list_dead(None, None, 10).await.unwrap().is_empty());
    let list = || bugle::Verdict::done_with(&json!(["x", "y"]));
    let script = Script::default()
        .on("a", [list(), list()])
        .on("b", [again(), again()])
        .on("c", [broken(), broken()])
        .on("m.2", [bugle::Verdict::Done, broken()]);
    let crew = place.crew(&script);
    let first = place.start().await;
    assert_eq!(place.ended(&first).await.0, RunState::Failed);
    let second = place.start().await;
    assert_eq!(place.ended(&second).await.0, RunState::Failed);
    crew.stop().await;

    let dead = flow.list_dead(Some("d"), None, 10).await.unwrap();
    assert_eq!(dead.iter().map(|run| run.id).collect::<Vec<_>>(), [second.id(), first.id()]);
    let said: Vec<_> = dead
        .iter()
        .map(|run| (run.step.as_deref(), run.element, run.code.as_str(), run.message.as_str(), run.attempt))
        .collect();
    assert_eq!(
        said,
        [
            (Some("m"), 2, "broken", "it can never work", Some(1)),
            (Some("b"), 0, "passing", "try again", Some(2))
        ],
        "c goes on"
    );
    let next = flow.list_dead(None, Some(dead[0].mark()), 10).await.unwrap();
    assert_eq!(next.iter().map(|run| run.id).collect::<Vec<_>>(), [first.id()]);
    assert!(flow.list_dead(Some("e"), None, 10).await.unwrap().is_empty());

    let detail = flow.show_dead(first.id()).await.unwrap().unwrap();
    let of = |step: &str| detail.failed.iter().find(|failed| failed.step == step).unwrap();
    assert_eq!((of("b").parents.clone(), of("b").is_seen_to), (json!({"a": ["x", "y"]}), false));
    assert!(of("c").is_seen_to);
    let attempts: Vec<_> =
        detail.attempts.iter().filter(|a| a.step == "b").map(|a| (a.attempt, a.code.as_deref())).collect();
    assert_eq!(attempts, [(1, Some("passing")), (2, Some("passing"))]);
    assert_eq!(detail.run.input.0.get(), r#"{"list": [1, 2, 3]}"#);
    let detail = flow.show_dead(second.id()).await.unwrap().unwrap();
    let element = detail.failed.iter().find(|failed| failed.element == 2).unwrap();
    assert_eq!((element.step.as_str(), &element.value), ("m", &Some(json!("y"))));
    flow.skip(first.id(), "b", By::default()).await.unwrap();
    assert!(flow.show_dead(first.id()).await.unwrap().is_none(), "it is not dead any more");
}

#[tokio::test]
async fn a_run_that_its_deadline_ended_says_so() {
    let place = Place::new().await;
    let mut spec = spec(&["a"], &json!({}));
    spec["deadline_ms"] = json!(1);
    place.define(&spec).await;
    let run = place.start().await;
    let stop = tokio_util::sync::CancellationToken::new();
    let engine = tokio::spawn({
        let (flow, stop) = (place.bugle.flow(), stop.clone());
        async move { flow.run_engine(stop).await.unwrap() }
    });
    until("it has failed", async || !place.bugle.flow().list_dead(None, None, 10).await.unwrap().is_empty())
        .await;
    let dead = &place.bugle.flow().list_dead(None, None, 10).await.unwrap()[0];
    assert_eq!((dead.id, dead.step.as_deref(), dead.code.as_str()), (run.id(), None, "deadline"));
    stop.cancel();
    engine.await.unwrap();
}
