//! Using a server that another Bugle on this machine owns.
//!
//! Several commands at once shall work on one data folder: the first owns the server, the others find its address in the folder and
//! are its guests. A guest holds a shared lock on a file of the folder, so that an owner about to stop can let its guests finish.

use super::data_dir::{self, DataDir};
use super::error::At as _;
use super::server::{connect_options, in_background};
use super::{Error, Options, Server};
use sqlx::postgres::PgConnectOptions;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LOCK: &str = "guests.lock";
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long an owner may take to start or to stop: the first start makes a whole cluster.
const OWNER_SECONDS_MAX: u64 = 120;

/// A way into an embedded server: one's own, or that of another Bugle.
#[derive(Debug)]
pub enum Embedded {
    /// This process started it and stops it.
    Owned(Server),
    /// Another Bugle owns it.
    Guest(Guest),
}

/// A live server that another Bugle owns. Keep it for as long as the server is used: its owner waits a little for its guests.
#[derive(Debug)]
pub struct Guest {
    options: PgConnectOptions,
    url: String,
    owner_pid: String,
    _hold: File,
}

impl Guest {
    /// The way in: the Unix socket.
    #[must_use]
    pub fn connect_options(&self) -> PgConnectOptions {
        self.options.clone()
    }

    /// The address over TCP.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The process that owns the server.
    #[must_use]
    pub fn owner_pid(&self) -> &str {
        &self.owner_pid
    }
}

impl Server {
    /// Starts the server, or becomes the guest of the Bugle that runs it already.
    pub async fn start_or_join(options: Options) -> Result<Embedded, Error> {
        in_background(move || start_or_join(&options)).await
    }

    /// Waits until no other process uses the server, but not longer than `patience`. New guests wait for the stop that follows.
    /// Returns whether they are gone.
    pub async fn wait_for_guests(&mut self, patience: Duration) -> Result<bool, Error> {
        let begun = Instant::now();
        let Some(file) = self.guests_file()? else { return Ok(true) };
        loop {
            if file.try_lock().is_ok() {
                self.keep_guests_out(file);
                return Ok(true);
            }
            if begun.elapsed() >= patience {
                return Ok(false);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

fn start_or_join(options: &Options) -> Result<Embedded, Error> {
    let Some(dir) = options.dir().map(Path::to_owned) else {
        return Server::start_blocking(options.clone()).map(Embedded::Owned);
    };
    let begun = Instant::now();
    loop {
        // Before the owner is looked for: an owner that is about to stop either sees this lock or is seen to be gone.
        // Not in a folder that is no Bugle's yet, which must be found as it is.
        let hold = if dir.join(data_dir::LOCK).exists() { open(&dir).ok() } else { None };
        let hold = hold.filter(|file| file.try_lock_shared().is_ok());
        let in_use = match Server::start_blocking(options.clone()) {
            Err(in_use @ Error::InUse { .. }) => in_use,
            other => return other.map(Embedded::Owned),
        };
        if let (Some(hold), Error::InUse { pid, .. }) = (hold, &in_use)
            && let Some((options, url)) = address(&dir)?
        {
            return Ok(Embedded::Guest(Guest { options, url, owner_pid: pid.clone(), _hold: hold }));
        }
        if begun.elapsed() > Duration::from_secs(OWNER_SECONDS_MAX) {
            return Err(in_use);
        }
        sleep(LOOK_EVERY); // the owner is starting or stopping
    }
}

/// The address of the running server, from what it and its owner keep in the folder; none while it is not ready.
fn address(dir: &Path) -> Result<Option<(PgConnectOptions, String)>, Error> {
    let password_file = dir.join("password");
    // As PostgreSQL documents the file: pid, folder, start, port, socket folder, address, memory key, status.
    let Ok(text) = fs::read_to_string(dir.join("data/postmaster.pid")) else { return Ok(None) };
    let line = |number: usize| text.lines().nth(number).unwrap_or_default().trim();
    let (Ok(port), "ready") = (line(3).parse(), line(7)) else { return Ok(None) };
    let password = fs::read_to_string(&password_file).at("read", &password_file)?.trim().to_owned();
    let url = format!("postgres://bugle:{password}@127.0.0.1:{port}/bugle");
    Ok(Some((connect_options(Path::new(line(4)), port, &password), url)))
}

fn open(dir: &Path) -> Result<File, Error> {
    let path: PathBuf = dir.join(LOCK);
    data_dir::private_file().create(true).read(true).write(true).truncate(false).open(&path).at("open", &path)
}

impl DataDir {
    /// The file that guests lock; none for a folder that nobody else can know of.
    pub(super) fn guests_file(&self) -> Result<Option<File>, Error> {
        if self.ephemeral {
            return Ok(None);
        }
        let file = open(&self.dir)?;
        self.account.own(&self.dir.join(LOCK))?;
        Ok(Some(file))
    }
}
