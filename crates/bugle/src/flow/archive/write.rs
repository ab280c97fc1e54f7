//! Rows of a run on their way into the database, many in a statement.

use crate::Error;
use crate::flow::RunId;
use sqlx::{PgTransaction, SqlStr};

/// A statement is sent when it has this many bytes or rows.
const BYTES_AT_ONCE: usize = 1024 * 1024;
const ROWS_AT_ONCE: usize = 1_000;

/// Rows of one table, as JSON.
pub(super) struct Rows {
    sql: SqlStr,
    run: RunId,
    text: String,
    held: usize,
    /// How many there were in all.
    pub(super) total: u64,
}

impl Rows {
    /// For a statement that takes a run and a list.
    pub(super) fn new(sql: SqlStr, run: RunId) -> Self {
        Self { sql, run, text: String::new(), held: 0, total: 0 }
    }

    /// One more row.
    pub(super) async fn push(&mut self, row: &str, tx: &mut PgTransaction<'static>) -> Result<(), Error> {
        self.text.push(if self.held == 0 { '[' } else { ',' });
        self.text.push_str(row);
        self.held += 1;
        self.total += 1;
        if self.held == ROWS_AT_ONCE || self.text.len() >= BYTES_AT_ONCE {
            self.flush(tx).await?;
        }
        Ok(())
    }

    /// Sends what is held.
    pub(super) async fn flush(&mut self, tx: &mut PgTransaction<'static>) -> Result<(), Error> {
        if self.held > 0 {
            self.text.push(']');
            let statement = sqlx::query(self.sql.clone()).bind(self.run).bind(&self.text);
            statement.execute(&mut **tx).await.map_err(Error::executing)?;
            self.text.clear();
            self.held = 0;
        }
        Ok(())
    }
}
