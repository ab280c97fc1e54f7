//! The processes of a benchmark: producer and consumer are never the same one unless the figure says so.

use super::wire::{Order, Part, Spec};
use crate::failure::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};

/// A child that was told to end settles its jobs; then it is killed.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// The longest that a child may take to answer beyond the time that the order itself takes.
const ANSWER_PATIENCE: Duration = Duration::from_mins(2);

/// A process of the benchmark, killed when this is dropped.
pub(super) struct Child {
    process: tokio::process::Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Child {
    /// Starts a process of this program that plays a part, and returns when it is ready for orders.
    pub(super) async fn start(url: &str, database: &str, part: Part) -> Result<Self, Failure> {
        let spec = Spec { url: url.to_owned(), database: database.to_owned(), part };
        Self::spawn(own_program()?.args(["bench", "part"]), &spec).await
    }

    /// Starts a process, tells it what it is, and returns when it is ready for orders.
    pub(super) async fn spawn(program: &mut Command, what: &impl Serialize) -> Result<Self, Failure> {
        let mut process = program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0) // the terminal's Ctrl-C is for the parent, which ends its children
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| cannot_start(&error))?;
        let (Some(stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Failure::server("a process of the benchmark has no pipes"));
        };
        let mut child = Self { process, stdin, lines: BufReader::new(stdout).lines() };
        child.tell(what).await?;
        child.answer::<()>(ANSWER_PATIENCE).await?;
        Ok(child)
    }

    /// Gives an order and waits for the answer.
    pub(super) async fn ask<A: DeserializeOwned>(&mut self, order: &Order) -> Result<A, Failure> {
        self.ask_within(order, order.length()).await
    }

    /// The same with an order that takes so long by itself.
    pub(super) async fn ask_within<A: DeserializeOwned>(
        &mut self,
        order: &impl Serialize,
        length: Duration,
    ) -> Result<A, Failure> {
        self.tell(order).await?;
        self.answer(length + ANSWER_PATIENCE).await
    }

    async fn tell(&mut self, what: &impl Serialize) -> Result<(), Failure> {
        let mut line = serde_json::to_string(what).map_err(|e| Failure::server(e.to_string()))?;
        line.push('\n');
        let written = self.stdin.write_all(line.as_bytes()).await;
        written.map_err(|e| Failure::system("speak to a process of the benchmark", &e))
    }

    async fn answer<A: DeserializeOwned>(&mut self, patience: Duration) -> Result<A, Failure> {
        let line = tokio::time::timeout(patience, self.lines.next_line()).await;
        let line = line.map_err(|_| Failure::server("a process of the benchmark does not answer"))?;
        let line = line.map_err(|e| Failure::system("hear a process of the benchmark", &e))?;
        let line = line.ok_or_else(|| {
            Failure::server("a process of the benchmark ended early; it has said why on standard error")
        })?;
        serde_json::from_str(&line)
            .map_err(|e| Failure::server(format!("a process of the benchmark answered nonsense: {e}")))
    }

    /// SIGKILL, and waits until it is gone.
    pub(super) async fn kill(mut self) {
        let _ = self.process.kill().await;
    }

    /// Lets it end in its own way.
    pub(super) async fn end(self) {
        let Self { mut process, stdin, lines: _lines } = self;
        drop(stdin);
        if tokio::time::timeout(END_PATIENCE, process.wait()).await.is_err() {
            let _ = process.kill().await;
        }
    }
}

/// This program, to be started again.
pub(super) fn own_program() -> Result<Command, Failure> {
    Ok(Command::new(std::env::current_exe().map_err(|error| cannot_start(&error))?))
}

fn cannot_start(error: &std::io::Error) -> Failure {
    Failure::system("start a process of the benchmark", error)
}
