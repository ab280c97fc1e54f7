//! The real binary against a real PostgreSQL.

#![allow(clippy::unwrap_used)] // clippy sees no test in a helper

mod bench;
mod dead;
mod doctor;
mod durable;
mod embedded;
mod enqueue;
mod errors;
mod events;
mod flow;
mod flow_archive;
mod flow_operate;
mod flow_settings;
mod hostile;
mod idle_connections;
mod input;
mod jobs;
mod keys;
mod messages;
mod migrate;
mod namespaces;
mod poison;
mod queues;
mod rollout;
mod serve;
mod wait;
mod wake;
mod why;
mod work;

use bugle_testkit::postgres::TestDb;
use events::Told;
use serde_json::Value;
use std::io::Write as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The command, with nothing of the caller's environment that it would listen to.
fn bugle() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bugle"));
    for name in [
        "BUGLE_DATABASE_URL",
        "DATABASE_URL",
        "BUGLE_SCHEMA",
        "BUGLE_DURABLE_SCHEMA",
        "BUGLE_NAMESPACE",
        "BUGLE_LOG",
        "BUGLE_WAKE",
        "BUGLE_LISTENER_URL",
        "BUGLE_LISTEN",
    ] {
        command.env_remove(name);
    }
    command
}

/// A schema of one test's own, and the command on it.
struct Site {
    db: TestDb,
}

impl Site {
    async fn new() -> Self {
        Self { db: TestDb::schema().await.unwrap() }
    }

    /// The command with its arguments, not yet run.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = bugle();
        command.env("BUGLE_DATABASE_URL", self.db.url()).env("BUGLE_SCHEMA", self.db.name()).args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args))
    }

    fn run_with_input(&self, args: &[&str], input: &[u8]) -> Ran {
        Ran::of_input(self.command(args), input)
    }

    /// Runs what must succeed, and reads its JSON.
    fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "bugle {args:?}: {}", ran.stderr);
        serde_json::from_str(&ran.stdout).unwrap()
    }

    fn enqueue(&self, queue: &str, payload: &str) -> String {
        self.json(&["enqueue", queue, "test", payload])["id"].to_string()
    }

    fn state(&self, id: &str) -> String {
        self.json(&["job", "show", id])["state"].as_str().unwrap().to_owned()
    }

    /// Starts a worker whose commands never end, and waits until the first one has begun.
    fn start_stuck(&self, args: &[&str]) -> Running {
        let told = Told::new();
        let script = format!("echo begun > {}; sleep 30", told.path().display());
        let worker = self.start(&[&["work"], args, &["--exec", "sh", "--", "-c", &script]].concat());
        told.line();
        worker
    }

    /// Waits until jobs are done.
    fn done(&self, ids: &[&str]) {
        let ran = self.run(&[&["job", "wait", "--timeout", "30s"], ids].concat());
        assert_eq!(ran.code, 0, "{} {}", ran.stdout, ran.stderr);
    }

    /// Starts a worker and leaves it running.
    fn start(&self, args: &[&str]) -> Running {
        Running(self.command(args).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

/// What a command answered.
struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Ran {
    fn of(mut command: Command) -> Self {
        command.stdin(Stdio::null()).output().unwrap().into()
    }

    fn of_input(mut command: Command, input: &[u8]) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that refuses its arguments does not read its input.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap().into()
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A process that ends with the test.
struct Running(Child);

impl Running {
    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Its exit code, which must come soon.
    fn end(&mut self) -> i32 {
        events::ended(rustix::process::Pid::from_child(&self.0));
        self.0.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for what must happen soon, and fails when it does not. For what nobody tells: most things are told ([`events`]).
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(30), "never happened: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
