//! Waiting for the end of a job.

use super::Site;
use bugle::{Bugle, Ctx, Done};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A worker in this process that returns the payload of each job as its result.
async fn echo(site: &Site, queue: &str) -> CancellationToken {
    let bugle: Bugle = site.db.bugle().await.unwrap();
    let stop = CancellationToken::new();
    let worker = bugle
        .worker(queue)
        .handle_any(|job: bugle::jobs::Claimed, _: Ctx| async move { Done(json!({ "got": job.payload })) });
    tokio::spawn(worker.run(stop.clone()));
    stop
}

/// Does somebody hold a seat for ends?
fn is_waited(site: &Site) -> bool {
    let status = site.json(&["wake", "status"]);
    status["nodes"].as_array().unwrap().iter().any(|node| node["sentinel"][0].as_i64() > Some(64))
}

fn line(stdout: &str) -> Value {
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    serde_json::from_str(stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn enqueue_waits_for_the_result() {
    let site = Site::new().await;
    let stop = echo(&site, "q").await;
    let end = site.json(&["enqueue", "q", "k", "[1, 2]", "--wait", "--timeout", "30s"]);
    assert_eq!(
        (&end["state"], &end["result"], &end["attempt"]),
        (&json!("done"), &json!({"got": [1, 2]}), &json!(1))
    );
    assert_eq!(site.state(&end["id"].to_string()), "done");
    let told = site.run(&["enqueue", "q", "k", "3", "--wait", "--timeout", "30s", "-o", "table"]).stdout;
    assert!(told.starts_with("job ") && told.ends_with("is done: {\"got\":3}\n"), "{told}");
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn several_jobs_are_told_as_they_end_and_the_exit_code_is_of_the_worst() {
    let site = Site::new().await;
    let (first, second, third) = (site.enqueue("q", "1"), site.enqueue("q", "2"), site.enqueue("q", "3"));
    let waiting = tokio::task::spawn_blocking({
        let mut command = site.command(&["job", "wait", &first, &second, "--timeout", "30s"]);
        move || command.output().unwrap()
    });
    super::eventually("it waits", || is_waited(&site));
    site.json(&["job", "cancel", &third]);
    let ran = site.run(&["job", "wait", &third, "--timeout", "30s"]);
    assert_eq!((ran.code, &line(&ran.stdout)["state"]), (6, &json!("cancelled")));

    let exec = "[ $(cat) = 1 ] || { echo it is broken >&2; exit 65; }";
    let worked = site.run(&["work", "--queue", "q", "--until-empty", "--exec", "sh", "--", "-c", exec]);
    assert_eq!(worked.code, 0, "{}", worked.stderr);
    let ran: super::Ran = waiting.await.unwrap().into();
    assert_eq!(ran.code, 5, "one of them is dead: {}", ran.stderr);
    let ends: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(ends.len(), 2);
    let of = |id: &str| ends.iter().find(|end| end["id"] == id.parse::<i64>().unwrap()).unwrap();
    assert_eq!((&of(&first)["state"], &of(&first)["result"]), (&json!("done"), &json!(null)));
    assert_eq!(of(&second)["error"], json!({"code": "exit_65", "message": "it is broken"}));
    let told = site.run(&["job", "wait", &second, "--timeout", "30s", "-o", "table"]).stdout;
    assert!(told.contains("is dead after attempt 1: exit_65: it is broken"), "{told}");
}

#[tokio::test]
async fn what_does_not_end_in_time_is_exit_code_7_and_what_is_not_there_4() {
    let site = Site::new().await;
    let id = site.enqueue("q", "1");
    let ran = site.run(&["job", "wait", &id, "--timeout", "300ms"]);
    assert_eq!((ran.code, line(&ran.stdout)), (7, json!({"id": id.parse::<i64>().unwrap(), "state": null})));
    let ran = site.run(&["enqueue", "q", "k", "--wait", "--timeout", "1ms", "-o", "table"]);
    assert_eq!(ran.code, 7);
    assert!(ran.stdout.contains("has not ended within 1ms"), "{}", ran.stdout);
    assert_eq!(site.json(&["queue", "ls"])[0]["ready"], 2, "it is enqueued all the same");
    let ran = site.run(&["job", "wait", "4711"]);
    assert_eq!(ran.code, 4);
    assert!(ran.stderr.starts_with("error: there is no job 4711 in namespace default"), "{}", ran.stderr);
    assert_eq!(site.run(&["enqueue", "q", "k", "--timeout", "1s"]).code, 1, "a timeout of no wait");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_interrupted_ends_at_once_and_leaves_no_seat() {
    let site = Site::new().await;
    let id = site.enqueue("q", "1");
    let mut waiting = site.start(&["job", "wait", &id]);
    let waits = || is_waited(&site);
    super::eventually("it waits", waits);
    waiting.signal(rustix::process::Signal::INT);
    assert_eq!(waiting.end(), 130);
    super::eventually("its seat is free", || !waits());
}
