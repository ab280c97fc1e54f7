//! Counting the statements of other databases from a database of its own, so that the meter does not count itself.

use super::ground::Ground;
use crate::failure::Failure;
use crate::place::Place;

/// What is printed where statements cannot be counted.
pub(super) const NO_METER: &str = "Statements and looks are left out: pg_stat_statements is not loaded or may not be made here \
     (with --ephemeral it is there where the server's installation has it).";

/// Reads `pg_stat_statements`.
pub(super) struct Meter {
    ground: Ground,
}

/// Statements of one database so far, those inside functions not counted.
#[derive(Debug, Clone, Copy, Default, sqlx::FromRow)]
pub(super) struct Reading {
    pub(super) statements: i64,
    pub(super) looks: i64,
}

impl Reading {
    /// What has been run since an earlier reading.
    pub(super) fn since(self, earlier: Self) -> (usize, usize) {
        let count = |now: i64, then: i64| usize::try_from(now - then).unwrap_or(0);
        (count(self.statements, earlier.statements), count(self.looks, earlier.looks))
    }
}

impl Meter {
    /// None where the extension is not loaded or may not be made.
    pub(super) async fn make(place: &Place, name: &str) -> Result<Option<Self>, Failure> {
        let meter = Self { ground: Ground::make(place, &format!("{name}_meter")).await? };
        let made = sqlx::raw_sql(include_str!("sql/meter_create.sql")).execute(meter.ground.pool()).await;
        match made {
            Ok(_) => Ok(Some(meter)),
            Err(sqlx::Error::Database(reason)) => {
                tracing::info!(%reason, "statements cannot be counted");
                meter.drop().await?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn read(&self, database: &str) -> Result<Reading, Failure> {
        let read = sqlx::query_as(include_str!("sql/meter_read.sql")).bind(database);
        Ok(read.fetch_one(self.ground.pool()).await?)
    }

    pub(super) async fn drop(self) -> Result<(), Failure> {
        self.ground.drop().await
    }
}

/// Runs a benchmark with a meter where there can be one, and drops it whatever came of it.
pub(super) async fn with_meter<T>(
    place: &Place,
    name: &str,
    work: impl AsyncFnOnce(Option<&Meter>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let meter = Meter::make(place, name).await?;
    let result = work(meter.as_ref()).await;
    let dropped = match meter {
        Some(meter) => meter.drop().await,
        None => Ok(()),
    };
    let value = result?;
    dropped.map(|()| value)
}
