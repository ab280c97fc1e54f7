//! `bugle serve` in processes of their own.
use bugle_testkit::postgres::TestDb;
use bugle_testkit::until;
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

/// A running server, killed when dropped.
pub(crate) struct Server {
    name: String,
    process: Child,
    url: String,
    /// Read by nobody, and kept open: it may speak.
    _said: BufReader<ChildStdout>,
}

impl Server {
    pub(crate) async fn start(db: &TestDb, number: usize) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_bugle"))
            .args(["serve", "--listen", "127.0.0.1:0", "--json", "--connections", "6"])
            .env_remove("BUGLE_WAKE")
            .env_remove("BUGLE_LISTENER_URL")
            .env_remove("BUGLE_NAMESPACE")
            .env("BUGLE_DATABASE_URL", db.url())
            .env("BUGLE_SCHEMA", db.name())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).await.unwrap();
        let told: serde_json::Value = serde_json::from_str(&line).expect("the server ended early");
        let url = told["listening"].as_str().unwrap().to_owned();
        Self { name: format!("server-{number}"), process, url, _said: said }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// Waits until so many pops wait here.
    pub(crate) async fn until_waiting(&self, pops: usize) {
        let (http, url) = (crate::clients::http(), format!("{}/metrics", self.url));
        until("they wait", async || {
            let Ok(answer) = http.get(&url).send().await else { return false };
            let text = answer.text().await.unwrap_or_default();
            let waiting = text.lines().find_map(|line| line.strip_prefix("bugle_intentions ")?.parse().ok());
            waiting.unwrap_or(0) >= pops
        })
        .await;
    }

    /// SIGKILL; another one takes its place. Its address.
    pub(crate) async fn kill_and_replace(&mut self, other: impl Future<Output = Self>) -> String {
        self.process.start_kill().unwrap();
        let status = self.process.wait().await.unwrap();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{} ended by itself", self.name);
        *self = other.await;
        self.url()
    }
}
