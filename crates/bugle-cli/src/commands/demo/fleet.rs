//! The demo's worker processes: started, listened to, and started anew when somebody killed one.

use super::worker::{self, PICKED_UP};
use crate::args::Global;
use crate::failure::Failure;
use crate::view::{Percentiles, WorkerLine};
use bugle::limits::CLAIM_JOBS_MAX;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::time::Instant;

const WORKERS: u32 = 2;
/// A killed worker stays away this long, so that its absence can be seen.
const AWAY: Duration = Duration::from_secs(8);
/// Percentiles are of the jobs of this time.
const WINDOW: Duration = Duration::from_secs(10);
/// Most measurements kept.
const MEASURED_MAX: usize = 20_000;
/// A worker that was told to stop drains for 4 s and settles; then it is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(8);

/// The worker processes.
pub(super) struct Fleet {
    url: String,
    global: Global,
    concurrency: u32,
    silent: bool,
    slots: Vec<Slot>,
    measured: VecDeque<(Instant, Duration)>,
    sender: mpsc::UnboundedSender<Duration>,
    receiver: mpsc::UnboundedReceiver<Duration>,
    killed: u32,
}

enum Slot {
    Alive { child: Child, pid: u32, stdin: Option<ChildStdin> },
    Away { pid: u32, how: String, since: Instant },
}

impl Fleet {
    /// Starts the workers. `silent` keeps their messages off a terminal that is drawn on.
    pub(super) fn start(url: &str, global: &Global, rate: u32, silent: bool) -> Result<Self, Failure> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut fleet = Self {
            url: url.to_owned(),
            global: global.clone(),
            // Jobs take 80 ms on average: with this, each worker alone keeps up with the producers.
            concurrency: (rate / 8).clamp(16, CLAIM_JOBS_MAX),
            silent,
            slots: Vec::new(),
            measured: VecDeque::new(),
            sender,
            receiver,
            killed: 0,
        };
        for number in 1..=WORKERS {
            let slot = fleet.spawn(number)?;
            fleet.slots.push(slot);
        }
        Ok(fleet)
    }

    fn spawn(&self, number: u32) -> Result<Slot, Failure> {
        let fault = |error| Failure::system("start a worker process", &error);
        let mut command = Command::new(std::env::current_exe().map_err(fault)?);
        command.args(["demo-worker", &number.to_string(), &self.concurrency.to_string(), "--no-migrate"]);
        command.args([
            "--schema",
            self.global.schema.as_str(),
            "--namespace",
            self.global.namespace.as_str(),
        ]);
        if self.global.allow_unsafe_database {
            command.arg("--allow-unsafe-database");
        }
        let mut child = command
            .env("BUGLE_DATABASE_URL", &self.url) // holds the password: not an argument, which everybody can read
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(if self.silent { Stdio::null() } else { Stdio::inherit() })
            .process_group(0) // the terminal's Ctrl-C is for the demo alone, which stops its workers in order
            .kill_on_drop(true)
            .spawn()
            .map_err(fault)?;
        if let Some(stdout) = child.stdout.take() {
            let sender = self.sender.clone();
            tokio::spawn(async move {
                let mut lines = BufReader::new(stdout).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    let waited = line.strip_prefix(PICKED_UP).and_then(|n| n.parse().ok());
                    let _ = waited.map(|microseconds| sender.send(Duration::from_micros(microseconds)));
                }
            });
        }
        let stdin = child.stdin.take();
        Ok(Slot::Alive { pid: child.id().unwrap_or_default(), child, stdin })
    }

    /// Takes in what was measured, notices the dead, and brings back those that were away long enough.
    pub(super) fn tick(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        while let Ok(waited) = self.receiver.try_recv() {
            self.measured.push_back((now, waited));
        }
        let surplus = self.measured.len().saturating_sub(MEASURED_MAX);
        self.measured.drain(..surplus);
        while self.measured.front().is_some_and(|(at, _)| now - *at > WINDOW) {
            self.measured.pop_front();
        }
        for index in 0..self.slots.len() {
            let number = u32::try_from(index).unwrap_or_default() + 1;
            let next = match &mut self.slots[index] {
                Slot::Alive { child, pid, .. } => match child.try_wait() {
                    Ok(Some(status)) => {
                        self.killed += 1;
                        let how = match status.signal() {
                            Some(signal) => format!("killed (signal {signal})"),
                            None => format!("ended ({status})"),
                        };
                        Slot::Away { pid: *pid, how, since: now }
                    }
                    _ => continue,
                },
                Slot::Away { since, .. } if since.elapsed() < AWAY => continue,
                Slot::Away { .. } => self.spawn(number)?,
            };
            self.slots[index] = next;
        }
        Ok(())
    }

    /// `kill -9` of one worker that is alive.
    pub(super) fn kill_one(&mut self) {
        let alive = self.slots.iter().find_map(|slot| match slot {
            Slot::Alive { pid, .. } => i32::try_from(*pid).ok().and_then(Pid::from_raw),
            Slot::Away { .. } => None,
        });
        if let Some(pid) = alive {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// The workers, each with what it holds by the database's word; also those that are gone and still hold something.
    pub(super) fn lines(&self, holders: &[WorkerLine]) -> Vec<WorkerLine> {
        let mut others: Vec<WorkerLine> = holders.to_vec();
        let mut lines = Vec::new();
        for (number, slot) in (1..).zip(&self.slots) {
            let (pid, away) = match slot {
                Slot::Alive { pid, .. } => (*pid, None),
                Slot::Away { pid, how, since } => (*pid, Some((how, since))),
            };
            let name = worker::name(number, pid);
            let held = others.iter().position(|other| other.name == name).map(|at| others.remove(at));
            let note = match (away, &held) {
                (None, _) => "running".to_owned(),
                (Some((how, since)), held) => {
                    let back = AWAY.saturating_sub(since.elapsed()).as_secs();
                    let lease = held.as_ref().map_or_else(
                        || "jobs taken back".to_owned(),
                        |held| held.note.replace(" unless renewed", ""),
                    );
                    format!("{how}; {lease}; back in {back} s")
                }
            };
            lines.push(WorkerLine { name, pid: Some(pid), holds: held.map_or(0, |held| held.holds), note });
        }
        lines.extend(others);
        lines
    }

    /// How long the jobs of the last seconds had been due when they were claimed.
    pub(super) fn pick_up(&self) -> Option<Percentiles> {
        Percentiles::of(self.measured.iter().map(|(_, waited)| *waited).collect())
    }

    /// How many workers ended before they were told to.
    pub(super) fn killed(&self) -> u32 {
        self.killed
    }

    /// Lets the workers drain and waits for their end.
    pub(super) async fn stop(&mut self) {
        for slot in &mut self.slots {
            if let Slot::Alive { stdin, .. } = slot {
                stdin.take(); // its end is their order to stop
            }
        }
        let deadline = Instant::now() + STOP_PATIENCE;
        for slot in &mut self.slots {
            if let Slot::Alive { child, .. } = slot
                && tokio::time::timeout_at(deadline, child.wait()).await.is_err()
            {
                let _ = child.kill().await;
            }
        }
    }
}
