//! A real pgbouncer in transaction mode, for what must also work behind a pooler.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use bugle_testkit::pgbouncer::PgBouncer;
//! use bugle_testkit::postgres::TestDb;
//!
//! let db = TestDb::schema().await?;
//! let pooler = PgBouncer::start(db.url(), 4).await?;
//! let pool = sqlx::PgPool::connect(pooler.url()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! `scripts/setup tests` installs the program. It has to be 1.21 or newer: an older one does not know of
//! prepared statements, and sqlx makes one of every query (see "Behind a pooler" in docs/operations.md).

mod config;
mod program;
mod watcher;

use self::program::Program;
use self::watcher::Watcher;
use anyhow::{Context as _, bail};
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long it may take to be ready; it takes some 20 ms.
const READY_MAX: Duration = Duration::from_secs(20);
/// Starts that may find their port taken.
const PORTS_MAX: u32 = 10;

/// A running pgbouncer; gone when dropped, or when this process is.
#[derive(Debug)]
pub struct PgBouncer {
    url: String,
    version: (u32, u32),
    child: Child,
    watcher: Watcher,
    _folder: TempDir,
}

impl PgBouncer {
    /// Starts one in front of the server at `server_url`, which opens at most `server_connections` to it.
    pub async fn start(server_url: &str, server_connections: u32) -> anyhow::Result<Self> {
        let program = Program::find()?;
        for _ in 0..PORTS_MAX {
            if let Some(started) = Self::attempt(&program, server_url, server_connections).await? {
                return Ok(started);
            }
        }
        bail!("pgbouncer found {PORTS_MAX} ports taken that were free a moment before");
    }

    /// `None`: the port is taken.
    async fn attempt(
        program: &Program,
        server_url: &str,
        server_connections: u32,
    ) -> anyhow::Result<Option<Self>> {
        let folder = tempfile::Builder::new().prefix("bugle-pgbouncer-").tempdir()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let server = config::Server::parse(server_url)?;
        let ini = config::write(folder.path(), &server, port, server_connections, program.version)?;
        let log = folder.path().join("log");
        let mut watcher = Watcher::start(folder.path())?;
        let child = Command::new(&program.path)
            .arg(ini)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| format!("starting {}", program.path.display()))?;
        watcher.watch(child.id());
        // From here on its drop ends the process.
        let mut started =
            Self { url: server.url_on(port), version: program.version, child, watcher, _folder: folder };
        Ok(started.is_ready(&log, port).await?.then_some(started))
    }

    /// Whether it listens; not, if somebody else was faster.
    ///
    /// Read from its log: whoever has taken the port would answer a connection, too.
    async fn is_ready(&mut self, log: &Path, port: u16) -> anyhow::Result<bool> {
        let begun = Instant::now();
        loop {
            let ended = self.child.try_wait()?;
            let said = fs::read_to_string(log)?;
            if said.contains("Address already in use") {
                return Ok(false);
            }
            if said.contains("process up") && said.contains(&format!("listening on 127.0.0.1:{port}")) {
                return Ok(true);
            }
            if ended.is_some() || begun.elapsed() > READY_MAX {
                bail!("pgbouncer does not start ({ended:?}); it said:\n{said}");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The URL of the server's database, through the pooler.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its version, major and minor.
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        self.watcher.forget(); // first: once waited for, the number may be another's
        let _ = self.child.kill(); // it has nothing to save
        let _ = self.child.wait();
    }
}
