//! Faults that SQL can cause, on any server.

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use std::time::{Duration, Instant};

/// How long a session may take to see what it was told.
const SEEN_SECONDS_MAX: u64 = 10;

/// Which sessions to end.
#[derive(Debug, Clone, Copy)]
pub enum Backend<'a> {
    /// The one of this process.
    Pid(i32),
    /// All with this `application_name`.
    Application(&'a str),
}

/// Ends sessions as an administrator would, waits until they are gone, and says how many there were.
/// Never the caller's own.
pub async fn terminate_backend(options: &PgConnectOptions, which: Backend<'_>) -> anyhow::Result<usize> {
    let mut connection = PgConnection::connect_with(options).await?;
    let (pid, application) = match which {
        Backend::Pid(pid) => (Some(pid), None),
        Backend::Application(name) => (None, Some(name)),
    };
    // Two statements: in one, the planner may call pg_terminate_backend before it looks at the name,
    // and so end every session of the server.
    let found: Vec<i32> = sqlx::query_scalar(
        "SELECT pid FROM pg_stat_activity
         WHERE (pid = $1 OR application_name = $2)
           AND pid <> pg_backend_pid()",
    )
    .bind(pid)
    .bind(application)
    .fetch_all(&mut connection)
    .await?;
    let ended: Vec<bool> =
        sqlx::query_scalar("SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) AS pid")
            .bind(&found)
            .fetch_all(&mut connection)
            .await?;

    let begun = Instant::now();
    loop {
        let left: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_stat_activity WHERE pid = ANY ($1)")
            .bind(&found)
            .fetch_one(&mut connection)
            .await?;
        if left == 0 {
            break;
        }
        anyhow::ensure!(
            begun.elapsed() < Duration::from_secs(SEEN_SECONDS_MAX),
            "{left} sessions do not end"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    connection.close().await?;
    Ok(ended.iter().filter(|ended| **ended).count())
}

/// A session whose transaction holds back the horizon: no row that it could see is ever vacuumed.
#[derive(Debug)]
pub struct HeldSnapshot {
    connection: PgConnection,
    pid: i32,
}

/// Opens a REPEATABLE READ transaction that has taken its snapshot, and holds it until released or dropped.
pub async fn hold_snapshot(options: &PgConnectOptions) -> anyhow::Result<HeldSnapshot> {
    let mut connection = PgConnection::connect_with(options).await?;
    // The snapshot is taken by the first statement, not by BEGIN.
    sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ").execute(&mut connection).await?;
    let pid = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut connection).await?;
    Ok(HeldSnapshot { connection, pid })
}

impl HeldSnapshot {
    /// The process of the session.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The session, to look at the database as it was.
    pub fn connection(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    /// Ends the transaction and the session.
    pub async fn release(mut self) -> anyhow::Result<()> {
        sqlx::raw_sql("ROLLBACK").execute(&mut self.connection).await?;
        self.connection.close().await?;
        Ok(())
    }
}

/// Changes settings of the whole server (none: back to the default) and waits until sessions see them.
pub(super) async fn alter_system(
    connection: &mut PgConnection,
    settings: &[(&str, Option<&str>)],
) -> anyhow::Result<()> {
    for (name, value) in settings {
        let alter = match value {
            Some(value) => format!("ALTER SYSTEM SET {name} = '{value}'"),
            None => format!("ALTER SYSTEM RESET {name}"),
        };
        sqlx::raw_sql(AssertSqlSafe(alter)).execute(&mut *connection).await?;
    }
    // The reload is a signal to the postmaster, which passes it on: sessions see it a little later.
    let loaded = "SELECT pg_conf_load_time()";
    let before: chrono::DateTime<chrono::Utc> =
        sqlx::query_scalar(loaded).fetch_one(&mut *connection).await?;
    sqlx::query("SELECT pg_reload_conf()").execute(&mut *connection).await?;
    let begun = Instant::now();
    while sqlx::query_scalar::<_, chrono::DateTime<chrono::Utc>>(loaded).fetch_one(&mut *connection).await?
        == before
    {
        anyhow::ensure!(begun.elapsed() < Duration::from_secs(SEEN_SECONDS_MAX), "the reload is not seen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
