//! `bugle wake`: who sleeps, who is rung for, and what becomes due next. Read from PostgreSQL's own lists of locks and sessions: nodes
//! store nothing about themselves.

use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::place::Place;
use bugle::jobs::inspect::ProducerRings;
use bugle::name::SchemaName;
use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::{AssertSqlSafe, PgPool};

/// Looking at the wake engine.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the nodes with their seats, and the queues with their modes and next due times
    #[command(after_help = HELP)]
    Status,
}

const HELP: &str = "\
A node is a Bugle process that waits for work. Of the nodes that sleep, one is the sentinel of a queue's bucket: producers
ring for it, and all hear. The others are its reserves. A node that is awake holds no seat, and nobody rings for it.
Buckets above 64 are those of ends: somebody there waits until a job has ended.

How many rings producers sent and saved is counted by PostgreSQL, if it is told to: ALTER DATABASE ... SET track_functions = 'pl'
(as a superuser; for sessions that begin afterwards).";

#[derive(Serialize, sqlx::FromRow)]
pub(super) struct NodeRow {
    node: String,
    pid: i32,
    alert: bool,
    /// PostgreSQL hides it from roles that are not the node's own and may not read all statistics.
    connected_at: Option<DateTime<Utc>>,
    sentinel: Vec<i32>,
    reserve: Vec<i32>,
}

#[derive(Serialize, sqlx::FromRow)]
struct QueueRow {
    namespace: String,
    queue: String,
    mode: String,
    paused: bool,
    bucket: i32,
    sentinel: Option<String>,
    reserves: i64,
    next_due: Option<DateTime<Utc>>,
    next_lease_end: Option<DateTime<Utc>>,
}

#[derive(Serialize)]
struct Status {
    nodes: Vec<NodeRow>,
    queues: Vec<QueueRow>,
    /// How full PostgreSQL's queue of notifications is: 0 to 1.
    notify_usage: f64,
    /// None: nobody counts.
    producers: Option<ProducerRings>,
}

pub(crate) async fn status(global: &Global, place: &Place, output: Output) -> Result<Exit, Failure> {
    let bugle = place.bugle(2).await?;
    let pool = bugle.pool().clone();
    let status = Status {
        nodes: find_nodes(&pool, &global.schema).await?,
        queues: rows(&pool, &global.schema, include_str!("sql/wake_queues.sql")).await?,
        notify_usage: sqlx::query_scalar(include_str!("sql/notify_usage.sql")).fetch_one(&pool).await?,
        producers: bugle.producer_rings().await?,
    };
    if output.is_json() {
        output.json(&status)?;
        return Ok(Exit::Ok);
    }
    if status.nodes.is_empty() {
        output.line("no node listens: start a worker, or they poll")?;
    } else {
        output.text(&node_table(&status.nodes, output).render())?;
    }
    output.line("")?;
    output.text(&queues(&status.queues, output).render())?;
    output.line("")?;
    output.line(&producers(status.producers.as_ref(), output))?;
    Ok(Exit::Ok)
}

/// What producers did, in a sentence.
fn producers(rings: Option<&ProducerRings>, output: Output) -> String {
    let Some(rings) = rings else {
        return "rings sent and saved are not counted; see bugle wake status --help".to_owned();
    };
    let since = rings.since.map_or_else(String::new, |at| format!(" since {}", output.moment(at)));
    format!(
        "producers asked {} times{since} whether anybody sleeps: {} rings sent, {} saved",
        rings.checks, rings.sent, rings.saved
    )
}

pub(super) fn node_table(rows: &[NodeRow], output: Output) -> Table {
    let (left, right) = (|name| (name, Align::Left), |name| (name, Align::Right));
    let columns = [
        left("node"),
        right("pid"),
        left("connected"),
        left("alert"),
        left("sentinel of"),
        left("reserve of"),
    ];
    let mut table = Table::new(&columns);
    for row in rows {
        table.row([
            row.node.clone(),
            row.pid.to_string(),
            output.moment_or_dash(row.connected_at),
            if row.alert { "ALERT" } else { "-" }.to_owned(),
            buckets(&row.sentinel),
            buckets(&row.reserve),
        ]);
    }
    table
}

fn queues(rows: &[QueueRow], output: Output) -> Table {
    let (left, right) = (|name| (name, Align::Left), |name| (name, Align::Right));
    let columns = [
        left("namespace"),
        left("queue"),
        left("mode"),
        right("bucket"),
        left("sentinel"),
        right("reserves"),
        left("next due"),
        left("next lease end"),
    ];
    let mut table = Table::new(&columns);
    for row in rows {
        table.row([
            row.namespace.clone(),
            row.queue.clone(),
            if row.paused { format!("{}, PAUSED", row.mode) } else { row.mode.clone() },
            row.bucket.to_string(),
            row.sentinel.clone().unwrap_or_else(|| "-".to_owned()),
            row.reserves.to_string(),
            output.moment_or_dash(row.next_due),
            output.moment_or_dash(row.next_lease_end),
        ]);
    }
    table
}

fn buckets(numbers: &[i32]) -> String {
    match numbers {
        [] => "-".to_owned(),
        _ => numbers.iter().map(i32::to_string).collect::<Vec<_>>().join(" "),
    }
}

/// The nodes of the database, with their seats in this schema: that of jobs, or of a duroxide provider.
pub(super) async fn find_nodes(pool: &PgPool, schema: &SchemaName) -> Result<Vec<NodeRow>, Failure> {
    rows(pool, schema, include_str!("sql/wake_nodes.sql")).await
}

async fn rows<T>(pool: &PgPool, schema: &SchemaName, sql: &str) -> Result<Vec<T>, Failure>
where
    T: Send + Unpin + for<'r> sqlx::FromRow<'r, sqlx::postgres::PgRow>,
{
    Ok(sqlx::query_as(AssertSqlSafe(schema.place_in(sql))).fetch_all(pool).await?)
}
