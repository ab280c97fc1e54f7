//! Bringing a schema up to date, or only looking whether it is.

use super::{Error, File, Policy, Set, Status, ledger};
use crate::name::SchemaName;
use crate::pg::connect::use_read_committed;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, PgPool};
use std::time::Duration;
use tokio::time::Instant;

/// How long to wait for another migrator.
const LOCK_WAIT: Duration = Duration::from_mins(2);
/// How often to ask whether the other migrator is done.
const LOCK_RETRY: Duration = Duration::from_millis(50);

impl Set {
    /// Brings the schema up to date, or only checks that it is, as `policy` says. Returns how many files were applied.
    pub async fn ensure(&self, pool: &PgPool, schema: &SchemaName, policy: Policy) -> Result<usize, Error> {
        match policy {
            Policy::Apply => self.up(pool, schema).await,
            Policy::Verify => self.verify(pool, schema).await.map(|()| 0),
        }
    }

    /// Applies what is missing and returns how many files that was.
    pub async fn up(&self, pool: &PgPool, schema: &SchemaName) -> Result<usize, Error> {
        if self.missing(&mut *pool.acquire().await?, schema).await? == 0 {
            return Ok(0);
        }
        // Outside the pool: an error drops the session, and with it the lock. Its statements are not logged: where they take more than a second, which is no
        // wonder, all files would be printed as a warning.
        let quiet = pool.connect_options().as_ref().clone().disable_statement_logging();
        let mut session = PgConnection::connect_with(&quiet).await?;
        use_read_committed(&mut session).await?;
        lock(&mut session, schema).await?;
        let is_new = !ledger::exists(&mut session, schema).await?;
        if is_new {
            ledger::create(&mut session, schema).await?;
            self.install(&mut session, schema).await;
        }
        let applied = ledger::read(&mut session, schema, self).await?;
        ledger::check(&applied, schema, self, false)?;
        let mut count = if is_new { applied.len() } else { 0 };
        for file in self.files.iter().filter(|f| !applied.iter().any(|row| row.version == f.version)) {
            self.apply(&mut session, schema, file).await.map_err(|source| Error::Failed {
                version: file.version,
                name: file.name,
                source,
                next: self.next,
            })?;
            tracing::info!(schema = %schema, set = self.name, version = file.version, name = file.name, "migration applied");
            count += 1;
        }
        unlock(&mut session, schema).await?;
        session.close().await?;
        Ok(count)
    }

    /// A schema without a ledger gets everything in one round trip and one transaction: a test run makes hundreds of them. Whatever goes wrong
    /// leaves nothing behind; file by file it is then told which one cannot be applied.
    async fn install(&self, session: &mut PgConnection, schema: &SchemaName) {
        if self.files.iter().any(File::is_outside_a_transaction) {
            return;
        }
        let all = self.files.iter().map(|file| self.with_ledger_row(schema, file)).collect::<String>();
        match sqlx::raw_sql(AssertSqlSafe(all)).execute(session).await {
            Ok(_) => tracing::info!(schema = %schema, set = self.name, "migrations applied"),
            Err(error) => tracing::debug!(%error, set = self.name, "not in one piece, file by file then"),
        }
    }

    /// Refuses when anything is missing or changed. A newer schema is accepted, with a warning: the nodes of the version before go on
    /// working while an upgrade rolls out.
    pub async fn verify(&self, pool: &PgPool, schema: &SchemaName) -> Result<(), Error> {
        let mut session = pool.acquire().await?;
        match self.missing(&mut session, schema).await? {
            0 => Ok(()),
            missing => Err(Error::Behind { schema: schema.clone(), missing, next: self.next }),
        }
    }

    /// Every file with the time at which it was applied.
    pub async fn status(&self, pool: &PgPool, schema: &SchemaName) -> Result<Vec<Status>, Error> {
        let mut session = pool.acquire().await?;
        let applied = if ledger::exists(&mut session, schema).await? {
            ledger::read(&mut session, schema, self).await?
        } else {
            Vec::new()
        };
        let known = self.files.iter().map(|file| {
            let row = applied.iter().find(|row| row.version == file.version);
            Status { version: file.version, name: file.name.to_owned(), applied_at: row.map(|r| r.at) }
        });
        let foreign = applied
            .iter()
            .filter(|row| !self.files.iter().any(|f| f.version == row.version))
            .map(|row| Status { version: row.version, name: row.name.clone(), applied_at: Some(row.at) });
        Ok(known.chain(foreign).collect())
    }

    /// How many files of the set the schema lacks.
    async fn missing(&self, session: &mut PgConnection, schema: &SchemaName) -> Result<usize, Error> {
        if !ledger::exists(session, schema).await? {
            return Ok(self.files.len());
        }
        let applied = ledger::read(session, schema, self).await?;
        ledger::check(&applied, schema, self, true)?;
        Ok(self.files.iter().filter(|f| !applied.iter().any(|row| row.version == f.version)).count())
    }

    async fn apply(
        &self,
        session: &mut PgConnection,
        schema: &SchemaName,
        file: &File,
    ) -> Result<(), sqlx::Error> {
        let sql = schema.place_in(file.sql);
        if file.is_outside_a_transaction() {
            for statement in statements(&sql) {
                sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut *session).await?;
            }
            return ledger::add(session, schema, self, file).await;
        }
        let mut tx = session.begin().await?;
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *tx).await?;
        ledger::add(&mut tx, schema, self, file).await?;
        tx.commit().await
    }
}

/// The statements of a file that runs outside a transaction: each ends with `;` at the end of a line. Such files hold no function bodies.
fn statements(sql: &str) -> Vec<String> {
    sql.split_inclusive(";\n").map(str::trim).filter(|s| s.ends_with(';')).map(str::to_owned).collect()
}

async fn lock(session: &mut PgConnection, schema: &SchemaName) -> Result<(), Error> {
    let sql = schema.place_in(include_str!("sql/lock.sql"));
    let begun = Instant::now();
    loop {
        if sqlx::query_scalar(AssertSqlSafe(sql.as_str())).fetch_one(&mut *session).await? {
            return Ok(());
        }
        if begun.elapsed() > LOCK_WAIT {
            return Err(Error::Locked { schema: schema.clone(), seconds: LOCK_WAIT.as_secs() });
        }
        tokio::time::sleep(LOCK_RETRY).await;
    }
}

async fn unlock(session: &mut PgConnection, schema: &SchemaName) -> Result<(), Error> {
    let sql = schema.place_in(include_str!("sql/unlock.sql"));
    sqlx::query(AssertSqlSafe(sql)).execute(session).await?;
    Ok(())
}
