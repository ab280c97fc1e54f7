//! Writing runs into a file.

use super::ExportError;
use super::format::{End, FORMAT, Header, RunEnd, WHAT};
use crate::Error;
use crate::flow::{Flow, RunId};
use chrono::{DateTime, Utc};
use futures_util::TryStreamExt as _;
use serde::Serialize;
use sqlx::{PgTransaction, SqlStr};
use std::collections::HashSet;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

/// Numbers of runs that are read at once.
const PAGE: i64 = 1_000;

/// Which runs of a namespace.
#[derive(Debug, Clone, Copy)]
pub enum Which<'a> {
    /// These.
    Runs(&'a [RunId]),
    /// All, and the signals that nobody has taken.
    All,
}

/// What an export has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Exported {
    /// How many runs.
    pub runs: u64,
    /// How many signals that nobody has taken.
    pub signals: u64,
}

impl Flow {
    /// Writes runs of this namespace, all as they are at one moment, with all that is needed to go on with them elsewhere (`docs/flow.md`). They stay where
    /// they are.
    ///
    /// Reads in one transaction, as a dump does, and keeps no more than a line in memory.
    pub async fn export(
        &self,
        which: Which<'_>,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Result<Exported, ExportError> {
        let tx = self.one_moment().await?;
        let mut export = Export { flow: self, tx, to, definitions: HashSet::new(), runs: 0 };
        export.header().await?;
        let mut signals = 0;
        match which {
            Which::Runs(runs) => {
                for run in runs {
                    export.run(*run).await?;
                }
            }
            Which::All => {
                export.all().await?;
                signals = export.signals().await?;
            }
        }
        let exported = Exported { runs: export.runs, signals };
        export.line("end", &End { runs: exported.runs, signals }).await?;
        to.flush().await?;
        Ok(exported)
    }
}

struct Export<'a, W> {
    flow: &'a Flow,
    tx: PgTransaction<'static>,
    to: &'a mut W,
    /// That are written already.
    definitions: HashSet<i32>,
    runs: u64,
}

impl<W: AsyncWrite + Unpin> Export<'_, W> {
    async fn header(&mut self) -> Result<(), ExportError> {
        let (exported_at, last_number) = sqlx::query_as(self.flow.statements().export_header())
            .fetch_one(&mut *self.tx)
            .await
            .map_err(Error::executing)?;
        let namespace = self.flow.bugle.namespace().as_str().to_owned();
        let header = Header { what: WHAT.to_owned(), format: FORMAT, namespace, exported_at, last_number };
        self.line("header", &header).await
    }

    async fn all(&mut self) -> Result<(), ExportError> {
        let mut behind = (None::<DateTime<Utc>>, RunId(0));
        loop {
            let page: Vec<(RunId, DateTime<Utc>)> = sqlx::query_as(self.flow.statements().export_runs())
                .bind(self.flow.bugle.namespace().as_str())
                .bind(behind.0)
                .bind(behind.1)
                .bind(PAGE)
                .fetch_all(&mut *self.tx)
                .await
                .map_err(Error::executing)?;
            let Some((run, created_at)) = page.last() else { return Ok(()) };
            behind = (Some(*created_at), *run);
            for (run, _) in page {
                self.run(run).await?;
            }
        }
    }

    async fn run(&mut self, run: RunId) -> Result<(), ExportError> {
        let statements = self.flow.statements();
        let namespace = self.flow.bugle.namespace().as_str();
        let found: Option<(i32, String)> = sqlx::query_as(statements.export_run())
            .bind(run)
            .bind(namespace)
            .fetch_optional(&mut *self.tx)
            .await
            .map_err(Error::executing)?;
        let (definition, head) =
            found.ok_or_else(|| ExportError::NoRun { run, namespace: namespace.to_owned() })?;
        if self.definitions.insert(definition) {
            let text: String = sqlx::query_scalar(statements.export_definition())
                .bind(definition)
                .fetch_one(&mut *self.tx)
                .await
                .map_err(Error::executing)?;
            self.write("definition", &text).await?;
        }
        self.write("run", &head).await?;
        let values = self.rows("value", statements.export_values(), run).await?;
        let events = self.rows("event", statements.export_events(), run).await?;
        let notes = self.rows("note", statements.export_notes(), run).await?;
        self.runs += 1;
        self.line("run_end", &RunEnd { values, events, notes }).await
    }

    async fn signals(&mut self) -> Result<u64, ExportError> {
        let namespace = self.flow.bugle.namespace().as_str();
        self.rows("signal", self.flow.statements().export_signals(), namespace).await
    }

    /// A line for each row of a statement. Returns how many.
    async fn rows<T>(&mut self, called: &str, sql: SqlStr, of: T) -> Result<u64, ExportError>
    where
        T: for<'q> sqlx::Encode<'q, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send,
    {
        let mut rows = sqlx::query_scalar(sql).bind(of).fetch(&mut *self.tx);
        let mut written = 0;
        while let Some(text) = rows.try_next().await.map_err(Error::executing)? {
            let text: String = text;
            write(self.to, called, &text).await?;
            written += 1;
        }
        Ok(written)
    }

    async fn line(&mut self, called: &str, line: &impl Serialize) -> Result<(), ExportError> {
        let text = serde_json::to_string(line).map_err(std::io::Error::from)?;
        self.write(called, &text).await
    }

    async fn write(&mut self, called: &str, json: &str) -> Result<(), ExportError> {
        write(self.to, called, json).await
    }
}

async fn write(to: &mut (impl AsyncWrite + Unpin), called: &str, json: &str) -> Result<(), ExportError> {
    to.write_all(format!("{{\"{called}\":{json}}}\n").as_bytes()).await?;
    Ok(())
}
