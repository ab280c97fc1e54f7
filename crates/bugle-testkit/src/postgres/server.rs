//! A server of one test's own, which it may hurt.

use super::faults::alter_system;
use anyhow::{Context as _, bail, ensure};
use bugle::pg::embedded::{Options, Server};
use rustix::process::{Pid, Signal, kill_process};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgConnection, PgPool};
use std::time::Duration;

/// PostgreSQL's own limit of `commit_delay`.
const FLUSH_DELAY_MAX: Duration = Duration::from_millis(100);
/// How long the children of a killed postmaster may take to notice.
const CHILDREN_GONE_SECONDS_MAX: u64 = 30;

/// A private PostgreSQL, gone when dropped.
#[derive(Debug)]
pub struct TestServer {
    /// None only while it is being restarted, and after a restart that failed.
    server: Option<Server>,
}

impl TestServer {
    /// A new server with Bugle's settings.
    pub async fn own() -> anyhow::Result<Self> {
        Self::with(Options::ephemeral()).await
    }

    /// A new server with these options.
    pub async fn with(options: Options) -> anyhow::Result<Self> {
        Ok(Self { server: Some(Server::start(options).await?) })
    }

    fn server(&self) -> anyhow::Result<&Server> {
        self.server.as_ref().context("the server is gone: its restart failed")
    }

    /// The URL of its database; the same after a restart.
    pub fn url(&self) -> anyhow::Result<String> {
        self.server().map(Server::url)
    }

    /// The same as options, over TCP: faults of the network are faults of TCP.
    pub fn connect_options(&self) -> anyhow::Result<PgConnectOptions> {
        super::shared::connect_options(&self.url()?)
    }

    /// A pool; it connects when first used.
    pub fn pool(&self) -> anyhow::Result<PgPool> {
        Ok(PgPoolOptions::new().max_connections(8).connect_lazy_with(self.connect_options()?))
    }

    /// The process id of the postmaster.
    pub fn postmaster_pid(&self) -> anyhow::Result<u32> {
        self.server().map(Server::postmaster_pid)
    }

    /// `kill -9` of one backend. PostgreSQL then ends all others and recovers, as after a crash.
    pub fn kill_backend(&self, pid: i32) -> anyhow::Result<()> {
        self.is_of_this_server(pid)?;
        kill(pid)
    }

    pub(super) fn is_of_this_server(&self, pid: i32) -> anyhow::Result<()> {
        let processes = self.server()?.processes()?;
        ensure!(processes.contains(&pid), "process {pid} is not of this server, which has {processes:?}");
        Ok(())
    }

    /// `kill -9` of the postmaster and of all its children, and waits until they are gone. Left alone, the
    /// children would finish the statements they are at, and answer them, before they notice.
    pub async fn crash(&mut self) -> anyhow::Result<()> {
        let server = self.server()?;
        let postmaster = i32::try_from(server.postmaster_pid())?;
        let children = server.processes()?.into_iter().filter(|pid| *pid != postmaster);
        kill(postmaster)?;
        for child in children {
            let _ = kill(child); // it may have ended by itself
        }
        self.is_gone().await
    }

    /// Stops it as `pg_ctl stop -m immediate` does, without a checkpoint, and waits until it is gone: whoever is
    /// connected is told so, and the next start recovers from the log.
    pub async fn stop_at_once(&mut self) -> anyhow::Result<()> {
        let postmaster = i32::try_from(self.server()?.postmaster_pid())?;
        signal(postmaster, Signal::QUIT)?;
        self.is_gone().await
    }

    async fn is_gone(&self) -> anyhow::Result<()> {
        let server = self.server()?;
        let gone = async {
            while !server.processes()?.is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            anyhow::Ok(())
        };
        match tokio::time::timeout(Duration::from_secs(CHILDREN_GONE_SECONDS_MAX), gone).await {
            Ok(done) => done,
            Err(_) => bail!("after {CHILDREN_GONE_SECONDS_MAX} s still alive: {:?}", server.processes()?),
        }
    }

    /// Starts it again on the same port and data, after a crash or in place of the running one.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        let server = self.server.take().context("the server is gone: its restart failed")?;
        self.server = Some(server.restart().await?);
        Ok(())
    }

    /// Makes every commit wait `delay` (at most 100 ms) before it is flushed, as on a slow disk.
    pub async fn slow_flush(&self, delay: Duration) -> anyhow::Result<()> {
        ensure!(delay <= FLUSH_DELAY_MAX, "PostgreSQL delays a flush by at most {FLUSH_DELAY_MAX:?}");
        // Without siblings = 0 only a commit among others waits.
        let micros = delay.as_micros().to_string();
        self.configure(&[("commit_delay", Some(&micros)), ("commit_siblings", Some("0"))]).await
    }

    /// Ends [`TestServer::slow_flush`].
    pub async fn normal_flush(&self) -> anyhow::Result<()> {
        self.configure(&[("commit_delay", None), ("commit_siblings", None)]).await
    }

    async fn configure(&self, settings: &[(&str, Option<&str>)]) -> anyhow::Result<()> {
        let mut connection = PgConnection::connect_with(&self.connect_options()?).await?;
        alter_system(&mut connection, settings).await?;
        connection.close().await?;
        Ok(())
    }

    /// Ends the server and waits until its folder is gone.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        match self.server.take() {
            Some(server) => Ok(server.stop().await?),
            None => Ok(()),
        }
    }
}

fn kill(pid: i32) -> anyhow::Result<()> {
    signal(pid, Signal::KILL)
}

fn signal(pid: i32, signal: Signal) -> anyhow::Result<()> {
    let pid = Pid::from_raw(pid).context("not a process id")?;
    kill_process(pid, signal).with_context(|| format!("signalling {} with {signal:?}", pid.as_raw_nonzero()))
}
