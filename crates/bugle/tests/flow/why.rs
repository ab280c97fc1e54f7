//! What each step of a run waits for, in all the ways in which one can.

use crate::fixture::{Place, SOON, Script, spec, until};
use bugle::Verdict;
use bugle::flow::inspect::{Reason, RunWhy, StepWhy};
use bugle::flow::{By, RunId, Step};
use serde_json::json;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

async fn why(place: &Place, run: RunId) -> RunWhy {
    place.bugle.flow().why(run).await.unwrap().unwrap()
}

fn of<'a>(why: &'a RunWhy, step: &str) -> &'a StepWhy {
    why.waits.iter().find(|wait| wait.step == step).unwrap_or_else(|| panic!("{step} is not in {why:?}"))
}

#[tokio::test]
async fn nobody_works_on_the_queue_or_it_is_paused_or_the_run_is() {
    let place = Place::with(&["a", "b < a", "c < a! b*"], json!({})).await;
    let flow = place.bugle.flow();
    let run = place.start().await.id();
    let said = why(&place, run).await;
    assert_eq!(of(&said, "a").reason, Reason::NoWorker { queue: "steps".to_owned() });
    let Reason::Parents { missing } = &of(&said, "c").reason else { panic!("{said:?}") };
    let missing: Vec<_> =
        missing.iter().map(|p| (p.step.as_str(), p.state.as_str(), p.on.as_str())).collect();
    assert_eq!(missing, [("a", "ready", "failure"), ("b", "pending", "always")]);
    assert_eq!((said.engine_seen, said.waits.len()), (None, 3));
    let pause = "INSERT INTO bugle.cursor (queue, gen, px, pid, pend, claimed, paused) SELECT c.queue, c.gen + 1, c.px, c.pid, c.pend, c.claimed, true FROM bugle.newest_cursor c JOIN bugle.queue q ON q.id = c.queue WHERE q.name = 'steps'";
    sqlx::raw_sql(place.db.sql(pause).unwrap()).execute(place.db.pool()).await.unwrap();
    let said = why(&place, run).await;
    assert_eq!(of(&said, "a").reason, Reason::QueuePaused { queue: "steps".to_owned() });
    flow.pause(run, By::default()).await.unwrap();
    assert_eq!(of(&why(&place, run).await, "a").reason, Reason::RunPaused);
    let json = serde_json::to_value(why(&place, run).await).unwrap();
    assert_eq!((&json["id"], &json["waits"][0]["reason"]), (&json!(run.0), &json!("run_paused")));
    flow.cancel(run, By::default()).await.unwrap();
    assert!(why(&place, run).await.waits.is_empty());
    assert!(flow.why(RunId(i64::MAX)).await.unwrap().is_none());
}

#[tokio::test]
async fn it_sleeps_waits_for_a_signal_or_backs_off() {
    let more = json!({
        "a": {"kind": "sleep", "sleep_ms": 3_600_000},
        "b": {"kind": "signal", "signal": {"key": "go:{run}", "timeout_ms": 3_600_000}},
    });
    let place = Place::with(&["a", "b", "c"], more).await;
    let run = place.start().await.id();
    assert_eq!(why(&place, run).await.engine_seen, Some(false), "nobody does that");
    let later = Verdict::retry_in(Duration::from_hours(1), "later", "not now");
    let crew = place.crew(&Script::default().on("c", [later]));
    until("c backs off", async || place.states(run).await == "a=waiting b=waiting c=waiting").await;
    until("the engine sleeps", async || why(&place, run).await.engine_seen == Some(true)).await;
    let said = why(&place, run).await;
    let soon = said.now + Duration::from_mins(59);
    assert!(matches!(&of(&said, "a").reason, Reason::Sleep { until } if *until > soon), "{said:?}");
    let key = format!("go:{run}");
    assert!(matches!(&of(&said, "b").reason, Reason::Signal { key: its, until: Some(_) } if *its == key));
    let Reason::Backoff { until, attempt: 1, attempts: 3, message } = &of(&said, "c").reason else {
        panic!("{said:?}")
    };
    assert!(*until > soon && message.as_deref() == Some("not now"));
    crew.stop().await;
}

#[tokio::test]
async fn it_runs_or_its_worker_let_the_lease_end_or_others_go_before_it() {
    let more = json!({"m": {"kind": "map", "over": {"no": null, "at": "/list"}, "concurrency": 2}});
    let place = Place::with(&["m", "b < m"], more).await;
    let stop = CancellationToken::new();
    let (tell, mut begun) = mpsc::unbounded_channel();
    let node = place.db.bugle().await.unwrap();
    let worker =
        node.flow().worker("steps").concurrency(1).lease(Duration::from_hours(3)).drain(Duration::ZERO);
    let worker = worker.handle("m", move |_: Step| {
        let _ = tell.send(());
        std::future::pending::<()>()
    });
    let working = tokio::spawn({
        let stop = stop.clone();
        async move { worker.run(stop).await.unwrap() }
    });
    let run = place.start().await.id();
    tokio::time::timeout(SOON, begun.recv()).await.unwrap().unwrap();
    let said = why(&place, run).await;
    assert!(matches!(of(&said, "m").reason, Reason::Elements { left: 3, failed: 0 }), "{said:?}");
    let elements: Vec<_> = said.waits.iter().filter(|wait| wait.elements.is_some()).collect();
    let [running, unclaimed, pending] = elements.as_slice() else { panic!("{said:?}") };
    let Reason::Running { workers, lease_until: Some(_), attempt: 1, attempts: 3 } = &running.reason else {
        panic!("{running:?}")
    };
    assert_eq!(workers.len(), 1);
    let Reason::Unclaimed { queue, ready, workers: at_work, .. } = &unclaimed.reason else {
        panic!("{unclaimed:?}")
    };
    assert_eq!((queue.as_str(), *ready, at_work), ("steps", 1, workers));
    assert_eq!(
        (pending.elements, pending.element, &pending.reason),
        (Some(1), 3, &Reason::AtOnce { most: 2 })
    );
    place.end_leases().await;
    let said = why(&place, run).await;
    let ended = said.waits.iter().find(|wait| wait.state == "running").unwrap();
    assert!(matches!(&ended.reason, Reason::LeaseEnded { queue, .. } if queue == "steps"), "{said:?}");
    stop.cancel();
    working.await.unwrap();
    drop(node);
}

#[tokio::test]
async fn its_handler_has_put_it_off() {
    let place = Place::with(&["a"], json!({})).await;
    let run = place.start().await.id();
    let crew = place.crew(&Script::default().on("a", [Verdict::snooze(Duration::from_hours(1))]));
    until("it is put off", async || {
        let said = why(&place, run).await;
        matches!(of(&said, "a").reason, Reason::PutOff { until } if until > said.now + Duration::from_mins(59))
    })
    .await;
    assert_eq!(place.states(run).await, "a=waiting");
    crew.stop().await;
}

#[tokio::test]
async fn many_elements_are_one_line() {
    let place = Place::new().await;
    place
        .define(&spec(
            &["m"],
            &json!({"m": {"kind": "map", "over": {"no": null, "at": ""}, "concurrency": 10}}),
        ))
        .await;
    let list: Vec<i32> = (0..1_000).collect();
    let run = place.bugle.flow().start("d", &list).send().await.unwrap().id();
    let said = why(&place, run).await;
    let lines: Vec<_> = said.waits.iter().map(|wait| (wait.state.as_str(), wait.elements)).collect();
    assert_eq!(lines, [("waiting", None), ("ready", Some(10)), ("pending", Some(990))]);
}
