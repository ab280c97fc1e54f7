//! Stops PostgreSQL when Bugle is gone, however it went.
//!
//! A shell reads a pipe whose other end only Bugle holds. The kernel closes that end when Bugle
//! dies, `kill -9` included; then the shell stops the process it was last told of and removes the
//! folders that were never meant to last.
//!
//! Both kinds of server have one. A persistent server could be left running and adopted by the next
//! Bugle, but a database that nobody uses would then run for ever on the machine of somebody who
//! tried Bugle once. PostgreSQL stays Bugle's own child (not the shell's): Bugle waits for it and
//! sees how it ended.

use super::Error;
use super::account::own_command;
use super::error::At as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};

/// `$1`: the signal; the rest: folders to remove.
///
/// Signals are ignored because those for Bugle's session or service are sent to everybody in it.
/// The wait is bounded: where process 1 does not collect its children, a dead process answers
/// `kill -0` for ever. `rm` is repeated for the sake of backends that outlive a killed postmaster.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
signal=$1
shift
pid=0
while read -r line; do pid=$line; done
if [ "$pid" != 0 ] && kill -"$signal" "$pid"; then
    n=0
    while kill -0 "$pid" && [ $n -lt 200 ]; do sleep 0.05 || sleep 1; n=$((n + 1)); done
fi
n=0
until [ $# -eq 0 ] || rm -rf -- "$@" || [ $n -ge 50 ]; do sleep 0.1 || sleep 1; n=$((n + 1)); done
"#;

/// Bugle's end of the pipe, and the shell at the other.
#[derive(Debug)]
pub(super) struct Lifeline {
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Lifeline {
    /// A lifeline that ends its process with `signal` and then removes `folders`.
    ///
    /// It runs as Bugle's own user, who can remove what it created.
    pub(super) fn start(signal: &str, folders: &[PathBuf]) -> Result<Self, Error> {
        let mut shell = own_command("sh")
            .args(["-c", SCRIPT, "bugle-lifeline", signal])
            .args(folders)
            .stdin(Stdio::piped()) // the end that Bugle keeps is closed on exec: no child holds it open
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .at("run", Path::new("sh"))?;
        let pipe = shell.stdin.take();
        Ok(Self { shell, pipe })
    }

    pub(super) fn pid(&self) -> u32 {
        self.shell.id()
    }

    /// From now on, `pid` is the process to end.
    pub(super) fn watch(&mut self, pid: u32) {
        if let Some(pipe) = &mut self.pipe {
            let _ = writeln!(pipe, "{pid}"); // no reader: somebody killed it, and the next start cleans up
        }
    }

    /// The process has ended: its number may soon be another's.
    pub(super) fn forget(&mut self) {
        self.watch(0);
    }

    /// Lets go: the process is stopped and the folders are removed, soon.
    pub(super) fn close(&mut self) {
        drop(self.pipe.take());
    }

    /// Lets go, and waits until that is done.
    pub(super) fn end(&mut self) {
        self.close();
        let _ = self.shell.wait();
    }
}
