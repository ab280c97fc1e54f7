//! A run in full.

use crate::Error;
use crate::flow::{Flow, Run, RunId, StepRow};
use serde::Serialize;

/// Of a map at most so many elements are shown one by one, those first that failed or have not ended; the others are counted.
pub const ELEMENTS_SHOWN_MAX: i32 = 20;

/// A run with its steps.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct RunDetail {
    /// The run.
    #[serde(flatten)]
    pub run: Run,
    /// Its steps, parents before children.
    pub steps: Vec<StepDetail>,
}

/// A step, and of a map its elements.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct StepDetail {
    /// The step.
    #[serde(flatten)]
    pub row: StepRow,
    /// No step comes after it: its output is one of the run's.
    pub is_last: bool,
    /// Of a map that has begun: how many of its elements are in which state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub element_counts: Vec<ElementCount>,
    /// Of a map: at most [`ELEMENTS_SHOWN_MAX`] of its elements.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub elements: Vec<StepRow>,
}

/// How many elements of a map are in a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ElementCount {
    /// The state.
    pub state: String,
    /// How many.
    pub elements: i64,
}

/// What the definition says of a step.
#[derive(sqlx::FromRow)]
pub(in crate::flow) struct Defined {
    pub(in crate::flow) no: i16,
    pub(in crate::flow) name: String,
    pub(in crate::flow) kind: String,
    pub(in crate::flow) attempts: i16,
    pub(in crate::flow) parents: Vec<i16>,
}

impl StepDetail {
    /// How many elements it has.
    #[must_use]
    pub fn elements_total(&self) -> i64 {
        self.element_counts.iter().map(|count| count.elements).sum()
    }
}

impl Flow {
    /// A run of this namespace with its steps, all as they were at one moment; `None`: there is none.
    pub async fn show_run(&self, run: RunId) -> Result<Option<RunDetail>, Error> {
        let namespace = self.bugle.namespace().as_str();
        let mut tx = self.one_moment().await?;
        let found = sqlx::query_as(self.statements().show_run()).bind(run).bind(namespace);
        let Some(found) = found.fetch_optional(&mut *tx).await.map_err(Error::executing)? else {
            return Ok(None);
        };
        let rows = sqlx::query_as(self.statements().show_steps())
            .bind(run)
            .bind(namespace)
            .bind(ELEMENTS_SHOWN_MAX)
            .fetch_all(&mut *tx)
            .await
            .map_err(Error::executing)?;
        let counts: Vec<(i16, String, i64)> = sqlx::query_as(self.statements().count_elements())
            .bind(run)
            .fetch_all(&mut *tx)
            .await
            .map_err(Error::executing)?;
        let defined: Vec<Defined> = sqlx::query_as(self.statements().defined_steps())
            .bind(run)
            .fetch_all(&mut *tx)
            .await
            .map_err(Error::executing)?;
        Ok(Some(RunDetail { run: found, steps: gather(rows, counts, &defined) }))
    }
}

/// Puts the elements of maps to their steps.
pub(super) fn gather(
    rows: Vec<StepRow>,
    counts: Vec<(i16, String, i64)>,
    defined: &[Defined],
) -> Vec<StepDetail> {
    let is_last = |no: i16| !defined.iter().any(|step| step.parents.contains(&no));
    let mut steps: Vec<StepDetail> = Vec::new();
    for row in rows {
        match steps.last_mut() {
            Some(step) if row.idx > 0 && step.row.no == row.no => step.elements.push(row),
            _ => {
                let is_last = is_last(row.no);
                steps.push(StepDetail { row, is_last, element_counts: Vec::new(), elements: Vec::new() });
            }
        }
    }
    for (no, state, elements) in counts {
        if let Some(step) = steps.iter_mut().find(|step| step.row.no == no) {
            step.element_counts.push(ElementCount { state, elements });
        }
    }
    steps
}
