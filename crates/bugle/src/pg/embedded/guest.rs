//! Using a server that another Bugle on this machine owns.
//!
//! Several commands at once shall work on one data folder: one owns the server, the others find its address in the folder and are
//! its guests. Two files of the folder are locked for that:
//!
//! * `guests.lock`, shared by all guests: an owner about to stop lets its guests finish.
//! * `stay.lock`, held by the one process that means to stay: it owns the server, or waits until a brief owner has ended. Without
//!   it, a worker that happened to start a moment after `bugle enqueue` would be its guest, and lose the server with it.
//!
//! A process that waits for what another one does must not keep that one out: it watches `stay.lock`, lets go of the server when
//! somebody wants to stay, and comes again as his guest.

use super::data_dir::{self, DataDir};
use super::error::At as _;
use super::server::{connect_options, in_background};
use super::{Error, Options, Server};
use sqlx::postgres::PgConnectOptions;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

const GUESTS: &str = "guests.lock";
const STAY: &str = "stay.lock";
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
    dir: PathBuf,
    pid_file: PathBuf,
    postmaster_pid: String,
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

    /// Has the server ended? (Another one may run in the folder by now, at another address.)
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let text = fs::read_to_string(&self.pid_file).unwrap_or_default();
        text.lines().next() != Some(&self.postmaster_pid)
    }

    /// The process that owns the server.
    #[must_use]
    pub fn owner_pid(&self) -> &str {
        &self.owner_pid
    }
}

impl Embedded {
    /// Shall a process that only waits let go of it and come again? Its server has ended, or somebody who means to stay is kept out by
    /// an owner that does not.
    pub fn is_to_be_left(&self) -> Result<bool, Error> {
        match self {
            Self::Owned(server) => match server.dir() {
                Some(dir) => Ok(!server.stays() && somebody_stays(dir)?),
                None => Ok(false),
            },
            Self::Guest(guest) => {
                let kept_out = || Ok(somebody_stays(&guest.dir)? && !stays(&guest.dir, &guest.owner_pid)?);
                if guest.is_gone() { Ok(true) } else { kept_out() }
            }
        }
    }
}

/// How long a process means to use the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stay {
    /// For one thing; it may be the guest of anybody.
    Brief,
    /// For as long as something takes that others do. It may be the guest of anybody, but makes way for one that stays
    /// ([`Embedded::is_to_be_left`]) and then waits for his server.
    Waiting,
    /// Until it is told to stop; it is the guest only of another that stays.
    Long,
}

impl Server {
    /// Starts the server, or becomes the guest of the Bugle that runs it already.
    pub async fn start_or_join(options: Options, stay: Stay) -> Result<Embedded, Error> {
        in_background(move || start_or_join(&options, stay)).await
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

fn start_or_join(options: &Options, stay: Stay) -> Result<Embedded, Error> {
    let Some(dir) = options.dir().map(Path::to_owned) else {
        return Server::start_blocking(options.clone()).map(Embedded::Owned);
    };
    data_dir::prepare(&dir)?; // so that the locks are put into no folder of somebody else's
    let begun = Instant::now();
    let mut staying = None;
    loop {
        if stay == Stay::Long && staying.is_none() {
            staying = try_to_stay(&dir)?;
        }
        // Before the owner is looked for: an owner that is about to stop either sees this lock or is seen to be gone.
        let hold = Some(open(&dir, GUESTS)?).filter(|file| file.try_lock_shared().is_ok());
        let makes_way = stay == Stay::Waiting && somebody_stays(&dir)?;
        let started = if makes_way {
            Err(Error::InUse { pid: data_dir::owner_pid(&dir), dir: dir.clone() })
        } else {
            Server::start_blocking(options.clone())
        };
        let in_use = match started {
            Err(in_use @ Error::InUse { .. }) => in_use,
            other => return other.map(|server| Embedded::Owned(server.staying(staying))),
        };
        if let (Some(hold), Error::InUse { pid, .. }) = (hold, &in_use)
            && match stay {
                Stay::Brief => true,
                Stay::Waiting => !makes_way || stays(&dir, pid)?,
                Stay::Long => staying.is_none() && stays(&dir, pid)?,
            }
            && let Some(guest) = join(&dir, pid, hold)?
        {
            return Ok(Embedded::Guest(guest));
        }
        if begun.elapsed() > Duration::from_secs(OWNER_SECONDS_MAX) {
            return Err(in_use);
        }
        sleep(LOOK_EVERY); // the owner is starting or stopping, or is a brief one
    }
}

/// Becomes the one that stays, unless there is one.
fn try_to_stay(dir: &Path) -> Result<Option<File>, Error> {
    let mut file = open(dir, STAY)?;
    if file.try_lock().is_err() {
        return Ok(None);
    }
    let path = dir.join(STAY);
    file.set_len(0).at("write", &path)?;
    writeln!(file, "{}", std::process::id()).at("write", &path)?;
    Ok(Some(file))
}

/// Is there one that stays, or means to?
fn somebody_stays(dir: &Path) -> Result<bool, Error> {
    // Shared, so that two who ask are not taken for one who stays.
    Ok(open(dir, STAY)?.try_lock_shared().is_err())
}

/// Is the owner the one that stays?
fn stays(dir: &Path, owner_pid: &str) -> Result<bool, Error> {
    let path = dir.join(STAY);
    Ok(fs::read_to_string(&path).at("read", &path)?.trim() == owner_pid)
}

/// The running server, from what it and its owner keep in the folder; none while it is not ready.
fn join(dir: &Path, owner_pid: &str, hold: File) -> Result<Option<Guest>, Error> {
    let pid_file = dir.join("data/postmaster.pid");
    // As PostgreSQL documents the file: pid, folder, start, port, socket folder, address, memory key, status.
    let Ok(text) = fs::read_to_string(&pid_file) else { return Ok(None) };
    let line = |number: usize| text.lines().nth(number).unwrap_or_default().trim();
    let (Ok(port), "ready") = (line(3).parse(), line(7)) else { return Ok(None) };
    let password_file = dir.join("password");
    let password = fs::read_to_string(&password_file).at("read", &password_file)?.trim().to_owned();
    Ok(Some(Guest {
        options: connect_options(Path::new(line(4)), port, &password),
        url: format!("postgres://bugle:{password}@127.0.0.1:{port}/bugle"),
        owner_pid: owner_pid.to_owned(),
        postmaster_pid: line(0).to_owned(),
        dir: dir.to_owned(),
        pid_file,
        _hold: hold,
    }))
}

fn open(dir: &Path, name: &str) -> Result<File, Error> {
    let path: PathBuf = dir.join(name);
    data_dir::private_file().create(true).read(true).write(true).truncate(false).open(&path).at("open", &path)
}

impl DataDir {
    /// The file that guests lock; none for a folder that nobody else can know of.
    pub(super) fn guests_file(&self) -> Result<Option<File>, Error> {
        if self.ephemeral {
            return Ok(None);
        }
        open(&self.dir, GUESTS).map(Some)
    }
}
