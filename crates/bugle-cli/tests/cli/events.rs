//! Waiting for what happens, without asking again and again.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

/// What must happen has happened by then. For a broken system alone.
const SOON: Duration = Duration::from_secs(30);

/// Lines that commands tell the test, through a named pipe.
pub(crate) struct Told {
    dir: tempfile::TempDir,
    lines: mpsc::Receiver<String>,
}

impl Told {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (teller, lines) = mpsc::channel();
        let path = dir.path().join("told");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        // Also for writing, or it would end when no command has it open.
        let pipe = File::options().read(true).write(true).open(path).unwrap();
        std::thread::spawn(move || {
            let told = BufReader::new(pipe).lines().map_while(Result::ok);
            told.map_while(|line| teller.send(line).ok()).for_each(drop);
        });
        Self { dir, lines }
    }

    /// Where commands write.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("told")
    }

    /// The next line.
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(SOON).unwrap()
    }

    /// The next line, which is the number of a process.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.line().trim().parse().unwrap()).unwrap()
    }
}

/// Waits until a process has ended, whoever's child it is.
pub(crate) fn ended(process: Pid) {
    let process = match pidfd_open(process, PidfdFlags::empty()) {
        Err(Errno::SRCH) => return,
        opened => opened.unwrap(),
    };
    let soon = Timespec::try_from(SOON).unwrap();
    let ready = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&soon)).unwrap();
    assert_eq!(ready, 1, "the process did not end");
}
