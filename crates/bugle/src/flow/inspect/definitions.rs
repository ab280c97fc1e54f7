//! The definitions of a namespace.

use super::COUNT_MAX;
use crate::Error;
use crate::flow::{Definition, Flow};
use chrono::{DateTime, Utc};
use serde::Serialize;

/// One version of a definition, as a list shows it.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
#[non_exhaustive]
pub struct DefinitionRow {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: i32,
    /// How many steps it has.
    pub steps: i32,
    /// How a start is recognised as a repetition: strict, key or `always_new`.
    pub identity: String,
    /// How long a run may take.
    pub deadline_ms: Option<i64>,
    /// What it is for.
    pub description: Option<String>,
    /// Since when it is there.
    pub defined_at: DateTime<Utc>,
    /// Runs of it that have not ended: at most [`COUNT_MAX`], which means as many or more.
    pub open: i64,
    /// Runs of it that failed, counted in the same way.
    pub failed: i64,
}

/// A definition as it was stored.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DefinitionDetail {
    /// Its version.
    pub version: i32,
    /// Since when it is there.
    pub defined_at: DateTime<Utc>,
    /// What it says; [`Definition::draw`] draws it.
    pub definition: Definition,
}

impl Flow {
    /// The definitions of the namespace, or the versions of one, by name and the newest version first.
    pub async fn list_definitions(&self, name: Option<&str>) -> Result<Vec<DefinitionRow>, Error> {
        sqlx::query_as(self.statements().list_definitions())
            .bind(self.bugle.namespace().as_str())
            .bind(name)
            .bind(COUNT_MAX)
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }

    /// One definition, in its newest version or in this one; `None`: the namespace has none.
    pub async fn show_definition(
        &self,
        name: &str,
        version: Option<i32>,
    ) -> Result<Option<DefinitionDetail>, Error> {
        let found: Option<(String, i32, serde_json::Value, DateTime<Utc>)> =
            sqlx::query_as(self.statements().show_definition())
                .bind(self.bugle.namespace().as_str())
                .bind(name)
                .bind(version)
                .fetch_optional(self.bugle.pool())
                .await
                .map_err(Error::executing)?;
        let Some((name, version, mut spec, defined_at)) = found else { return Ok(None) };
        // Who wrote it may have left the version to the database; whoever looks at it wants to know.
        if let Some(fields) = spec.as_object_mut() {
            fields.insert("version".to_owned(), version.into());
        }
        let definition = Definition::parse_json(&spec.to_string()).map_err(|error| {
            Error::Bug(format!("definition {name:?} version {version} cannot be read again: {error}"))
        })?;
        Ok(Some(DefinitionDetail { version, defined_at, definition }))
    }
}
