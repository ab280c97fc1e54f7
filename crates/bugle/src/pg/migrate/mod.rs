//! Migrations: numbered SQL files, applied once each, in order, by whichever node comes first. Forward only: the way back is a backup.
//!
//! A ledger in the schema itself keeps each file's checksum; a file that was changed after it was applied, or that this version does not
//! know, is refused. Any number of nodes may start at once (an advisory lock lets one through), and a killed migrator can be run
//! again: every file is one transaction.
//!
//! A file whose first line is `-- outside a transaction` is run statement by statement instead. That is how an index arrives on a big
//! table without blocking anybody: `DROP INDEX CONCURRENTLY IF EXISTS`, then `CREATE INDEX CONCURRENTLY`, so that a rerun
//! first removes what a killed run left behind.

mod apply;
mod core_set;
mod ledger;

pub use core_set::CORE;

use crate::name::SchemaName;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// One numbered file of SQL, written for the schema `bugle`.
#[derive(Debug, Clone, Copy)]
pub struct File {
    /// Its number: 1 and up, without gaps.
    pub version: i32,
    /// What it is about, as in its file name.
    pub name: &'static str,
    /// Its text.
    pub sql: &'static str,
}

impl File {
    /// What the ledger keeps of the text: changed text is another file.
    #[must_use]
    pub fn checksum(&self) -> String {
        Sha256::digest(self.sql).iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }

    fn is_outside_a_transaction(&self) -> bool {
        self.sql.starts_with("-- outside a transaction")
    }
}

/// The files of one part of Bugle. A set installs alone, into any schema.
#[derive(Debug, Clone, Copy)]
pub struct Set {
    /// The name under which the ledger keeps it.
    pub name: &'static str,
    /// Its files, in order.
    pub files: &'static [File],
    /// What a person does who shall apply what is missing, as a command: the end of an error's sentence.
    pub next: &'static str,
}

/// What a node may do about a schema that is not up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Apply what is missing.
    #[default]
    Apply,
    /// Only look; refuse to start when something is missing. For nodes without the right to change the schema.
    Verify,
}

/// One line of `bugle migrate status`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Status {
    /// The file's number.
    pub version: i32,
    /// The file's name.
    pub name: String,
    /// When it was applied; `None` = not yet.
    pub applied_at: Option<chrono::DateTime<chrono::Utc>>,
}

/// Why the schema cannot be used or brought up to date.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An applied file has another text in this version.
    #[error(
        "migration {version} ({name}) of schema {schema} was applied with another text; run the version of Bugle that applied it, or, as long as nothing is released and what is in it is not needed, DROP SCHEMA {schema} CASCADE"
    )]
    Changed {
        /// The schema.
        schema: SchemaName,
        /// The file's number.
        version: i32,
        /// The file's name.
        name: String,
    },
    /// The ledger names a file that this version does not have.
    #[error(
        "schema {schema} has migration {version} ({name}), which this version of Bugle does not know; use a newer Bugle"
    )]
    Foreign {
        /// The schema.
        schema: SchemaName,
        /// The file's number.
        version: i32,
        /// The file's name.
        name: String,
    },
    /// Something is missing, and this node may only look.
    #[error("schema {schema} lacks {missing} of the migrations that this version needs; {next}")]
    Behind {
        /// The schema.
        schema: SchemaName,
        /// How many files are missing.
        missing: usize,
        /// What to do about it: [`Set::next`].
        next: &'static str,
    },
    /// Somebody else has been migrating for too long.
    #[error(
        "another process has been migrating schema {schema} for {seconds} s; wait for it or end it, then try again"
    )]
    Locked {
        /// The schema.
        schema: SchemaName,
        /// How long this call waited.
        seconds: u64,
    },
    /// A file failed; nothing of it was kept (unless it runs outside a transaction: then it can be run again).
    #[error("migration {version} ({name}) failed: {source}; mend the cause, then {next}")]
    Failed {
        /// The file's number.
        version: i32,
        /// The file's name.
        name: &'static str,
        /// What the database said.
        source: sqlx::Error,
        /// How to do it again: [`Set::next`].
        next: &'static str,
    },
    /// The database could not be asked.
    #[error("the schema's ledger cannot be read or written: {0}; check the connection and the role's rights")]
    Database(#[from] sqlx::Error),
}

impl Set {
    /// The whole set as one script for `psql`, ledger included, for people who apply SQL by hand. One transaction for each file.
    #[must_use]
    pub fn script(&self, schema: &SchemaName) -> String {
        let mut script =
            format!("CREATE SCHEMA IF NOT EXISTS {schema};\n{}\n", schema.place_in(ledger::CREATE));
        for file in self.files {
            let (begin, commit) =
                if file.is_outside_a_transaction() { ("", "") } else { ("BEGIN;\n", "COMMIT;\n") };
            let _ = write!(script, "\n{begin}{}{commit}", self.with_ledger_row(schema, file));
        }
        script
    }

    /// A file's text, and the row that says that it was applied.
    fn with_ledger_row(&self, schema: &SchemaName, file: &File) -> String {
        let (version, name) = (file.version, file.name);
        format!(
            "-- {version:04} {name}\n{}\nINSERT INTO {schema}.migration (set, version, name, checksum) VALUES ('{}', {version}, '{name}', '{}');\n",
            schema.place_in(file.sql),
            self.name,
            file.checksum()
        )
    }
}
