//! Running commands for jobs, and killing who runs them.

use super::events::{Told, ended};
use super::{Site, eventually};
use rustix::process::{Pid, Signal};
use serde_json::value::RawValue;
use std::time::{Duration, Instant};

#[tokio::test]
async fn the_exit_code_and_the_end_of_standard_error_decide() {
    let site = Site::new().await;
    let id = site.json(&["enqueue", "q", "k", "1", "--max-attempts", "2"])["id"].to_string();
    // The first attempt fails with a code, the second is killed.
    let script = r#"echo "attempt $BUGLE_JOB_ATTEMPT of $BUGLE_JOB_MAX_ATTEMPTS" >&2
        [ "$BUGLE_JOB_ATTEMPT" = 1 ] && exit 3; kill -9 $$"#;
    let ran = site.run(&["work", "--queue", "q", "--until-empty", "--exec", "sh", "--", "-c", script]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("attempt 1 of 2"), "standard error is passed on: {}", ran.stderr);
    let job = site.json(&["job", "show", &id]);
    assert_eq!(job["state"], "dead");
    let failure = |n: usize| {
        let f = &job["failures"][n];
        (f["code"].as_str().unwrap().to_owned(), f["message"].as_str().unwrap().to_owned())
    };
    assert_eq!(failure(0), ("exit_3".into(), "attempt 1 of 2".into()));
    assert_eq!(failure(1), ("signal".into(), "killed by signal 9\nattempt 2 of 2".into()));
}

#[tokio::test]
async fn a_big_payload_that_nobody_reads_and_a_forgotten_child_do_not_hang_a_job() {
    let site = Site::new().await;
    let payload = format!("\"{}\"", "x".repeat(200_000));
    let ran = site.run_with_input(&["enqueue", "q", "k", "-"], payload.as_bytes());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let begun = Instant::now();
    let ran = site.run(&[
        "work",
        "--queue",
        "q",
        "--until-empty",
        "--exec",
        "sh",
        "--",
        "-c",
        "sleep 60 > /dev/null & true",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(begun.elapsed().as_secs() < 50, "{:?}", begun.elapsed());
    assert_eq!(site.json(&["queue", "ls"])[0]["done"], 1);
}

#[tokio::test]
async fn sigterm_lets_commands_end_and_then_gives_back_the_rest() {
    let site = Site::new().await;
    let told = Told::new();
    let (quick, slow) = (site.enqueue("q", "1"), site.enqueue("q", "30"));
    let script = format!("read s; echo $s $$ > {}; sleep $s", told.path().display());
    let mut worker =
        site.start(&["work", "--queue", "q", "--drain", "3s", "--exec", "sh", "--", "-c", &script]);
    let running = [told.line(), told.line()];
    worker.signal(Signal::TERM);
    assert_eq!(worker.end(), 0);
    assert_eq!(site.state(&quick), "done");
    let job = site.json(&["job", "show", &slow]);
    assert_eq!(job["state"], "ready", "given back");
    assert_eq!(job["attempt"], 0, "not counted");
    let command = running.iter().find_map(|line| line.strip_prefix("30 ")).unwrap();
    ended(Pid::from_raw(command.parse().unwrap()).unwrap()); // its command is killed
}

#[tokio::test]
async fn the_job_of_a_killed_worker_runs_elsewhere_and_its_command_ends() {
    let site = Site::new().await;
    let told = Told::new();
    let id = site.enqueue("q", "1");
    let script = format!("echo $$ > {}; sleep 30", told.path().display());
    let mut first =
        site.start(&["work", "--queue", "q", "--lease", "1s", "--exec", "sh", "--", "-c", &script]);
    let command = told.pid();
    first.signal(Signal::KILL);
    first.end();
    let ran = site.run(&["work", "--queue", "q", "--until-empty", "--exec", "true"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let job = site.json(&["job", "show", &id]);
    assert_eq!((job["state"].as_str().unwrap(), job["attempt"].as_i64().unwrap()), ("done", 2));
    assert_eq!(job["failures"][0]["code"], "lease_expired");
    ended(command); // with its worker
}

/// As seed 004 tries it by hand, where polling needed 200 seconds.
#[tokio::test]
async fn a_hundred_items_that_come_one_by_one_are_done_within_five_seconds() {
    let site = Site::new().await;
    let bugle = site.db.bugle().await.unwrap();
    let worker = site.start(&["work", "--queue", "q", "--concurrency", "4", "--exec", "true"]);
    let enqueue = async || {
        let item = RawValue::from_string("1".to_owned()).unwrap();
        bugle.enqueue_raw("q", "enrich", item).send_handle().await.unwrap()
    };
    let end = enqueue().await.wait_within::<()>(Duration::from_secs(30)).await.unwrap();
    end.expect("the worker has started").done().unwrap();
    let begun = Instant::now();
    let mut items = Vec::new();
    for _ in 0..100 {
        items.push(enqueue().await);
    }
    for item in items {
        let left = Duration::from_secs(5).saturating_sub(begun.elapsed());
        let end = item.wait_within::<()>(left).await.unwrap();
        end.expect("all are done within five seconds").done().unwrap();
    }
    drop(worker);
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_and_has_failed() {
    let site = Site::new().await;
    let told = Told::new();
    let id = site.json(&["enqueue", "q", "k", "1", "--max-attempts", "1"])["id"].to_string();
    // It is told first, and what it started goes as well though it does not listen.
    let script = format!(
        "sh -c 'trap \"\" TERM; echo $$ > {0}; sleep 30' & trap 'echo told to end >&2; exit 0' TERM; wait",
        told.path().display()
    );
    let ran = site.run(&[
        "work",
        "--queue",
        "q",
        "--until-empty",
        "--timeout",
        "500ms",
        "--exec",
        "sh",
        "--",
        "-c",
        &script,
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let job = site.json(&["job", "show", &id]);
    assert_eq!(job["state"], "dead", "{job}");
    assert_eq!(job["failures"][0]["code"], "timeout");
    assert_eq!(job["failures"][0]["message"], "timed out after 500ms\ntold to end");
    ended(told.pid()); // its child is killed
    let ran = site.run(&["work", "--queue", "q", "--timeout", "0s", "--exec", "true"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("--timeout is 0s"), "{}", ran.stderr);
}

/// Bugle's own options may stand on either side of --exec, and what comes after -- is the program's whatever it looks like.
#[tokio::test]
async fn words_after_the_two_dashes_are_the_programs_and_no_others() {
    let site = Site::new().await;
    site.enqueue("q", "1");
    let script = r#"[ "$*" = "--until-empty -v a b --" ]"#;
    let words = ["--", "-c", script, "sh", "--until-empty", "-v", "a b", "--"];
    let ran = site.run(&[&["work", "--queue", "q", "--exec", "sh", "--until-empty"][..], &words].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(site.json(&["queue", "ls"])[0]["done"], 1);
}

#[tokio::test]
async fn a_failed_job_is_tried_again_by_the_rule_that_was_given() {
    let site = Site::new().await;
    let work = |rule, seconds: i64| {
        let id = site.json(&["enqueue", "q", "k", "1", "--max-attempts", "3"])["id"].to_string();
        let ran = site.run(&["work", "--queue", "q", "--until-empty", "--retry", rule, "--exec", "false"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let job = site.json(&["job", "show", &id]);
        assert_eq!(job["state"], "dead");
        let at = |n: usize| {
            job["failures"][n]["failed_at"].as_str().unwrap().parse::<chrono::DateTime<chrono::Utc>>()
        };
        let tries = job["failures"].as_array().unwrap().len();
        assert!(tries < 2 || (at(1).unwrap() - at(0).unwrap()).num_seconds() >= seconds, "{job}");
        tries
    };
    assert_eq!(work("never", 0), 1);
    assert_eq!(work("table:0s,2s", 2), 2);
    assert_eq!(work("exponential:10ms..20ms,jitter=0", 0), 3);
}

#[tokio::test]
async fn a_job_of_another_kind_fails_and_says_so() {
    let site = Site::new().await;
    let other = site.json(&["enqueue", "q", "other", "1", "--max-attempts", "1"])["id"].to_string();
    let ours = site.enqueue("q", "1");
    let ran = site.run(&[
        "work",
        "--queue",
        "q",
        "--kind",
        "test",
        "--until-empty",
        "--exec",
        "sh",
        "--",
        "-c",
        "exit 0",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(site.state(&ours), "done");
    let job = site.json(&["job", "show", &other]);
    assert_eq!((&job["state"], &job["failures"][0]["code"]), (&"dead".into(), &"no_handler".into()));
    let why = site.json(&["job", "why", &other])["why"].to_string();
    assert!(why.contains("no worker for kind other"), "{why}");
}

#[tokio::test]
async fn a_worker_that_starts_on_a_paused_queue_says_so() {
    let site = Site::new().await;
    let id = site.enqueue("q", "1");
    site.json(&["queue", "pause", "q"]);
    let worker = site
        .command(&["work", "--queue", "q", "--until-empty", "--exec", "true"])
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    eventually("it sleeps", || !site.json(&["wake", "status"])["queues"][0]["sentinel"].is_null());
    site.json(&["queue", "resume", "q"]);
    let ended = worker.wait_with_output().unwrap();
    assert!(ended.status.success());
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("paused") && said.contains("bugle queue resume q"), "{said}");
    assert_eq!(site.state(&id), "done");
}
