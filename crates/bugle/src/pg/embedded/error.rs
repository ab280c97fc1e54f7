//! What can go wrong, each as a sentence with the value and the next step.

use std::io;
use std::path::{Path, PathBuf};

/// Why the embedded server could not be started or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No PostgreSQL installation was found.
    #[error(
        "No PostgreSQL server was found{}: install it (Debian and Ubuntu: apt-get install postgresql; \
         Fedora: dnf install postgresql-server; macOS: brew install postgresql) or set BUGLE_PG_BIN \
         to the folder that holds its `postgres` and `initdb`.",
        match .major { Some(major) => format!(" of version {major}, which made the data folder"), None => String::new() }
    )]
    NoBinaries {
        /// The major version that the data folder needs, if it already exists.
        major: Option<u32>,
    },
    /// The named folder is no PostgreSQL installation, or not one the server's user may run.
    #[error("PostgreSQL cannot be run from {} as user {user}: {reason}.", .bin_dir.display())]
    BadBinaries {
        /// The folder that was named.
        bin_dir: PathBuf,
        /// Who tried to run it.
        user: String,
        /// What happened.
        reason: String,
    },
    /// The data folder was made by another major version.
    #[error(
        "The data folder {} was made by PostgreSQL {data} but {} holds PostgreSQL {binaries}: set \
         BUGLE_PG_BIN to a PostgreSQL {data}, or name another data folder.",
        .dir.display(), .bin_dir.display()
    )]
    OtherVersion {
        /// The data folder.
        dir: PathBuf,
        /// The version that made it.
        data: u32,
        /// The binaries at hand.
        bin_dir: PathBuf,
        /// Their version.
        binaries: u32,
    },
    /// Neither `XDG_DATA_HOME` nor `HOME` is set.
    #[error("There is no home for the data: set HOME or XDG_DATA_HOME, or name a data folder.")]
    NoHome,
    /// Started as root, and there is nobody else to run the server as.
    #[error(
        "PostgreSQL refuses to run as root and this system has neither a user `postgres` nor `nobody`: \
         add one (useradd --system postgres) or start Bugle as an ordinary user."
    )]
    NoAccount,
    /// Another Bugle that is alive owns the folder.
    #[error(
        "The data folder {} is in use by the Bugle with process id {pid}: stop that one, or name \
         another data folder.",
        .dir.display()
    )]
    InUse {
        /// The data folder.
        dir: PathBuf,
        /// What the owner wrote into its lock file.
        pid: String,
    },
    /// The folder holds something else.
    #[error(
        "The folder {} is not empty and is no data folder of Bugle's: name a new or an empty folder.",
        .dir.display()
    )]
    NotOurs {
        /// The folder.
        dir: PathBuf,
    },
    /// The server's user cannot enter or write the folder.
    #[error(
        "PostgreSQL runs as user {user} here, who cannot reach {}: open its parent folders to that \
         user (chmod o+x), or name another data folder.",
        .dir.display()
    )]
    Unreachable {
        /// The data folder.
        dir: PathBuf,
        /// The user that the server runs as.
        user: String,
    },
    /// The data is there but its password is not.
    #[error(
        "The data in {} has lost its password file {}: put it back, or move the folder away to begin anew.",
        .dir.display(), .file.display()
    )]
    NoPassword {
        /// The data folder.
        dir: PathBuf,
        /// The file that should be there.
        file: PathBuf,
    },
    /// A setting's name is not one.
    #[error("`{name}` is not the name of a PostgreSQL setting: use letters, digits, `_` and `.`.")]
    BadSetting {
        /// The name as given.
        name: String,
    },
    /// `initdb` or the first statements failed.
    #[error("The database cluster in {} could not be created: {output}", .dir.display())]
    Create {
        /// The data folder.
        dir: PathBuf,
        /// What the program said.
        output: String,
    },
    /// The server ended, or did not get ready in time.
    #[error("PostgreSQL did not start in {} ({reason}); the end of {}:\n{tail}", .dir.display(), .log.display())]
    Start {
        /// The data folder.
        dir: PathBuf,
        /// The server's log.
        log: PathBuf,
        /// In a few words.
        reason: String,
        /// The last lines of the log that belong to this start.
        tail: String,
    },
    /// No port could be had.
    #[error("The loopback port {port} is taken by another program: free it, or let Bugle choose one.")]
    PortTaken {
        /// The port tried last.
        port: u16,
    },
    /// A server process would not end.
    #[error("The PostgreSQL process {pid} in {} does not end, not even by SIGKILL: look at it with ps.", .dir.display())]
    WillNotEnd {
        /// The data folder.
        dir: PathBuf,
        /// The process.
        pid: i32,
    },
    /// The file system or the operating system refused.
    #[error("Cannot {act} {}: {source}.", .path.display())]
    Io {
        /// What was tried, as a verb.
        act: &'static str,
        /// On what.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Names the act and the path of an I/O error.
pub(super) trait At<T> {
    fn at(self, act: &'static str, path: &Path) -> Result<T, Error>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, act: &'static str, path: &Path) -> Result<T, Error> {
        self.map_err(|source| Error::Io { act, path: path.to_owned(), source })
    }
}
