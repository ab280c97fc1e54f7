//! The running server: start, use, stop.

use super::binaries::Binaries;
use super::data_dir::DataDir;
use super::error::At as _;
use super::launch::launch;
use super::leftovers;
use super::lifeline::Lifeline;
use super::postmaster;
use super::{Error, Options, config, create};
use rustix::process::Signal;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Child;

/// A PostgreSQL server that belongs to this process.
///
/// Dropping it stops it too, but does not wait for the end nor report it.
pub struct Server {
    // In an Option each for Drop's sake, which hands them to a thread.
    postmaster: Option<Child>,
    lifeline: Option<Lifeline>,
    place: Option<DataDir>,
    /// Locked before a stop: whoever would become a guest then waits for the end.
    guests: Option<File>,
    /// Locked by the one process that stays, for as long as it lives.
    stay: Option<File>,
    binaries: Binaries,
    options: Options,
    data: PathBuf,
    socket_dir: PathBuf,
    password: String,
    port: u16,
    statistics: bool,
}

impl Server {
    /// Starts the server, creating its cluster when there is none.
    pub async fn start(options: Options) -> Result<Self, Error> {
        in_background(move || Self::start_blocking(options)).await
    }

    /// As [`Server::start`], for callers without a runtime.
    pub fn start_blocking(options: Options) -> Result<Self, Error> {
        let place = DataDir::take(&options.place)?;
        let socket_dir = place.socket_dir()?;
        let mut temporary = Vec::new();
        if !socket_dir.starts_with(&place.dir) {
            temporary.push(socket_dir.clone());
        }
        let mut lifeline = if place.ephemeral {
            temporary.push(place.dir.clone());
            Lifeline::start("QUIT", &temporary)? // immediate: there is nothing to keep
        } else {
            Lifeline::start("INT", &temporary)?
        };
        match Self::bring_up(&place, &options, &socket_dir, &mut lifeline) {
            Ok(up) => Ok(Self {
                postmaster: Some(up.postmaster),
                lifeline: Some(lifeline),
                data: place.data.clone(),
                place: Some(place),
                guests: None,
                stay: None,
                binaries: up.binaries,
                options,
                socket_dir,
                password: up.password,
                port: up.port,
                statistics: up.statistics,
            }),
            Err(error) => {
                lifeline.end();
                Err(error)
            }
        }
    }

    fn bring_up(
        place: &DataDir,
        options: &Options,
        socket_dir: &Path,
        lifeline: &mut Lifeline,
    ) -> Result<Up, Error> {
        leftovers::stop(place)?;
        let version = place.version()?;
        let binaries = Binaries::find(options, &place.account, version)?;
        if let Some(data) = version.filter(|version| *version != binaries.major) {
            return Err(Error::OtherVersion {
                dir: place.dir.clone(),
                data,
                bin_dir: binaries.bin_dir,
                binaries: binaries.major,
            });
        }
        let password = place.password()?;
        if version.is_none() {
            create::create(place, &binaries, lifeline)?;
        }
        let statistics = !config::preload_is_chosen(options);
        let launched = launch(place, options, &binaries, socket_dir, statistics, lifeline)?;
        Ok(Up {
            postmaster: launched.postmaster,
            binaries,
            password,
            port: launched.port,
            statistics: launched.statistics,
        })
    }

    /// Starts it anew in the same folder and on the same port, whether it still runs or has died.
    pub async fn restart(self) -> Result<Self, Error> {
        in_background(move || self.restart_blocking()).await
    }

    fn restart_blocking(mut self) -> Result<Self, Error> {
        self.end_postmaster(Signal::INT)?;
        let options = self.options.clone().port(self.port);
        if let (Some(place), Some(lifeline)) = (&self.place, &mut self.lifeline) {
            leftovers::stop(place)?;
            let launched =
                launch(place, &options, &self.binaries, &self.socket_dir, self.statistics, lifeline)?;
            self.postmaster = Some(launched.postmaster);
        }
        Ok(self)
    }

    /// `postgres://bugle:<password>@127.0.0.1:<port>/bugle`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://bugle:{}@127.0.0.1:{}/bugle", self.password, self.port)
    }

    /// The way in for this process: the Unix socket.
    #[must_use]
    pub fn connect_options(&self) -> PgConnectOptions {
        connect_options(&self.socket_dir, self.port, &self.password)
    }

    /// The loopback port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of the Unix socket, closed to other users.
    #[must_use]
    pub fn socket_dir(&self) -> &Path {
        &self.socket_dir
    }

    /// The database cluster (PostgreSQL's `PGDATA`), inside the folder that was named.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.data
    }

    /// The process id of the postmaster.
    #[must_use]
    pub fn postmaster_pid(&self) -> u32 {
        self.postmaster.as_ref().map_or(0, Child::id)
    }

    /// The process id of the shell that stops the server when this process dies.
    #[must_use]
    pub fn lifeline_pid(&self) -> u32 {
        self.lifeline.as_ref().map_or(0, Lifeline::pid)
    }

    /// The major version of PostgreSQL.
    #[must_use]
    pub fn major_version(&self) -> u32 {
        self.binaries.major
    }

    /// Whether `pg_stat_statements` is loaded: not every installation has it.
    #[must_use]
    pub fn has_statement_statistics(&self) -> bool {
        self.statistics
    }

    /// The live processes of the server: the postmaster and its children, even orphaned ones.
    pub fn processes(&self) -> Result<Vec<i32>, Error> {
        self.place.as_ref().map_or(Ok(Vec::new()), |place| leftovers::processes(&place.account, &place.data))
    }

    /// Stops the server and waits for its end: clients are disconnected, a checkpoint is written.
    /// An ephemeral one ends at once, and its folder is gone afterwards.
    pub async fn stop(self) -> Result<(), Error> {
        in_background(move || self.stop_blocking()).await
    }

    /// As [`Server::stop`], for callers without a runtime.
    pub fn stop_blocking(mut self) -> Result<(), Error> {
        let ephemeral = self.place.as_ref().is_some_and(|place| place.ephemeral);
        self.end_postmaster(if ephemeral { Signal::QUIT } else { Signal::INT })?;
        if let Some(mut lifeline) = self.lifeline.take() {
            lifeline.end();
        }
        Ok(())
    }

    pub(super) fn guests_file(&self) -> Result<Option<File>, Error> {
        self.place.as_ref().map_or(Ok(None), DataDir::guests_file)
    }

    pub(super) fn keep_guests_out(&mut self, lock: File) {
        self.guests = Some(lock);
    }

    pub(super) fn staying(mut self, lock: Option<File>) -> Self {
        self.stay = lock;
        self
    }

    /// Is this process the one that stays?
    pub(super) fn stays(&self) -> bool {
        self.stay.is_some()
    }

    /// The folder that others can know of.
    pub(super) fn dir(&self) -> Option<&Path> {
        self.place.as_ref().filter(|place| !place.ephemeral).map(|place| place.dir.as_path())
    }

    fn end_postmaster(&mut self, signal: Signal) -> Result<(), Error> {
        let Some(mut child) = self.postmaster.take() else { return Ok(()) };
        let ended = postmaster::end(&mut child, signal).at("wait for the server of", &self.data);
        if let Some(lifeline) = &mut self.lifeline {
            lifeline.forget();
        }
        ended
    }
}

impl std::fmt::Debug for Server {
    /// Without the password: this ends in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("data", &self.data).field("port", &self.port).finish_non_exhaustive()
    }
}

impl Drop for Server {
    /// Lets the lifeline stop the server. The folder's lock is let go after that, not now, and
    /// the dead children are collected, or they would stay zombies for as long as Bugle runs.
    fn drop(&mut self) {
        let (postmaster, lifeline, place) = (self.postmaster.take(), self.lifeline.take(), self.place.take());
        let Some(mut postmaster) = postmaster else { return };
        std::thread::spawn(move || {
            let mut lifeline = lifeline;
            if let Some(lifeline) = &mut lifeline {
                lifeline.close();
            }
            let _ = postmaster.wait();
            if let Some(lifeline) = &mut lifeline {
                lifeline.end();
            }
            drop(place);
        });
    }
}

struct Up {
    postmaster: Child,
    binaries: Binaries,
    password: String,
    port: u16,
    statistics: bool,
}

/// The way in by the Unix socket.
pub(super) fn connect_options(socket_dir: &Path, port: u16, password: &str) -> PgConnectOptions {
    PgConnectOptions::new_without_pgpass()
        .socket(socket_dir)
        .port(port)
        .username("bugle")
        .password(password)
        .database("bugle")
        .ssl_mode(PgSslMode::Disable)
}

/// Processes and files are waited for on a thread where blocking is allowed.
pub(super) async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(panic) => Err(std::io::Error::other(panic)).at("run", Path::new("the embedded server")),
    }
}
