//! One run: nodes at work, a history, a verdict.

use super::books;
use super::calls::Recorded;
use super::clock::Clock;
use super::node::{Config, Flaw, Node, Role};
use super::worker::POLL;
use crate::checker::{Limits, Report, check};
use crate::history::{History, Recorder, RecorderClient};
use bugle::Bugle;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The queue that every run uses.
pub const QUEUE: &str = "q";

/// How long the faults go on: `BUGLE_CHAOS_SECONDS`, or `short` without it.
#[must_use]
pub fn seconds(short: u64) -> Duration {
    let told = std::env::var("BUGLE_CHAOS_SECONDS").ok().and_then(|s| s.parse().ok());
    Duration::from_secs(told.unwrap_or(short))
}

/// `BUGLE_SEED`, or a random one; printed, so that a red run can be tried again.
#[must_use]
pub fn seed() -> u64 {
    let seed =
        std::env::var("BUGLE_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(rand::random::<u64>);
    eprintln!("BUGLE_SEED={seed}");
    seed
}

/// One chaos run in one place.
pub struct Run {
    /// A handle on the place that no fault touches.
    pub bugle: Bugle,
    /// Where everything is recorded.
    pub recorder: Recorder,
    /// What was promised.
    pub limits: Limits,
    /// How long the drain may take; what is open after that is for the checker to judge.
    pub(super) drain_max: Duration,
    /// Is the history of a red run worth a look? Not of one that was broken on purpose.
    pub(super) keeps_history: bool,
    program: &'static str,
    seed: u64,
    started: u32,
    pub(super) folder: TempDir,
}

impl Run {
    /// A run in the place of `bugle`; `program` is the path of `chaos-node`.
    pub fn new(bugle: Bugle, program: &'static str, lease: Duration) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let recorder = Recorder::new();
        recorder.listen(folder.path().join("recorder"))?;
        let limits = Limits { poll_interval: POLL, lease, death_ends_lease: false, ..Limits::default() };
        Ok(Self {
            bugle,
            recorder,
            limits,
            drain_max: Duration::from_mins(1),
            keeps_history: true,
            program,
            seed: seed(),
            started: 0,
            folder,
        })
    }

    /// For a system that is broken on purpose: its history is not kept, and nobody waits long for jobs that it has lost.
    pub fn expect_red(&mut self, drain_max: Duration) {
        self.drain_max = drain_max;
        self.keeps_history = false;
    }

    /// Records faults.
    #[must_use]
    pub fn nemesis(&self) -> RecorderClient {
        self.recorder.client()
    }

    /// Starts a node on the database at `url`.
    pub fn node(&mut self, role: Role, url: &str) -> anyhow::Result<Node> {
        self.start(role, url, Flaw::default())
    }

    /// The same, but it dies at a crash point.
    pub fn node_that_dies(&mut self, role: Role, url: &str, crash_point: &str) -> anyhow::Result<Node> {
        self.start(role, url, Flaw { crash_point: Some(crash_point), ..Flaw::default() })
    }

    /// The same, but its wall clock is off by `offset`; see [`Clock`].
    pub fn node_with_clock(&mut self, role: Role, url: &str, offset: &str) -> anyhow::Result<Node> {
        self.start(role, url, Flaw { clock: Some(Clock::new(offset)?), ..Flaw::default() })
    }

    fn start(&mut self, role: Role, url: &str, flaw: Flaw<'_>) -> anyhow::Result<Node> {
        self.started += 1;
        let config = Config {
            role,
            who: format!("{role:?}-{}", self.started).to_lowercase(),
            number: self.started,
            url: url.to_owned(),
            schema: self.bugle.schema().to_string(),
            queue: QUEUE.to_owned(),
            recorder: self.folder.path().join("recorder"),
            lease_ms: u64::try_from(self.limits.lease.as_millis())?,
            seed: self.seed.wrapping_add(self.started.into()),
        };
        Node::start(self.program, &config, flaw)
    }

    /// A client in this process, on `bugle`, which may go through a proxy.
    pub async fn client(&self, bugle: Bugle, who: &str) -> anyhow::Result<Recorded> {
        Recorded::new(bugle, QUEUE, self.recorder.client(), who).await
    }

    /// Ends the producers, lets the workers and one of our own finish what is open, reads the books and judges.
    pub async fn finish(self, producers: Vec<Node>, workers: Vec<Node>) -> anyhow::Result<Report> {
        for node in producers {
            node.stop().await?;
        }
        self.nemesis().heal()?;
        let drainer = self.client(self.bugle.clone(), "drainer").await?;
        let begun = Instant::now();
        while self.open().await? > 0 && begun.elapsed() < self.drain_max {
            let look = drainer.claim(100, self.limits.lease, POLL, POLL).await?;
            // A claim that is refused, because the machine is busy, is tried again; what is never drained is for the checker.
            let Some(look) = look else { continue };
            if !look.jobs.is_empty() {
                let receipts: Vec<_> = look.jobs.iter().map(|j| j.receipt).collect();
                drainer.ack(&receipts, &[look.token]).await?;
            }
        }
        for node in workers {
            node.stop().await?;
        }
        let history = self.recorder.finish(Duration::from_secs(10))?;
        let snapshot = books::read(&self.bugle).await?;
        let report = check(&history, &snapshot, &self.limits);
        self.tell(&history, &report)?;
        Ok(report)
    }

    /// Prints the verdict, and keeps the history of a red run.
    pub(super) fn tell(&self, history: &History, report: &Report) -> anyhow::Result<()> {
        eprintln!("{report}");
        if !report.is_green() && self.keeps_history {
            let kept = kept_folder()?.join("history.jsonl");
            history.save(&kept)?;
            eprintln!("the history is kept in {}", kept.display());
        }
        Ok(())
    }

    /// Jobs that have not ended, by the counters.
    async fn open(&self) -> anyhow::Result<i64> {
        let queues = self.bugle.list_queues().await?;
        Ok(queues.iter().map(|q| q.scheduled + q.ready + q.leased).sum())
    }
}

fn kept_folder() -> anyhow::Result<PathBuf> {
    Ok(tempfile::Builder::new().prefix("bugle-chaos-").tempdir()?.keep())
}
