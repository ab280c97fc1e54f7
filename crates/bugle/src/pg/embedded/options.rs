//! What the owner of an embedded server may choose.

use super::Error;
use std::path::{Path, PathBuf};

/// Where and how to run an embedded server.
#[derive(Debug, Clone)]
pub struct Options {
    pub(super) place: Place,
    pub(super) bin_dir: Option<PathBuf>,
    pub(super) port: Option<u16>,
    pub(super) settings: Vec<(String, String)>,
}

#[derive(Debug, Clone)]
pub(super) enum Place {
    /// A folder that outlives the server.
    At(PathBuf),
    /// A new folder under the system's temporary one, removed with the server.
    Ephemeral,
}

impl Options {
    /// A server whose data stays in `dir`, which is created when missing.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self::new(Place::At(dir.into()))
    }

    /// A server in a temporary folder that goes when the server or its owner does, however that ends.
    #[must_use]
    pub fn ephemeral() -> Self {
        Self::new(Place::Ephemeral)
    }

    fn new(place: Place) -> Self {
        Self { place, bin_dir: None, port: None, settings: Vec::new() }
    }

    /// The folder that outlives the server; none for an ephemeral one.
    pub(super) fn dir(&self) -> Option<&Path> {
        match &self.place {
            Place::At(dir) => Some(dir),
            Place::Ephemeral => None,
        }
    }

    /// The folder used when none is named: `bugle/postgres` in the user's data home.
    ///
    /// Root gets `/var/lib/bugle/postgres`: the server then runs as another user, who cannot enter
    /// root's home.
    pub fn default_dir() -> Result<PathBuf, Error> {
        if rustix::process::geteuid().is_root() {
            return Ok(PathBuf::from("/var/lib/bugle/postgres"));
        }
        // The XDG rule: a relative XDG_DATA_HOME is to be ignored.
        let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let data_home = variable("XDG_DATA_HOME")
            .or_else(|| variable("HOME").map(|home| home.join(".local/share")))
            .ok_or(Error::NoHome)?;
        Ok(data_home.join("bugle/postgres"))
    }

    /// Uses the PostgreSQL in `dir` instead of searching for one.
    #[must_use]
    pub fn bin_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.bin_dir = Some(dir.into());
        self
    }

    /// Listens on this loopback port instead of a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Sets a PostgreSQL setting, over Bugle's own choice of it. The last one wins.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }
}
