//! A producer or a worker in a process of its own, so that it can be killed.

use super::calls::Recorded;
use super::clock::Clock;
use super::flow;
use super::messages::{self, Messenger};
use super::producer::{self, NAMESAKES};
use super::worker;
use crate::history::RecorderClient;
use anyhow::Context as _;
use bugle::Bugle;
use bugle::name::SchemaName;
use bugle::pg::migrate::Policy;
use chrono::Utc;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPoolOptions;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long a node may take to finish the call it is at.
const STOP_MAX: Duration = Duration::from_secs(30);

/// What a node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Enqueues and cancels.
    Producer,
    /// Claims and settles.
    Worker,
    /// A thousand consumers that wait for one job each, again and again.
    Crowd,
    /// Claims, and aborts when there is a job marked with [`POISON`](super::POISON).
    Brittle,
    /// Many callers that enqueue through one handle.
    Chorus,
    /// Callers that enqueue once, all with one key, each on a connection of its own.
    Namesakes,
    /// Pushes messages.
    Pusher,
    /// Pops messages and settles them.
    Popper,
    /// A thousand consumers that wait for one message each, again and again.
    PoppingCrowd,
    /// Fifty consumers, of which every one goes away now and then while it waits.
    FickleCrowd,
    /// Starts runs of a workflow.
    Starter,
    /// Runs steps of workflows, and does what Bugle does itself in them.
    FlowNode,
    /// Runs steps of workflows alone.
    StepWorker,
}

/// Everything a node needs to know; handed over as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Config {
    /// What it does.
    pub role: Role,
    /// Its name in the history; another one for each incarnation.
    pub who: String,
    /// Unlike those of all other nodes of the run.
    pub number: u32,
    /// The database, perhaps through a proxy.
    pub url: String,
    /// The schema.
    pub schema: String,
    /// The queue.
    pub queue: String,
    /// The recorder's socket.
    pub recorder: PathBuf,
    /// The lease of a worker's claims, in milliseconds.
    pub lease_ms: u64,
    /// Where its random choices begin.
    pub seed: u64,
}

/// A running node. Killed when dropped.
pub struct Node {
    /// Its name in the history.
    pub who: String,
    child: Child,
    clock: Option<Clock>,
}

/// What is wrong with a node from its start.
#[derive(Debug, Default)]
pub struct Flaw<'a> {
    /// It dies there.
    pub crash_point: Option<&'a str>,
    /// Its wall clock is this one.
    pub clock: Option<Clock>,
}

impl Node {
    /// Starts one.
    pub fn start(program: &str, config: &Config, flaw: Flaw<'_>) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.arg(serde_json::to_string(config)?).stdin(Stdio::piped());
        if let Some(point) = flaw.crash_point {
            // Dying on purpose: its last words would only confuse.
            command.env("BUGLE_CRASH_POINT", point).stderr(Stdio::null());
        }
        if let Some(clock) = &flaw.clock {
            clock.give_to(&mut command);
        }
        let child = command.spawn().with_context(|| format!("starting {program}"))?;
        Ok(Self { who: config.who.clone(), child, clock: flaw.clock })
    }

    /// Its wall clock, if it was given one.
    pub fn clock(&self) -> anyhow::Result<&Clock> {
        self.clock.as_ref().with_context(|| format!("{} has the machine's clock", self.who))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).with_context(|| format!("signalling {}", self.who))
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Lets it finish the call it is at, and waits until it is gone.
    ///
    /// Does not block the runtime: what the node waits for, such as a proxy, may be running on it.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        drop(self.child.stdin.take());
        let begun = Instant::now();
        while self.child.try_wait()?.is_none() {
            anyhow::ensure!(begun.elapsed() < STOP_MAX, "{} does not stop", self.who);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// How much memory it has in use.
    pub fn resident_bytes(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("it has ended")?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kilobytes * 1024)
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if self.clock.is_some() {
            Clock::clean_up_after(self.child.id());
        }
    }
}

/// The whole of the program `chaos-node`.
pub async fn main() -> anyhow::Result<()> {
    let config = std::env::args().nth(1).context("the configuration is missing")?;
    if config == "tell-the-time" {
        return tell_the_time();
    }
    let config: Config = serde_json::from_str(&config)?;
    let stop = CancellationToken::new();
    // A thread of its own: tokio's standard input would keep the process from ending.
    std::thread::spawn({
        let stop = stop.clone();
        move || {
            // Closed by the test when it wants an end, and by the system when the test is gone.
            let _ = std::io::stdin().read(&mut [0]);
            stop.cancel();
        }
    });
    work(&config, &stop).await
}

/// For each line that comes in, what this process thinks: wall clock and time since its start, in milliseconds.
fn tell_the_time() -> anyhow::Result<()> {
    let begun = Instant::now();
    for _ in std::io::stdin().lines() {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{} {}", Utc::now().timestamp_millis(), begun.elapsed().as_millis())?;
    }
    Ok(())
}

async fn work(config: &Config, stop: &CancellationToken) -> anyhow::Result<()> {
    let recorder = RecorderClient::connect(&config.recorder)?;
    let bugle = patiently(stop, async || connect(config).await).await?;
    let (lease, seed, number) = (Duration::from_millis(config.lease_ms), config.seed, config.number);
    let messenger = || Messenger::new(&bugle, &config.queue, recorder.clone(), &config.who, lease);
    let client = async || {
        let queue = async || Recorded::new(bugle.clone(), &config.queue, recorder.clone(), &config.who).await;
        patiently(stop, queue).await
    };
    match config.role {
        Role::Producer => producer::run(client().await?, number, seed, stop).await,
        Role::Worker => worker::run(client().await?, lease, seed, stop).await,
        Role::Crowd => worker::run_crowd(client().await?, lease, stop).await,
        Role::Brittle => worker::run_brittle(client().await?, lease, stop).await,
        Role::Chorus => producer::run_chorus(client().await?, number, stop).await,
        Role::Namesakes => producer::run_namesakes(client().await?, number).await,
        Role::Pusher => messages::produce(messenger(), number, seed, stop).await,
        Role::Popper => messages::consume(messenger(), seed, stop).await,
        Role::PoppingCrowd => messages::crowd(messenger(), false, stop).await,
        Role::FickleCrowd => messages::crowd(messenger(), true, stop).await,
        Role::Starter => flow::start(&bugle, config, stop).await,
        Role::FlowNode => flow::work(&bugle, config, true, stop).await,
        Role::StepWorker => flow::work(&bugle, config, false, stop).await,
    }
}

/// Tries until it works, or until told to stop: the server may be down just now.
async fn patiently<T>(
    stop: &CancellationToken,
    work: impl AsyncFn() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    loop {
        match work().await {
            Err(error) if stop.is_cancelled() => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            done => return done,
        }
    }
}

async fn connect(config: &Config) -> anyhow::Result<Bugle> {
    let connections = match config.role {
        Role::Namesakes => NAMESAKES,
        Role::Starter | Role::FlowNode | Role::StepWorker => flow::CONNECTIONS,
        _ => 2,
    };
    let pool = PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(Duration::from_secs(5))
        .connect(&config.url)
        .await?;
    let schema = SchemaName::parse(&config.schema)?;
    let options = bugle::Options { schema, migrate: Policy::Verify, ..bugle::Options::default() };
    Ok(Bugle::new(pool, options).await?)
}
