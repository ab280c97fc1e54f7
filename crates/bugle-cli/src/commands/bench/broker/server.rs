//! The server that is measured: `bugle serve`, a process of its own.

use super::super::child::own_program;
use super::super::ground::Ground;
use crate::failure::Failure;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;

/// Until it has made its tables and listens.
const START_WITHIN: Duration = Duration::from_mins(1);
/// Until waiting pops are answered and it is gone.
const STOP_WITHIN: Duration = Duration::from_secs(15);

/// Killed when this is dropped.
pub(super) struct Server {
    process: Child,
    address: SocketAddr,
    /// Read by nobody, and kept open: it may speak.
    _said: BufReader<tokio::process::ChildStdout>,
}

#[derive(Deserialize)]
struct Announced {
    listening: String,
}

impl Server {
    /// With these options beside the defaults.
    pub(super) async fn start(ground: &Ground, options: &[&str]) -> Result<Self, Failure> {
        let mut process = own_program()?
            .args(["serve", "--listen", "127.0.0.1:0", "--json"])
            .args(options)
            .env("BUGLE_DATABASE_URL", ground.url()) // it may hold a password: not onto a command line
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| Failure::system("start the server", &e))?;
        let Some(stdout) = process.stdout.take() else {
            return Err(Failure::server("the server has no pipe"));
        };
        let mut said = BufReader::new(stdout);
        let mut line = String::new();
        let read = tokio::time::timeout(START_WITHIN, said.read_line(&mut line)).await;
        read.map_err(|_| Failure::server("the server does not start"))?
            .map_err(|e| Failure::system("hear the server", &e))?;
        let announced: Announced = serde_json::from_str(&line)
            .map_err(|_| Failure::server("the server ended early; it has said why on standard error"))?;
        let address = announced.listening.trim_start_matches("http://").parse();
        let address = address.map_err(|_| Failure::server(format!("no address: {}", announced.listening)))?;
        Ok(Self { process, address, _said: said })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Memory that it has in use, in bytes.
    pub(super) async fn resident_bytes(&self) -> Result<u64, Failure> {
        let pid = self.process.id().ok_or_else(|| Failure::server("the server has ended"))?;
        let path = format!("/proc/{pid}/status");
        let status = tokio::fs::read_to_string(&path).await.map_err(|e| Failure::system("read /proc", &e))?;
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<u64>().ok());
        kib.map(|kib| kib * 1024).ok_or_else(|| Failure::server(format!("{path} tells no VmRSS")))
    }

    /// In order, as with Ctrl-C.
    pub(super) async fn stop(mut self) {
        let pid = self.process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let asked = pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok());
        if !asked || tokio::time::timeout(STOP_WITHIN, self.process.wait()).await.is_err() {
            let _ = self.process.kill().await;
        }
    }
}
