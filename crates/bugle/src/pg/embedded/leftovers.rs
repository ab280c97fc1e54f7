//! Server processes that nobody owns any more.

use super::Error;
use super::account::Account;
use super::data_dir::DataDir;
use super::error::At as _;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Prints the processes whose working folder is `$1`: a postmaster and all its children move there.
///
/// Asked as the server's user: root without the ptrace capability (a container's) may not look at
/// another user's processes. A zombie has no working folder and is not listed.
#[cfg(target_os = "linux")]
const LIST: &str = r#"
for process in /proc/[0-9]*; do
    if [ "$process/cwd" -ef "$1" ]; then echo "${process#/proc/}"; fi
done"#;

/// Prints the postmaster whose command line names `$1`. Its children do not outlive it for long.
#[cfg(not(target_os = "linux"))]
const LIST: &str = r#"ps -A -o pid= -o args= | grep -F -- "-D $1 " | grep -v -F grep | awk '{print $1}'"#;

/// The live processes of the server in `data`.
pub(super) fn processes(account: &Account, data: &Path) -> Result<Vec<i32>, Error> {
    let listed =
        account.command("sh").args(["-c", LIST, "sh"]).arg(data).output().at("run", Path::new("sh"))?;
    Ok(String::from_utf8_lossy(&listed.stdout).lines().filter_map(|line| line.trim().parse().ok()).collect())
}

/// Ends every process of an earlier server in this folder, gently first.
///
/// Only called by the folder's owner, so whatever runs there is an orphan.
pub(super) fn stop(place: &DataDir) -> Result<(), Error> {
    let pid_file = place.data.join("postmaster.pid");
    let Ok(text) = fs::read_to_string(&pid_file) else { return Ok(()) };
    let postmaster: Option<i32> = text.lines().next().and_then(|line| line.trim().parse().ok());

    let steps = [
        (Signal::INT, Duration::from_secs(30)), // fast: disconnects, writes a checkpoint
        (Signal::QUIT, Duration::from_secs(10)),
        (Signal::KILL, Duration::from_secs(10)),
    ];
    for (signal, patience) in steps {
        let alive = processes(&place.account, &place.data)?;
        if alive.is_empty() {
            break;
        }
        tracing::warn!(processes = ?alive, ?signal, "Stopping a PostgreSQL that outlived its Bugle.");
        // The postmaster ends its children itself. Without one, they are asked one by one.
        match postmaster.filter(|pid| alive.contains(pid) && signal != Signal::KILL) {
            Some(pid) => send(pid, signal),
            None => alive.iter().for_each(|pid| send(*pid, signal)),
        }
        wait_until_gone(place, patience)?;
    }
    if let Some(pid) = processes(&place.account, &place.data)?.first() {
        return Err(Error::WillNotEnd { dir: place.dir.clone(), pid: *pid });
    }
    // PostgreSQL trusts the number in this file if any process of its user has it, as happens after
    // a reboot or in a restarted container. We know better: nobody is left.
    match fs::remove_file(&pid_file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).at("remove", &pid_file),
        _ => Ok(()),
    }
}

fn wait_until_gone(place: &DataDir, patience: Duration) -> Result<(), Error> {
    let begun = Instant::now();
    while begun.elapsed() < patience && !processes(&place.account, &place.data)?.is_empty() {
        sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Sends a signal; a process that is gone already is what was wanted.
pub(super) fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}
