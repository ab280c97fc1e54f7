//! Looking at runs: which there are, what became of their steps and why, what each waits for, and how they stood at an earlier time.

mod dead;
mod definitions;
pub(in crate::flow) mod detail;
mod events;
mod mark;
pub(in crate::flow) mod replay;
mod runs;
mod settings;
mod why;

pub use dead::{DeadDetail, DeadRun, FailedAttempt, FailedStep};
pub use definitions::{DefinitionDetail, DefinitionRow};
pub use detail::{ELEMENTS_SHOWN_MAX, ElementCount, RunDetail, StepDetail};
pub use events::EventRow;
pub use mark::Mark;
pub use runs::{COUNT_MAX, RunFilter, RunRow, StateCount};
pub use settings::{SettingRow, SettingValues};
pub use why::{MissingParent, Reason, RunWhy, StepWhy};

use super::Flow;
use crate::Error;
use crate::pg::begin_with;
use sqlx::PgTransaction;

impl Flow {
    /// A transaction in which everything is read as it was at one moment.
    pub(in crate::flow) async fn one_moment(&self) -> Result<PgTransaction<'static>, Error> {
        begin_with(self.bugle.pool(), "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            .await
            .map_err(Error::connecting)
    }
}
