//! One attempt to start the server's first process.

use super::Error;
use super::binaries::Binaries;
use super::data_dir::DataDir;
use super::error::At as _;
use super::leftovers::send;
use super::lifeline::Lifeline;
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Recovery after a crash replays at most a few gigabytes of log.
const START_SECONDS_MAX: u64 = 300;
/// A fast stop writes a checkpoint; after this long it is made an immediate one, which loses nothing.
const STOP_SECONDS_MAX: u64 = 60;
const LOOK_EVERY: Duration = Duration::from_millis(10);
const TAIL_LINES: usize = 20;

/// How an attempt ended.
pub(super) enum Attempt {
    /// It accepts connections.
    Ready(Child),
    /// Another program took the port after it was chosen.
    PortTaken,
    /// The installation lacks the library for statement statistics.
    NoStatistics(Error),
    /// Backends of a killed postmaster still hold its shared memory.
    StillAttached(Error),
}

/// Starts a postmaster and waits until it is ready.
pub(super) fn attempt(
    place: &DataDir,
    binaries: &Binaries,
    socket_dir: &Path,
    port: u16,
    lifeline: &mut Lifeline,
) -> Result<Attempt, Error> {
    let mut log = place.open_log()?;
    let log_begins = log.seek(SeekFrom::End(0)).at("read", &place.log)?;
    let errors = log.try_clone().at("open", &place.log)?;

    let mut command = binaries.command(&place.account, "postgres");
    command.arg("-D").arg(&place.data).arg("-p").arg(port.to_string());
    // On the command line because no ALTER SYSTEM may move the server to where Bugle does not look.
    command.args(["-c", "listen_addresses=127.0.0.1", "-c"]);
    command.arg(format!("unix_socket_directories=\"{}\"", socket_dir.display()));
    command.stdout(log).stderr(errors);
    let mut child = command.spawn().at("run", &binaries.bin_dir.join("postgres"))?;
    lifeline.watch(child.id());

    let Some(reason) = wait_until_ready(&mut child, &place.data)? else { return Ok(Attempt::Ready(child)) };
    lifeline.forget();
    let said = read_from(&place.log, log_begins).at("read", &place.log)?;
    let failed = Error::Start {
        dir: place.dir.clone(),
        log: place.log.clone(),
        reason,
        tail: last_lines(&said, TAIL_LINES),
    };
    if said.contains("could not access file \"pg_stat_statements\"") {
        Ok(Attempt::NoStatistics(failed))
    } else if said.contains("Address already in use") {
        Ok(Attempt::PortTaken)
    } else if said.contains("pre-existing shared memory block") {
        Ok(Attempt::StillAttached(failed))
    } else {
        Err(failed)
    }
}

/// Nothing once the server is ready, else why it never will be; the child has then ended.
///
/// As `pg_ctl -w` does, this reads the status that the postmaster writes into its pid file.
fn wait_until_ready(child: &mut Child, data: &Path) -> Result<Option<String>, Error> {
    let begun = Instant::now();
    let pid_file = data.join("postmaster.pid");
    let own_pid = child.id().to_string();
    loop {
        let text = fs::read_to_string(&pid_file).unwrap_or_default();
        let line = |number: usize| text.lines().nth(number).unwrap_or_default().trim();
        if line(0) == own_pid && line(7) == "ready" {
            return Ok(None);
        }
        if let Some(status) = child.try_wait().at("wait for", &pid_file)? {
            return Ok(Some(status.to_string()));
        }
        if begun.elapsed() > Duration::from_secs(START_SECONDS_MAX) {
            if let Ok(pid) = i32::try_from(child.id()) {
                send(pid, Signal::QUIT);
            }
            child.wait().at("wait for", &pid_file)?;
            return Ok(Some(format!("it was not ready after {START_SECONDS_MAX} s")));
        }
        sleep(LOOK_EVERY);
    }
}

/// Ends a postmaster by `signal`, and by an immediate stop when that takes too long.
pub(super) fn end(child: &mut Child, signal: Signal) -> std::io::Result<()> {
    let pid = i32::try_from(child.id()).unwrap_or(0);
    let begun = Instant::now();
    let mut hurried = false;
    if child.try_wait()?.is_none() {
        send(pid, signal);
    }
    while child.try_wait()?.is_none() {
        if !hurried && begun.elapsed() > Duration::from_secs(STOP_SECONDS_MAX) {
            tracing::warn!(pid, "PostgreSQL takes long to stop: stopping it at once.");
            send(pid, Signal::QUIT);
            hurried = true;
        }
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn read_from(log: &Path, offset: u64) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    let mut file = File::open(log)?;
    file.seek(SeekFrom::Start(offset))?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
