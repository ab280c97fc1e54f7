//! What has been applied, as the schema itself remembers it.

use super::{Error, File, Set};
use crate::name::SchemaName;
use chrono::{DateTime, Utc};
use sqlx::{AssertSqlSafe, PgConnection};

pub(super) const CREATE: &str = include_str!("sql/ledger_create.sql");

#[derive(sqlx::FromRow)]
pub(super) struct Applied {
    pub(super) version: i32,
    pub(super) name: String,
    pub(super) checksum: String,
    #[sqlx(rename = "applied_at")]
    pub(super) at: DateTime<Utc>,
}

pub(super) async fn exists(on: &mut PgConnection, schema: &SchemaName) -> Result<bool, sqlx::Error> {
    let sql = schema.place_in(include_str!("sql/ledger_exists.sql"));
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(on).await
}

/// Makes schema and ledger. Not called when they are there: the role of a node may lack the right. The schema may have been prepared for
/// a role that cannot make one, and IF NOT EXISTS would ask for that right first.
pub(super) async fn create(on: &mut PgConnection, schema: &SchemaName) -> Result<(), sqlx::Error> {
    let exists = sqlx::query_scalar(include_str!("sql/schema_exists.sql")).bind(schema.as_str());
    if !exists.fetch_one(&mut *on).await? {
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE SCHEMA {schema}"))).execute(&mut *on).await?;
    }
    sqlx::raw_sql(AssertSqlSafe(schema.place_in(CREATE))).execute(on).await.map(drop)
}

pub(super) async fn read(
    on: &mut PgConnection,
    schema: &SchemaName,
    set: &Set,
) -> Result<Vec<Applied>, sqlx::Error> {
    let sql = schema.place_in(include_str!("sql/ledger_read.sql"));
    sqlx::query_as(AssertSqlSafe(sql)).bind(set.name).fetch_all(on).await
}

pub(super) async fn add(
    on: &mut PgConnection,
    schema: &SchemaName,
    set: &Set,
    file: &File,
) -> Result<(), sqlx::Error> {
    let sql = schema.place_in(include_str!("sql/ledger_add.sql"));
    let insert = sqlx::query(AssertSqlSafe(sql));
    insert.bind(set.name).bind(file.version).bind(file.name).bind(file.checksum()).execute(on).await.map(drop)
}

/// Refuses files that were changed since they were applied, and files that this version does not know. With `newer_is_fine`,
/// files beyond the last known one are let pass: a node of the version before works on the newer schema.
pub(super) fn check(
    applied: &[Applied],
    schema: &SchemaName,
    set: &Set,
    newer_is_fine: bool,
) -> Result<(), Error> {
    let last_known = set.files.last().map_or(0, |f| f.version);
    for row in applied {
        match set.files.iter().find(|f| f.version == row.version) {
            Some(file) if file.checksum() == row.checksum => {}
            Some(_) => {
                return Err(Error::Changed {
                    schema: schema.clone(),
                    version: row.version,
                    name: row.name.clone(),
                });
            }
            None if newer_is_fine && row.version > last_known => {
                tracing::warn!(schema = %schema, version = row.version, "schema is newer than this version of Bugle");
            }
            None => {
                return Err(Error::Foreign {
                    schema: schema.clone(),
                    version: row.version,
                    name: row.name.clone(),
                });
            }
        }
    }
    Ok(())
}
