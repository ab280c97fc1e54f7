//! A disk that refuses to flush, by strace: it makes one system call of one process fail.

use super::TestServer;
use anyhow::Context as _;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long strace may take to get hold of a process.
const ATTACHED_SECONDS_MAX: u64 = 10;
/// How long it may take to say that it made a call fail.
const TOLD_SECONDS_MAX: u64 = 10;

/// One backend whose next flush of the log fails. Dropped, the backend is let go.
#[derive(Debug)]
pub struct FailingFlush {
    strace: Child,
    attached: Arc<AtomicBool>,
    failed: Arc<AtomicBool>,
}

impl TestServer {
    /// Makes the next flush of the log by the backend `pid` fail as on a dying disk. PostgreSQL then breaks down and
    /// recovers: what it had written without flushing may be there afterwards, or not.
    pub async fn fail_next_flush(&self, pid: i32) -> anyhow::Result<FailingFlush> {
        self.is_of_this_server(pid)?;
        let mut strace = Command::new("strace")
            .args([
                "-e",
                "trace=fdatasync",
                "-e",
                "inject=fdatasync:error=EIO:when=1",
                "-p",
                &pid.to_string(),
            ])
            .stderr(Stdio::piped())
            .spawn()
            .context("strace is missing: run scripts/setup tests")?;
        let (attached, failed) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let said = BufReader::new(strace.stderr.take().context("strace has no standard error")?);
        std::thread::spawn({
            let (attached, failed) = (attached.clone(), failed.clone());
            move || {
                for line in said.lines().map_while(Result::ok) {
                    attached.fetch_or(line.contains("attached"), Ordering::Release);
                    failed.fetch_or(line.contains("INJECTED"), Ordering::Release);
                }
            }
        });
        let mut flush = FailingFlush { strace, attached, failed };
        flush.is_attached().await?;
        Ok(flush)
    }
}

impl FailingFlush {
    async fn is_attached(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while !self.attached.load(Ordering::Acquire) {
            let ended = self.strace.try_wait()?;
            anyhow::ensure!(ended.is_none(), "strace may not look into other processes here: {ended:?}");
            anyhow::ensure!(
                begun.elapsed() < Duration::from_secs(ATTACHED_SECONDS_MAX),
                "strace does not get hold of the backend"
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// Whether it has failed. For when the backend's client has seen an error, which may be earlier than strace says so.
    pub async fn has_hit(&self) -> bool {
        let begun = Instant::now();
        while !self.failed.load(Ordering::Acquire) && begun.elapsed() < Duration::from_secs(TOLD_SECONDS_MAX)
        {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.failed.load(Ordering::Acquire)
    }
}

impl Drop for FailingFlush {
    fn drop(&mut self) {
        let _ = self.strace.kill(); // gone already, if the backend is
        let _ = self.strace.wait();
    }
}
