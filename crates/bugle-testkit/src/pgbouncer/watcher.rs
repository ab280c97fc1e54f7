//! Ends pgbouncer when the test's process is gone, however it went.
//!
//! As the lifeline of the embedded server: a shell reads a pipe whose other end only this process holds,
//! and the system closes that end when the process dies.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// `$1`: the folder to remove. Signals are ignored because a terminal sends its Ctrl-C to everybody.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
pid=0
while read -r line; do pid=$line; done
[ "$pid" = 0 ] || kill -KILL "$pid"
rm -rf -- "$1"
"#;

#[derive(Debug)]
pub(super) struct Watcher {
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Watcher {
    /// Removes `folder` in the end, whatever happens.
    pub(super) fn start(folder: &Path) -> anyhow::Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT, "bugle-watcher"])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .process_group(0)
            .spawn()?;
        let pipe = shell.stdin.take();
        Ok(Self { shell, pipe })
    }

    /// From now on, `pid` is the process to end.
    pub(super) fn watch(&mut self, pid: u32) {
        if let Some(pipe) = &mut self.pipe {
            let _ = writeln!(pipe, "{pid}"); // no reader: somebody killed it, and we clean up ourselves
        }
    }

    /// The process is about to be ended by its owner.
    pub(super) fn forget(&mut self) {
        self.watch(0);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let _ = self.shell.wait();
    }
}
