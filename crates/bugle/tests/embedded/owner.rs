//! Another process that owns a server, for the tests to kill: this test binary, run again.

use bugle::pg::embedded::{Options, Server};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const PLACE: &str = "BUGLE_TEST_OWNER_PLACE";
const REPORT: &str = "BUGLE_TEST_OWNER_REPORT";

/// What the owner says of its server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) url: String,
    pub(crate) postmaster: u32,
    pub(crate) lifeline: u32,
    pub(crate) data: PathBuf,
}

/// A process that started a server and then does nothing.
pub(crate) struct Owner {
    pub(crate) process: Child,
    report: tempfile::TempDir,
}

impl Owner {
    /// Begins; `None` is an ephemeral server.
    pub(crate) fn spawn(place: Option<&Path>) -> Self {
        let report = tempfile::tempdir().unwrap();
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "owner::owns_a_server_when_told_to"])
            .env(PLACE, place.unwrap_or(Path::new("")))
            .env(REPORT, report.path().join("report"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { process, report }
    }

    /// Waits until the server runs.
    pub(crate) fn report(&self) -> Report {
        let path = self.report.path().join("report");
        super::eventually("the owner's report", || path.exists());
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    /// Ends the owner as nothing can prepare for.
    pub(crate) fn kill_9(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The other process's part. Run as one of the tests, it has nothing to do.
#[test]
fn owns_a_server_when_told_to() {
    let (Some(place), Some(report)) = (std::env::var_os(PLACE), std::env::var_os(REPORT)) else { return };
    let options = if place.is_empty() { Options::ephemeral() } else { Options::at(place) };
    let server = Server::start_blocking(options).unwrap();
    let said = Report {
        url: server.url(),
        postmaster: server.postmaster_pid(),
        lifeline: server.lifeline_pid(),
        data: server.data_dir().to_owned(),
    };
    let report = PathBuf::from(report);
    let draft = report.with_extension("draft");
    std::fs::write(&draft, serde_json::to_string(&said).unwrap()).unwrap();
    std::fs::rename(draft, report).unwrap();
    loop {
        std::thread::park();
    }
}
