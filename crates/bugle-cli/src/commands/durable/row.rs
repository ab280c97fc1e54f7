//! An instance as it is printed.

use crate::output::{Align, Output, Table};
use bugle_duroxide::Found;
use chrono::{DateTime, Utc};
use serde::Serialize;

/// Statuses as they are typed.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum Status {
    Running,
    Completed,
    Failed,
    #[value(name = "continued-as-new")]
    ContinuedAsNew,
}

impl Status {
    /// As duroxide writes them.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Completed => "Completed",
            Self::Failed => "Failed",
            Self::ContinuedAsNew => "ContinuedAsNew",
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) orchestration: String,
    pub(super) version: Option<String>,
    pub(super) status: String,
    pub(super) custom_status: Option<String>,
    pub(super) execution: u64,
    pub(super) parent: Option<String>,
    pub(super) created_at: DateTime<Utc>,
    pub(super) updated_at: DateTime<Utc>,
    pub(super) ended_at: Option<DateTime<Utc>>,
}

impl From<Found> for Row {
    fn from(found: Found) -> Self {
        Self {
            id: found.id,
            orchestration: found.orchestration,
            version: found.version,
            status: found.status,
            custom_status: found.custom_status,
            execution: found.execution,
            parent: found.parent,
            created_at: moment(found.created_ms),
            updated_at: moment(found.updated_ms),
            ended_at: found.ended_ms.map(moment),
        }
    }
}

/// duroxide counts milliseconds.
pub(super) fn moment(ms: u64) -> DateTime<Utc> {
    i64::try_from(ms).ok().and_then(DateTime::from_timestamp_millis).unwrap_or_default()
}

pub(super) fn table(rows: &[Row], output: Output) -> Table {
    let mut table = Table::new(&[
        ("id", Align::Left),
        ("orchestration", Align::Left),
        ("status", Align::Left),
        ("started", Align::Left),
        ("last turn", Align::Left),
        ("ended", Align::Left),
        ("execution", Align::Right),
        ("says", Align::Left),
    ]);
    for row in rows {
        table.row([
            row.id.clone(),
            row.orchestration.clone(),
            row.status.clone(),
            output.moment(row.created_at),
            output.moment(row.updated_at),
            output.moment_or_dash(row.ended_at),
            row.execution.to_string(),
            row.custom_status.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table
}
