//! Ends the running commands when Bugle is gone, however it went.
//!
//! Their jobs will run elsewhere when the leases end: the commands of a `bugle work` that was killed with -9 must not go on beside
//! them. A shell reads a pipe whose other end only Bugle holds; the kernel closes that end when Bugle dies.

use rustix::process::Pid;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Reads `+ group` and `- group`, and kills the groups that are left at the end.
///
/// Signals are ignored because those for Bugle's session or service are sent to everybody in it.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
groups=
while read -r sign group; do
    if [ "$sign" = + ]; then
        groups="$groups $group"
    else
        left=
        for g in $groups; do [ "$g" = "$group" ] || left="$left $g"; done
        groups=$left
    fi
done
for g in $groups; do kill -KILL "-$g"; done
"#;

/// Bugle's end of the pipe.
pub(super) struct Lifeline(Mutex<ChildStdin>);

impl Lifeline {
    pub(super) fn start() -> std::io::Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT, "bugle-lifeline"])
            .stdin(Stdio::piped()) // the end that Bugle keeps is closed on exec: no command holds it open
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let pipe =
            shell.stdin.take().ok_or_else(|| std::io::Error::other("the shell has no standard input"))?;
        Ok(Self(Mutex::new(pipe)))
    }

    /// From now on, this group ends with Bugle.
    pub(super) fn watch(&self, group: Pid) {
        self.tell('+', group);
    }

    /// The group's leader has ended: its number may soon be another's.
    pub(super) fn forget(&self, group: Pid) {
        self.tell('-', group);
    }

    fn tell(&self, sign: char, group: Pid) {
        let mut pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = format!("{sign} {}\n", group.as_raw_nonzero());
        let _ = pipe.write_all(line.as_bytes()); // no reader: somebody killed it
    }
}
