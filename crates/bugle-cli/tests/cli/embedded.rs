//! The private server: owned, joined, shown.

use super::{Ran, Running, bugle, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A folder that the server's user can enter, whatever the umask.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
    home
}

fn at(dir: &Path, args: &[&str]) -> Command {
    let mut command = bugle();
    command.arg("--data-dir").arg(dir.join("pg")).args(args);
    command
}

#[test]
fn commands_started_together_share_one_server_and_one_after_them_finds_their_jobs() {
    let home = home();
    let started: Vec<_> = (0..4)
        .map(|n| {
            let mut command = at(home.path(), &["enqueue", "q", "k", &n.to_string()]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in started {
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stderr.is_empty(), "{}", ran.stderr);
    }
    let ran = Ran::of(at(home.path(), &["queue", "ls"]));
    let queues: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(queues[0]["ready"], 4);
}

#[test]
fn a_worker_owns_the_server_and_others_join_it() {
    let home = home();
    let mut worker = Running(
        at(home.path(), &["work", "--queue", "q", "--exec", "true"]).stderr(Stdio::null()).spawn().unwrap(),
    );
    let ran = Ran::of(at(home.path(), &["enqueue", "q", "k"]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    eventually("the job is done", || {
        let ran = Ran::of(at(home.path(), &["queue", "ls"]));
        ran.stdout.contains("\"done\":1")
    });
    worker.signal(Signal::INT);
    assert_eq!(worker.end(), 0);
    assert!(!home.path().join("pg/data/postmaster.pid").exists(), "the server was stopped");
}

/// A command that waits for the end of a job.
fn wait(home: &Path, args: &[&str]) -> Child {
    let mut command = at(home, &[args, &["--timeout", "2m"]].concat());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// How the job ended that it waited for.
fn outcome(waiting: Child) -> Value {
    let ran = Ran::from(waiting.wait_with_output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    serde_json::from_str::<Value>(&ran.stdout).unwrap()["state"].clone()
}

/// Does a command use the server that another one runs?
fn has_guest(home: &Path) -> bool {
    std::fs::File::open(home.join("pg/guests.lock")).is_ok_and(|file| file.try_lock().is_err())
}

fn worker(home: &Path, queue: &str) -> Running {
    let mut command = at(home, &["work", "--queue", queue, "--exec", "true"]);
    Running(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// The first command runs the server, and waits for what the second one does.
#[test]
fn a_wait_makes_way_for_the_worker_that_it_waits_for() {
    let home = home();
    let enqueuer = wait(home.path(), &["enqueue", "q", "k", "--wait"]);
    eventually("it runs the server and has enqueued", || {
        home.path().join("pg/data/postmaster.pid").exists()
            && Ran::of(at(home.path(), &["queue", "ls"])).stdout.contains("\"ready\":1")
    });
    let jobs: Value = serde_json::from_str(&Ran::of(at(home.path(), &["job", "ls"])).stdout).unwrap();
    let other = wait(home.path(), &["job", "wait", &jobs[0]["id"].to_string()]);
    eventually("the other one is its guest", || has_guest(home.path()));
    let mut worker = worker(home.path(), "q");
    assert_eq!([outcome(enqueuer), outcome(other)], ["done", "done"]);
    // The worker has the server now, and stays.
    assert_eq!(outcome(wait(home.path(), &["enqueue", "q", "k", "--wait"])), "done");
    worker.signal(Signal::INT);
    assert_eq!(worker.end(), 0);
}

#[test]
fn a_wait_outlasts_the_worker_whose_server_it_used() {
    let home = home();
    let mut first = worker(home.path(), "another");
    eventually("it runs the server", || home.path().join("pg/data/postmaster.pid").exists());
    let enqueuer = wait(home.path(), &["enqueue", "q", "k", "--wait"]);
    eventually("it is enqueued", || {
        Ran::of(at(home.path(), &["queue", "ls"])).stdout.contains("\"ready\":1") && has_guest(home.path())
    });
    first.signal(Signal::TERM);
    assert_eq!(first.end(), 0);
    let _second = worker(home.path(), "q");
    assert_eq!(outcome(enqueuer), "done");
}

#[test]
fn a_guest_is_told_when_the_server_ends_with_its_owner() {
    let home = home();
    let work = || {
        let mut command = at(home.path(), &["work", "--queue", "q", "--exec", "true"]);
        Running(command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let mut owner = work();
    eventually("the owner's server runs", || home.path().join("pg/data/postmaster.pid").exists());
    let mut guest = work();
    eventually("the guest has come", || {
        Ran::of(at(home.path(), &["queue", "ls"])).stdout.contains("\"name\":\"q\"") && has_guest(home.path())
    });
    owner.signal(Signal::TERM);
    assert_eq!(owner.end(), 0);
    assert_eq!(guest.end(), 2);
    let mut said = String::new();
    guest.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("error: the private PostgreSQL has ended"), "{said}");
}

#[test]
fn the_demo_runs_in_a_pipe_and_ends_by_itself() {
    let mut command = bugle();
    command.args(["demo", "--ephemeral", "--for", "3s", "--rate", "100"]);
    let ran = Ran::of(command);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let lines: Vec<_> = ran.stdout.lines().filter(|line| line.starts_with("enqueued ")).collect();
    assert!((1..=4).contains(&lines.len()), "{}", ran.stdout);
    assert!(
        lines.iter().all(|line| line.contains("pick-up") && line.contains("statements")),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("orders committed, each with its job"), "{}", ran.stdout);
}

#[test]
fn the_demo_loses_nothing_when_a_worker_is_killed() {
    let home = home();
    let mut demo = at(home.path(), &["demo", "--for", "2m", "--rate", "300", "--output", "json"]);
    let mut demo = demo.stdout(Stdio::piped()).spawn().unwrap();
    let mut killed = false;
    let mut values = Vec::new();
    for line in BufReader::new(demo.stdout.take().unwrap()).lines() {
        let value: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let pid =
            value["workers"][0]["pid"].as_i64().and_then(|pid| Pid::from_raw(i32::try_from(pid).unwrap()));
        // Some of what it holds takes a second or more: it is killed in the middle of it.
        if let Some(pid) = pid.filter(|_| !killed && value["workers"][0]["holds"].as_i64() >= Some(4)) {
            kill_process(pid, Signal::KILL).unwrap();
            killed = true;
        }
        // Its lease has ended, however slow this machine is: that is enough.
        if value["counts"]["taken_back"].as_i64() > Some(0) {
            kill_process(Pid::from_child(&demo), Signal::INT).unwrap();
        }
        values.push(value);
    }
    assert_eq!(demo.wait().unwrap().code(), Some(0));
    let summary = values.last().unwrap();
    assert!(values.len() > 3 && values[2]["done_per_second"].as_f64().unwrap() > 0.0, "{values:?}");
    assert_eq!(summary["orders_committed"], summary["enqueued"], "{summary}");
    assert_eq!(summary["workers_lost"], 1, "{summary}");
    let number = |name: &str| summary[name].as_i64().unwrap();
    assert!(number("done") > 0 && number("taken_back") > 0, "{summary}");
    assert_eq!(number("enqueued"), number("done") + number("dead") + number("still_open"), "{summary}");
}

#[test]
fn a_folder_of_somebody_else_is_left_alone() {
    let home = home();
    std::fs::create_dir(home.path().join("pg")).unwrap();
    std::fs::write(home.path().join("pg/letter"), "dear").unwrap();
    let ran = Ran::of(at(home.path(), &["queue", "ls"]));
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("is no data folder of Bugle's"), "{}", ran.stderr);
}
