//! Reading runs from a file into the database.

use super::format::{DefinitionLine, End, Line, RunEnd, RunHead, ValueLine};
use super::lines::Lines;
use super::rebuild::{Rebuild, Shape};
use super::write::Rows;
use super::{Cause, ImportError};
use crate::Error;
use crate::flow::inspect::EventRow;
use crate::flow::{Flow, RunId};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::PgTransaction;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::io::AsyncBufRead;

const CHANGED: &str = "the file was changed, or is not whole: export it again";

/// How to import.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct ImportOptions {
    /// Leave out runs that are there already, instead of refusing them.
    pub skip_existing: bool,
}

impl ImportOptions {
    /// Leaves out runs that are there already.
    #[must_use]
    pub fn skip_existing(mut self, skip: bool) -> Self {
        self.skip_existing = skip;
        self
    }
}

/// What was imported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Imported {
    /// Runs.
    pub runs: u64,
    /// Runs that were there already, and were left as they are.
    pub skipped: u64,
    /// Definitions that were not there.
    pub definitions: u64,
    /// Signals that nobody has taken.
    pub signals: u64,
    /// Steps that somebody ran when they were exported, and that are ready for others now.
    pub released: u64,
}

impl Flow {
    /// Imports into this namespace what [`Flow::export`] wrote. Each run in a transaction of its own, whole or not at all; one that has not ended goes on here.
    ///
    /// It keeps no more in memory than the steps of one run.
    pub async fn import(
        &self,
        from: &mut (impl AsyncBufRead + Unpin),
        options: ImportOptions,
    ) -> Result<Imported, ImportError> {
        let lines = Lines::new(from);
        let mut import = Import {
            flow: self,
            lines,
            options,
            given: 0,
            shapes: HashMap::new(),
            imported: Imported::default(),
        };
        match import.all().await {
            Ok(()) => Ok(import.imported),
            Err(cause) => Err(ImportError { line: import.lines.number, imported: import.imported, cause }),
        }
    }
}

struct Import<'a, R> {
    flow: &'a Flow,
    lines: Lines<'a, R>,
    options: ImportOptions,
    /// The last number that was given to a run or a job here before.
    given: i64,
    shapes: HashMap<(String, i32), Arc<Shape>>,
    imported: Imported,
}

impl<R: AsyncBufRead + Unpin> Import<'_, R> {
    async fn all(&mut self) -> Result<(), Cause> {
        let header = self.lines.header().await?;
        self.given = sqlx::query_scalar(self.flow.statements().reserve_numbers())
            .bind(header.last_number)
            .fetch_one(self.flow.bugle.pool())
            .await
            .map_err(Error::executing)?;
        let mut read = End::default();
        loop {
            match self.lines.next().await? {
                Line::Definition(definition) => self.definition(&definition).await?,
                Line::Run(head) => {
                    self.run(&head).await?;
                    read.runs += 1;
                }
                Line::Signal(signal) => {
                    self.signal(&signal).await?;
                    read.signals += 1;
                }
                Line::End(end) if end == read => return self.lines.is_over().await,
                Line::End(end) => {
                    return Err(Cause::line(
                        format!(
                            "the file says that it has {} runs and {} signals, and it has {} and {}",
                            end.runs, end.signals, read.runs, read.signals
                        ),
                        CHANGED,
                    ));
                }
                other => return Err(misplaced(&other)),
            }
        }
    }

    async fn definition(&mut self, line: &DefinitionLine) -> Result<(), Cause> {
        let is_new: bool = sqlx::query_scalar(self.flow.statements().import_definition())
            .bind(self.flow.bugle.namespace().as_str())
            .bind(&line.name)
            .bind(line.version)
            .bind(line.spec.get())
            .bind(&line.hash)
            .bind(line.defined_at)
            .fetch_one(self.flow.bugle.pool())
            .await
            .map_err(Error::executing)?;
        self.imported.definitions += u64::from(is_new);
        Ok(())
    }

    async fn signal(&mut self, signal: &RawValue) -> Result<(), Cause> {
        let is_new: bool = sqlx::query_scalar(self.flow.statements().import_signal())
            .bind(self.flow.bugle.namespace().as_str())
            .bind(signal.get())
            .fetch_one(self.flow.bugle.pool())
            .await
            .map_err(Error::executing)?;
        self.imported.signals += u64::from(is_new);
        Ok(())
    }

    async fn run(&mut self, line: &RawValue) -> Result<(), Cause> {
        let head: RunHead = parsed(line)?;
        let mut tx = self.flow.bugle.begin().await.map_err(Error::connecting)?;
        let is_new: bool = sqlx::query_scalar(self.flow.statements().import_run())
            .bind(self.flow.bugle.namespace().as_str())
            .bind(line.get())
            .bind(self.given)
            .fetch_one(&mut *tx)
            .await
            .map_err(Error::executing)?;
        if !is_new {
            return if self.options.skip_existing { self.skip().await } else { Err(Cause::Exists(head.id)) };
        }
        let shape = self.shape(&head, &mut tx).await?;
        let mut rebuild = Rebuild::new(&head, &shape);
        self.read_run(head.id, &mut rebuild, &mut tx).await?;
        self.end_run(head.id, &rebuild, &mut tx).await?;
        tx.commit().await.map_err(Error::executing)?;
        self.imported.runs += 1;
        Ok(())
    }

    /// Reads on to the end of a run that is there already.
    async fn skip(&mut self) -> Result<(), Cause> {
        loop {
            match self.lines.next().await? {
                Line::Value(_) | Line::Event(_) | Line::Note(_) => {}
                Line::RunEnd(_) => break,
                other => return Err(misplaced(&other)),
            }
        }
        self.imported.skipped += 1;
        Ok(())
    }

    /// Values, then the log, then what it does not say: each is written as it comes, the steps when the log is over.
    async fn read_run(
        &mut self,
        run: RunId,
        rebuild: &mut Rebuild<'_>,
        tx: &mut PgTransaction<'static>,
    ) -> Result<(), Cause> {
        let statements = self.flow.statements();
        let mut values = Rows::new(statements.import_values(), run);
        let mut events = Rows::new(statements.import_events(), run);
        let mut notes = Rows::new(statements.import_notes(), run);
        let mut has_steps = false;
        loop {
            match self.lines.next().await? {
                Line::Value(value) if events.total == 0 => {
                    let line: ValueLine<'_> = parsed(&value)?;
                    if line.idx == 0 && rebuild.is_decision(line.no) {
                        rebuild.decided(line.no, line.epoch, line.value);
                    }
                    values.push(value.get(), tx).await?;
                }
                Line::Event(event) if !has_steps => {
                    let line: EventRow = parsed(&event)?;
                    if events.total == 0 && line.cause != "start" {
                        return Err(Cause::line(
                            format!("the log of run {run} does not reach back to its start"),
                            CHANGED,
                        ));
                    }
                    rebuild.apply(&line);
                    events.push(event.get(), tx).await?;
                }
                Line::Note(note) => {
                    if !has_steps {
                        self.write_steps(run, rebuild, tx).await?;
                        has_steps = true;
                    }
                    notes.push(note.get(), tx).await?;
                }
                Line::RunEnd(end) => {
                    let read = RunEnd { values: values.total, events: events.total, notes: notes.total };
                    if end != read || events.total == 0 {
                        return Err(Cause::line(
                            format!(
                                "run {run} has {} values, {} events and {} notes; its end says {}, {} and {}",
                                read.values, read.events, read.notes, end.values, end.events, end.notes
                            ),
                            CHANGED,
                        ));
                    }
                    if !has_steps {
                        self.write_steps(run, rebuild, tx).await?;
                    }
                    for mut rows in [values, events, notes] {
                        rows.flush(tx).await?;
                    }
                    return Ok(());
                }
                other => return Err(misplaced(&other)),
            }
        }
    }

    async fn write_steps(
        &mut self,
        run: RunId,
        rebuild: &mut Rebuild<'_>,
        tx: &mut PgTransaction<'static>,
    ) -> Result<(), Cause> {
        let statements = self.flow.statements();
        let now: DateTime<Utc> = sqlx::query_scalar("SELECT clock_timestamp()")
            .fetch_one(&mut **tx)
            .await
            .map_err(Error::executing)?;
        let mut events = Rows::new(statements.import_events(), run);
        for event in rebuild.release(now) {
            events.push(&text(&event)?, tx).await?;
        }
        events.flush(tx).await?;
        self.imported.released += events.total;
        let mut steps = Rows::new(statements.import_steps(), run);
        for step in rebuild.steps() {
            steps.push(&text(&step)?, tx).await?;
        }
        steps.flush(tx).await?;
        Ok(())
    }

    async fn end_run(
        &self,
        run: RunId,
        rebuild: &Rebuild<'_>,
        tx: &mut PgTransaction<'static>,
    ) -> Result<(), Cause> {
        let (handed, given_back) = (&rebuild.handed, &rebuild.given_back);
        sqlx::query(self.flow.statements().import_end())
            .bind(run)
            .bind(rebuild.run().state.as_str())
            .bind(rebuild.steps_left)
            .bind(rebuild.failed)
            .bind(rebuild.run().paused)
            .bind(rebuild.run().started_at)
            .bind(rebuild.run().ended_at)
            .bind(rebuild.restarted_at)
            .bind(handed.keys().copied().collect::<Vec<_>>())
            .bind(handed.values().map(|(epoch, _)| *epoch).collect::<Vec<_>>())
            .bind(handed.values().map(|(_, at)| *at).collect::<Vec<_>>())
            .bind(given_back.keys().map(|(no, _)| *no).collect::<Vec<_>>())
            .bind(given_back.keys().map(|(_, idx)| *idx).collect::<Vec<_>>())
            .bind(given_back.values().copied().collect::<Vec<_>>())
            .execute(&mut **tx)
            .await
            .map_err(Error::executing)?;
        Ok(())
    }

    /// What must be known of the definition of a run, which is in the database by now.
    async fn shape(&mut self, head: &RunHead, tx: &mut PgTransaction<'static>) -> Result<Arc<Shape>, Cause> {
        let key = (head.definition.clone(), head.version);
        if let Some(shape) = self.shapes.get(&key) {
            return Ok(shape.clone());
        }
        let statements = self.flow.statements();
        let defined = sqlx::query_as(statements.defined_steps()).bind(head.id).fetch_all(&mut **tx);
        let defined = defined.await.map_err(Error::executing)?;
        let steps = sqlx::query_as(statements.rebuilt_steps()).bind(head.id).fetch_all(&mut **tx);
        let steps = steps.await.map_err(Error::executing)?;
        let edges = sqlx::query_as(statements.rebuilt_edges()).bind(head.id).fetch_all(&mut **tx);
        let edges = edges.await.map_err(Error::executing)?;
        let shape = Arc::new(Shape { defined, steps, edges });
        self.shapes.insert(key, shape.clone());
        Ok(shape)
    }
}

fn misplaced(line: &Line) -> Cause {
    Cause::line(format!("it is {}, which does not come here", line.called()), CHANGED)
}

fn parsed<'a, T: serde::Deserialize<'a>>(line: &'a RawValue) -> Result<T, Cause> {
    serde_json::from_str(line.get())
        .map_err(|error| Cause::line(format!("it is no line of an export: {error}"), CHANGED))
}

fn text(row: &impl Serialize) -> Result<String, Cause> {
    serde_json::to_string(row)
        .map_err(|error| Cause::Database(Error::Bug(format!("a row is no JSON: {error}"))))
}
