//! A wrong wall clock for one process, by libfaketime.
//!
//! Only the wall clock is wrong: sleeping goes by the monotonic one, which stays true.

use anyhow::Context as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Where packages put the library, in a folder for each architecture or not. The MT form, because the other one
/// mixes up its own state when two threads ask at once.
const PLACES: [&str; 3] = ["/usr/lib", "/usr/lib64", "/usr/local/lib"];
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// How far a clock is off, and the means to change that while it is looked at.
#[derive(Debug)]
pub struct Clock {
    library: PathBuf,
    folder: TempDir,
}

impl Clock {
    /// A clock that is off by `offset`: `+1h`, `-1h`, `+0`, `+3600.5`.
    pub fn new(offset: &str) -> anyhow::Result<Self> {
        let library = library().context("libfaketime is missing: run scripts/setup tests")?;
        let clock = Self { library, folder: tempfile::Builder::new().prefix("bugle-clock-").tempdir()? };
        clock.jump(offset)?;
        Ok(clock)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("offset")
    }

    /// From now on it is off by `offset`.
    pub fn jump(&self, offset: &str) -> anyhow::Result<()> {
        // Renamed into place: half a line would be another time.
        let new = self.folder.path().join("new");
        fs::write(&new, format!("{offset}\n"))?;
        Ok(fs::rename(new, self.file())?)
    }

    /// Makes `command` look at this clock, as long as it exists.
    pub fn give_to(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", self.file())
            .env("FAKETIME_NO_CACHE", "1")
            // Two names: which one is heard depends on the version.
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("DONT_FAKE_MONOTONIC", "1");
    }

    /// Removes what a killed process `pid` has left: it would keep the next one of that number from starting.
    pub fn clean_up_after(pid: u32) {
        for name in [format!("faketime_shm_{pid}"), format!("sem.faketime_sem_{pid}")] {
            let _ = fs::remove_file(Path::new("/dev/shm").join(name)); // gone already, if it could end by itself
        }
    }
}

fn library() -> Option<PathBuf> {
    let folders = PLACES.iter().map(Path::new);
    let of_architectures = folders.clone().flat_map(|place| {
        fs::read_dir(place).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
    });
    of_architectures.chain(folders.map(Path::to_owned)).map(|it| it.join(LIBRARY)).find(|it| it.exists())
}
