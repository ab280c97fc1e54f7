//! One run of the command: payload in, exit code out.

use super::lifeline::Lifeline;
use super::stderr_tail::StderrTail;
use crate::failure::Failure;
use crate::span;
use bugle::Verdict;
use bugle::jobs::Claimed;
use bugle::name::Kind;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// `EX_DATAERR` of sysexits.h: the input is at fault, so trying again would not help.
const NEVER_AGAIN: i32 = 65;

/// A command whose time is up may end by itself for so long.
const GRACE: Duration = Duration::from_secs(2);

/// The command that runs jobs.
pub(super) struct Program {
    command: OsString,
    arguments: Vec<OsString>,
    queue: String,
    /// None: every kind.
    kinds: Vec<String>,
    timeout: Option<Duration>,
    lifeline: Lifeline,
}

impl Program {
    /// Refuses a command that does not exist before any job is claimed for it.
    pub(super) fn find(command: &OsStr, arguments: &[OsString], queue: &str) -> Result<Self, Failure> {
        if !can_run(command) {
            let name = command.to_string_lossy();
            let next = if name.contains(char::is_whitespace) {
                "its arguments go after --: --exec PROGRAM -- ARG ARG; a line of shell: --exec sh -- -c '...'"
            } else {
                "check the path"
            };
            return Err(Failure::user(format!(
                "--exec names {name:?}, which is no program that can be run; {next}"
            )));
        }
        Ok(Self {
            command: command.to_owned(),
            arguments: arguments.to_vec(),
            queue: queue.to_owned(),
            kinds: Vec::new(),
            timeout: None,
            lifeline: Lifeline::start().map_err(|e| Failure::system("run sh", &e))?,
        })
    }

    /// The same command for these kinds alone, and for at most this long.
    pub(super) fn limited(self, kinds: &[Kind], timeout: Option<Duration>) -> Result<Self, Failure> {
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(Failure::user(
                "--timeout is 0s: no command could end in time; leave it out for none",
            ));
        }
        Ok(Self { kinds: kinds.iter().map(ToString::to_string).collect(), timeout, ..self })
    }

    /// Runs it for one job. When the future is dropped, because the lease was lost or time is up, the command is killed with all that it started.
    pub(super) async fn run(&self, job: Claimed) -> Verdict {
        if !self.kinds.is_empty() && !self.kinds.contains(&job.kind) {
            let known = self.kinds.join(", ");
            return failed(
                "no_handler",
                format!("bugle work has no command for kind {:?}, only for {known}", job.kind),
            );
        }
        let spawned = Command::new(&self.command)
            .args(&self.arguments)
            .env("BUGLE_JOB_ID", job.id.to_string())
            .env("BUGLE_JOB_QUEUE", &self.queue)
            .env("BUGLE_JOB_KIND", &job.kind)
            .env("BUGLE_JOB_ATTEMPT", job.attempt.to_string())
            .env("BUGLE_JOB_MAX_ATTEMPTS", job.max_attempts.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::inherit())
            .stderr(Stdio::piped())
            // A group of its own: Ctrl-C reaches Bugle alone, which decides when the command must end.
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        let mut child = match spawned {
            Ok(child) => child,
            Err(error) => return failed("spawn", format!("the command could not be started: {error}")),
        };
        let mut group = Group::of(child.id(), &self.lifeline);
        let tail = StderrTail::follow(child.stderr.take());
        let stdin = child.stdin.take();
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A command that does not read its input is free not to.
                let _ = stdin.write_all(job.payload.get().as_bytes()).await;
            }
        };
        let ended = async {
            let mut feed = std::pin::pin!(feed);
            let mut written = false;
            loop {
                tokio::select! {
                    status = child.wait() => break status,
                    () = &mut feed, if !written => written = true,
                }
            }
        };
        let mut ended = std::pin::pin!(ended);
        let in_time = match self.timeout {
            None => Some(ended.as_mut().await),
            Some(timeout) => tokio::time::timeout(timeout, ended.as_mut()).await.ok(),
        };
        if let Some(status) = in_time {
            group.forget();
            return match status {
                Ok(status) => verdict(status, tail.end().await),
                Err(error) => failed("wait", format!("the command could not be waited for: {error}")),
            };
        }
        group.signal(Signal::TERM);
        let _ = tokio::time::timeout(GRACE, ended).await; // how it ends no longer matters
        drop(group);
        let what = format!("timed out after {}", span::short(self.timeout.unwrap_or_default()));
        failed("timeout", with(what, &tail.end().await))
    }
}

fn verdict(status: ExitStatus, said: String) -> Verdict {
    match (status.code(), status.signal()) {
        (Some(0), _) => Verdict::Done,
        (Some(NEVER_AGAIN), _) => {
            Verdict::Dead { code: "exit_65".to_owned(), message: or(said, "exit code 65") }
        }
        (Some(code), _) => failed(&format!("exit_{code}"), or(said, &format!("exit code {code}"))),
        (None, signal) => {
            let what = format!("killed by signal {}", signal.unwrap_or_default());
            failed("signal", with(what, &said))
        }
    }
}

fn failed(code: &str, message: String) -> Verdict {
    Verdict::Fail { code: code.to_owned(), message }
}

fn with(what: String, said: &str) -> String {
    if said.is_empty() { what } else { format!("{what}\n{said}") }
}

fn or(said: String, otherwise: &str) -> String {
    if said.is_empty() { otherwise.to_owned() } else { said }
}

/// The command and everything that it started; killed when dropped.
struct Group<'l> {
    leader: Option<Pid>,
    lifeline: &'l Lifeline,
}

impl<'l> Group<'l> {
    fn of(pid: Option<u32>, lifeline: &'l Lifeline) -> Self {
        let leader = pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(leader) = leader {
            lifeline.watch(leader);
        }
        Self { leader, lifeline }
    }

    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            let _ = kill_process_group(leader, signal);
        }
    }

    /// The command has ended by itself: what it left running was meant to be.
    fn forget(&mut self) {
        if let Some(leader) = self.leader.take() {
            self.lifeline.forget(leader);
        }
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        self.forget();
    }
}

/// Is there such a program, as a path or on the PATH?
fn can_run(command: &OsStr) -> bool {
    let executable = |path: &Path| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if command.as_encoded_bytes().contains(&b'/') {
        return executable(Path::new(command));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| executable(&dir.join(command)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_decides() {
        let of = |raw| verdict(ExitStatus::from_raw(raw), "said".to_owned());
        assert_eq!(of(0), Verdict::Done);
        assert_eq!(of(65 << 8), Verdict::Dead { code: "exit_65".into(), message: "said".into() });
        assert_eq!(of(3 << 8), failed("exit_3", "said".into()));
        assert_eq!(of(9), failed("signal", "killed by signal 9\nsaid".into()));
    }
}
