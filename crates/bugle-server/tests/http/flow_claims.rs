//! Workers that speak HTTP alone.
use crate::fixture::{LOOPBACK, Site, node};
use crate::flow::{CLAIM, CLAIM_AND_WAIT, RUNS, answered, later, one_step};
use bugle_server::{Options, Server};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const ONE: &str = "name: d\nsteps: [ { name: a, retry: { attempts: 3, backoff: [1h, 1h] } } ]";

const ORDER: &str = r#"
name: order
identity: key
steps:
  - name: reserve
  - name: pack
    map: { step: reserve, at: /items }
  - name: approve
    signal: { key: "approval:{run}" }
    after: [reserve]
  - name: ship_how
    decision: choose
    after: [pack, approve]
  - { name: by_air, after: ship_how }
  - { name: by_sea, after: ship_how }
  - name: charge
    after: [by_air, by_sea]
    join: any
    retry: { attempts: 3, backoff: [0s, 0s] }
"#;

/// What a worker of orders answers to a step.
fn work(step: &Value) -> (&'static str, Value) {
    match (step["handler"].as_str().unwrap(), step["attempt"].as_i64().unwrap()) {
        ("reserve", _) => ("complete", json!({"result": {"items": step["input"]["items"]}})),
        ("pack", _) => ("complete", json!({"result": format!("{}, packed", step["item"].as_str().unwrap())})),
        ("choose", _) => ("complete", json!({"choices": ["by_sea"]})),
        ("charge", 1) => ("fail", json!({"code": "timeout", "message": "the bank did not answer"})),
        ("charge", _) => ("complete", json!({"result": step["idempotencyKey"]})),
        (handler, _) => ("complete", json!({"result": handler})),
    }
}

#[tokio::test]
async fn a_whole_order_is_worked_by_calls_alone() {
    let site = Site::with_flow(ORDER).await;
    // The worker waits before there is anything.
    let first = later(&site, CLAIM_AND_WAIT, &json!({"worker": "w"}));
    site.waiting_beside_the_engine(1).await;
    let order = json!({"definition": "order", "input": {"items": ["tea", "cup"]}, "key": "order 7"});
    let started = later(&site, &format!("{RUNS}?wait=true&timeoutMillis=3600000"), &order);
    let mut step = one_step(&answered(first).await);
    assert_eq!(
        (&step["step"], &step["definition"], &step["version"]),
        (&json!("reserve"), &json!("order"), &json!(1))
    );
    let run = step["run"].as_i64().unwrap();
    site.post("/api/v1/flow/signals", json!({"key": format!("approval:{run}"), "payload": true})).await;
    let mut done = Vec::new();
    loop {
        let (verb, body) = work(&step);
        let told = site.tell(verb, &step, body).await;
        assert_eq!(told.status.as_u16(), 200, "{told:?}");
        let element = step["element"].as_i64().unwrap();
        done.push(format!(
            "{} {element} {}",
            step["step"].as_str().unwrap(),
            told.json["state"].as_str().unwrap()
        ));
        if step["step"] == "charge" && verb == "complete" {
            assert_eq!(step["outputs"], json!({"by_sea": "by_sea"}), "what was skipped has none");
            break;
        }
        step = site.step("w").await;
    }
    done[1..3].sort();
    assert_eq!(
        done,
        [
            "reserve 0 succeeded",
            "pack 1 succeeded",
            "pack 2 succeeded",
            "ship_how 0 succeeded",
            "by_sea 0 succeeded",
            "charge 0 waiting",
            "charge 0 succeeded"
        ]
    );
    let ended = answered(started).await;
    assert_eq!((ended.status.as_u16(), &ended.json["run"]["state"]), (200, &json!("succeeded")), "{ended:?}");
    assert!(site.states(run).await.ends_with("by_air=skipped by_sea=succeeded charge=succeeded"));
}

#[tokio::test]
async fn of_two_who_wait_exactly_one_gets_the_step() {
    let site = Site::with_flow(ONE).await;
    let mut one = later(&site, CLAIM_AND_WAIT, &json!({"worker": "w1"}));
    let mut other = later(&site, CLAIM_AND_WAIT, &json!({"worker": "w2"}));
    site.waiting_beside_the_engine(2).await;
    site.start().await;
    // One is answered; the other waits on, and gets the next.
    let first = tokio::select! {
        answer = &mut one => answer.unwrap(),
        answer = &mut other => {
            std::mem::swap(&mut one, &mut other);
            answer.unwrap()
        }
    };
    let one = one_step(&first);
    site.waiting_beside_the_engine(1).await;
    assert!(!other.is_finished());
    let next = site.start().await;
    let other = one_step(&answered(other).await);
    assert_eq!(other["run"], next);
    assert_ne!(one["run"], other["run"]);
}

#[tokio::test]
async fn a_client_that_goes_while_it_waits_takes_no_step_along() {
    let site = Site::with_flow(ONE).await;
    let gone = later(&site, CLAIM_AND_WAIT, &json!({"worker": "gone"}));
    site.waiting_beside_the_engine(1).await;
    gone.abort();
    site.waiting_beside_the_engine(0).await;
    let run = site.start().await;
    let step = site.step("w").await;
    assert_eq!((&step["run"], &step["attempt"]), (&json!(run), &json!(1)));
}

/// The claim is made and the client goes before it has read: what was not answered is handed back; what was is kept by its lease alone.
#[tokio::test]
async fn no_step_is_lost_when_clients_go_at_the_moment_of_a_start() {
    let site = Site::with_flow(
        "name: d\nsteps: [ { name: a, retry: { attempts: 20, backoff: { base: 1ms, max: 1ms } } } ]",
    )
    .await;
    for _ in 0..20 {
        let gone = later(&site, CLAIM_AND_WAIT, &json!({"worker": "gone", "leaseMillis": 500}));
        site.waiting_beside_the_engine(1).await;
        let (run, ()) = tokio::join!(site.start(), async { gone.abort() });
        let step = site.step("w").await;
        assert_eq!(step["run"], run);
        site.tell("complete", &step, json!({})).await;
        assert_eq!(site.ended(run).await, "succeeded");
    }
}

#[tokio::test]
async fn a_server_that_stops_answers_those_who_wait_for_steps() {
    let mut site = Site::with_flow(ONE).await;
    let waiter = later(&site, CLAIM_AND_WAIT, &json!({"worker": "w"}));
    site.waiting_beside_the_engine(1).await;
    site.stop().await;
    assert_eq!(answered(waiter).await.status.as_u16(), 204);
}

#[tokio::test]
async fn a_step_is_renewed_and_its_checkpoint_is_the_next_attempts() {
    let site = Site::with_flow(ONE).await;
    let run = site.start().await;
    let step = site.step("w").await;
    let renewed = site.tell("renew", &step, json!({})).await;
    assert!(
        renewed.json["leaseUntil"].as_str().unwrap() >= step["leaseUntil"].as_str().unwrap(),
        "{renewed:?}"
    );
    let saved = site.tell("checkpoint", &step, json!({"checkpoint": {"page": 3}, "progress": "30 %"})).await;
    assert_eq!((saved.status.as_u16(), &saved.json["saved"]), (200, &json!(true)));
    let shown = site.get(&format!("{RUNS}/{run}")).await;
    assert_eq!(shown.json["steps"][0]["progress"], "30 %");
    assert_eq!(
        (&shown.json["steps"][0]["worker"], &shown.json["steps"][0]["state"]),
        (&json!("w"), &json!("running"))
    );
    let failed = site.tell("fail", &step, json!({"message": "no", "delayMillis": 0})).await;
    assert_eq!(
        (&failed.json["state"], &failed.json["message"]),
        (&json!("waiting"), &json!("no")),
        "{failed:?}"
    );
    let again = site.step("w2").await;
    assert_eq!((&again["attempt"], &again["checkpoint"]), (&json!(2), &json!({"page": 3})));
    assert_eq!(again["idempotencyKey"], step["idempotencyKey"]);
    // Given back, it is anybody's, and the attempt does not count.
    assert_eq!(site.tell("release", &again, json!({})).await.json["state"], "ready");
    let again = site.step("w3").await;
    assert_eq!(again["attempt"], 2);
    // By its own rule: not before an hour.
    let failed = site.tell("fail", &again, json!({})).await;
    assert_eq!(failed.json["state"], "waiting");
    assert!(
        failed.json["dueAt"].as_str().unwrap() > again["leaseUntil"].as_str().unwrap().get(..13).unwrap()
    );
    assert_eq!(site.post(CLAIM, json!({})).await.status.as_u16(), 204);
}

#[tokio::test]
async fn a_late_finisher_is_told_who_has_the_step_and_what_to_do() {
    let site = Site::with_flow(ONE).await;
    let run = site.start().await;
    let late = site.step("slow").await;
    site.end_leases().await;
    let taken = site.step("quick").await;
    assert_eq!((&taken["run"], &taken["attempt"]), (&json!(run), &json!(2)));
    for (verb, body) in [
        ("complete", json!({"result": "late"})),
        ("fail", json!({"retryable": false})),
        ("renew", json!({})),
        ("release", json!({})),
        ("checkpoint", json!({"checkpoint": "late"})),
    ] {
        let answer = site.tell(verb, &late, body).await;
        let sentence = answer.error(409);
        assert!(sentence.contains("was taken over by worker \"quick\""), "{verb}: {sentence}");
        assert!(sentence.contains("stop working on it, and claim again"), "{verb}: {sentence}");
    }
    let done = site.tell("complete", &taken, json!({"result": "in time"})).await;
    assert_eq!((&done.json["state"], &done.json["repeated"]), (&json!("succeeded"), &json!(false)));
    let repeated = site.tell("complete", &taken, json!({"result": "in time"})).await;
    assert_eq!(
        (repeated.status.as_u16(), &repeated.json["repeated"]),
        (200, &json!(true)),
        "an answer was lost"
    );
    assert_eq!(site.ended(run).await, "succeeded");
}

#[tokio::test]
async fn whoever_works_for_a_cancelled_run_is_told_when_it_renews() {
    let site = Site::with_flow(ONE).await;
    let run = site.start().await;
    let step = site.step("w").await;
    site.post(&format!("{RUNS}/{run}/cancel"), json!({})).await;
    assert!(site.tell("renew", &step, json!({})).await.error(409).contains("was cancelled"));
    assert!(site.tell("complete", &step, json!({})).await.error(409).contains("was cancelled"));
}

#[tokio::test]
async fn what_a_worker_sends_wrongly_is_refused_and_nothing_happens() {
    let site = Site::with_flow(ONE).await;
    let run = site.start().await;
    let step = site.step("w").await;
    for (verb, body, why) in [
        ("complete", json!({"result": 1, "choices": ["a"]}), "both result and choices"),
        ("complete", json!({"result": "x".repeat(300_000)}), "over the limit of 262144"),
        ("complete", json!({"output": 1}), "unknown field `output`"),
        ("fail", json!({"retryable": false, "delayMillis": 1}), "leave one of them out"),
        ("fail", json!({"delayMillis": 3_155_760_000_001_u64}), "delayMillis is 3155760000001"),
        ("checkpoint", json!({"checkpoint": "x".repeat(300_000)}), "over the limit of 262144"),
        (
            "renew",
            json!({"receipt": "mine"}),
            "receipt is \"mine\"; send the receipt that the claim answered",
        ),
    ] {
        let answer = site.tell(verb, &step, body).await;
        assert!(answer.error(400).contains(why), "{verb}: {answer:?}");
    }
    for (path, body, status, why) in [
        (CLAIM, json!({"worker": ""}), 400, "worker name"),
        (CLAIM, json!({"most": 0}), 400, "use 1 to 100"),
        (CLAIM, json!({"leaseMillis": 99}), 400, "use 100 milliseconds to 24 hours"),
        (CLAIM, json!({"lease": 1}), 400, "unknown field `lease`"),
        ("/api/v1/flow/queues/flow%20engine/claim", json!({}), 400, "use a queue that a definition names"),
        ("/api/v1/flow/queues/q/claim", json!({}), 409, "queue \"q\" holds messages"),
    ] {
        site.push("p", [1]).await;
        let answer = site.post(path, body).await;
        assert!(answer.error(status).contains(why), "{path}: {answer:?}");
        site.execute("DELETE FROM bugle.message_key").await;
    }
    assert_eq!(site.states(run).await, "a=running");
}

/// A server keeps nothing of those whom it has answered, and a start on one wakes who waits at another.
#[tokio::test]
async fn a_worker_may_speak_to_any_server_of_the_installation() {
    let site = Site::with_flow(ONE).await;
    let other = node(&site.db, bugle::wake_engine::Options::default()).await;
    let server = Server::bind(other.clone(), Options::new(LOOPBACK.parse().unwrap())).await.unwrap();
    let (url, end) = (format!("http://{}", server.address()), CancellationToken::new());
    let running = tokio::spawn(server.run(end.clone()));
    let request = site.http.post(format!("{url}{CLAIM_AND_WAIT}")).json(&json!({"worker": "w"}));
    let waiter = tokio::spawn(async move { crate::fixture::Answer::of(request.send().await.unwrap()).await });
    let run = site.start().await;
    let step = one_step(&answered(waiter).await);
    assert_eq!(step["run"], run);
    assert_eq!(site.tell("renew", &step, json!({})).await.status.as_u16(), 200);
    assert_eq!(site.tell("complete", &step, json!({})).await.json["state"], "succeeded");
    end.cancel();
    running.await.unwrap().unwrap();
    other.close().await;
}
