//! `bugle doctor`: is the database fit for the work, and if not, what is to be done?

mod clock;
mod connections;
mod deep;
mod finding;
mod horizon;
mod indexes;
mod locks;
mod paused;
mod rights;
mod schema;
mod server;
mod stale;
mod tables;
mod workflows;

use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, clean};
use crate::place::Place;
use crate::span;
use bugle::name::SchemaName;
use finding::{Finding, Level};
use sqlx::PgPool;
use std::fmt::Write as _;
use std::time::Duration;

/// Check the database: settings, schema, indexes, dead rows, clocks, connections, locks, paused queues, stale steps, rights
///
/// Every finding is ok, warn or FAIL; what is not ok comes with its fix. It only reads. The exit code
/// is 2 when something fails, else 0.
#[derive(Debug, clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  bugle doctor --database-url postgres://app@db/app
  bugle doctor --output json | jq '.[] | select(.level != \"ok\")'"
)]
pub(crate) struct Args {
    /// Also read every open job and every run: handed out but held by nobody? counted rightly? (slow where there are many)
    #[arg(long)]
    deep: bool,
    /// Warn of a transaction that has been open for longer
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = span::parse, allow_hyphen_values = true)]
    max_transaction: Duration,
    /// Connections that one node's pool may open, for the connection budget
    #[arg(long, value_name = "N", default_value_t = 10, allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pool: u16,
    /// Workers that one node runs, for the connection budget; 0 for one that only enqueues and waits
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(0..=10_000))]
    workers: u16,
}

/// What the checks work on.
struct Patient<'a> {
    pool: PgPool,
    schema: &'a SchemaName,
    args: &'a Args,
}

impl Patient<'_> {
    /// A file of SQL, made to speak of the schema.
    fn sql(&self, text: &str) -> sqlx::AssertSqlSafe<String> {
        sqlx::AssertSqlSafe(self.schema.place_in(text))
    }
}

pub(crate) async fn run(
    args: &Args,
    global: &Global,
    place: &Place,
    output: Output,
) -> Result<Exit, Failure> {
    let patient = Patient { pool: place.unchecked_pool().await?, schema: &global.schema, args };
    let findings = examine(&patient).await;
    if output.is_json() {
        output.json(&findings)?;
    } else {
        output.text(&sheet(&findings))?;
    }
    let worst = findings.iter().map(|f| f.level).max().unwrap_or(Level::Ok);
    Ok(if worst == Level::Fail { Exit::Server } else { Exit::Ok })
}

/// Every check in turn. One that cannot be made is a finding like any other.
async fn examine(patient: &Patient<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut note = |check, found: Result<Vec<Finding>, Failure>| match found {
        Ok(found) => findings.extend(found),
        Err(failure) => findings.push(Finding::unchecked(check, &failure)),
    };
    note("server", server::check(patient).await.map_err(Failure::from));
    note("clock", clock::check(patient).await.map_err(Failure::from));
    note("connections", connections::check(patient).await.map_err(Failure::from));
    note("snapshots", horizon::check(patient).await.map_err(Failure::from));
    let (is_there, found) = schema::check(patient).await;
    note("schema", Ok(found));
    if is_there {
        note("cluster", schema::check_cluster(patient).await.map_err(Failure::from));
        note("indexes", indexes::check(patient).await.map_err(Failure::from));
        note("dead rows", tables::check_bloat(patient).await.map_err(Failure::from));
        note("partitions", tables::check_partitions(patient).await.map_err(Failure::from));
        note("locks", locks::check(patient).await.map_err(Failure::from));
        note("paused", paused::check(patient).await.map_err(Failure::from));
        note("stale steps", stale::check(patient).await.map_err(Failure::from));
        note("rights", rights::check(patient).await.map_err(Failure::from));
        if patient.args.deep {
            note("deep", deep::check(patient).await.map_err(Failure::from));
            note("workflows", workflows::check(patient).await.map_err(Failure::from));
        }
    }
    findings
}

fn sheet(findings: &[Finding]) -> String {
    let mut text = String::new();
    for f in findings {
        let _ = writeln!(text, "{:<5} {:<12} {}", f.level.word(), f.check, clean(&f.found));
        if let Some(fix) = &f.fix {
            let _ = writeln!(text, "      {:<12} -> {}", "", clean(fix));
        }
    }
    let count = |level| findings.iter().filter(|f| f.level == level).count();
    let _ = writeln!(
        text,
        "\n{} ok, {} to look at, {} to mend",
        count(Level::Ok),
        count(Level::Warn),
        count(Level::Fail)
    );
    text
}
