//! `bugle bench storage`: what the tables of jobs cost, beside the bare SQL of a queue.

use super::figure::{median, rate};
use super::progress;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::place::Place;
use bugle::name::SchemaName;
use bugle::{Bugle, Options};
use futures_util::future::try_join_all;
use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, PgPool, SqlSafeStr as _, SqlStr};
use std::time::{Duration, Instant};

pub(super) const METHOD: &str = "\
Method: the rounds of the two sides alternate in one run, on one server; the figure is the ratio of the medians.
The floor is a table with a number, a mark and a payload: INSERT of 500, UPDATE ... FOR UPDATE SKIP LOCKED, DELETE.
Bugle's side is its own API: enqueue_many of 500, claim with bodies, ack with history. Payloads of about 100 bytes.
It works in a schema of its own, `bugle_bench`, which it drops at the end.";

/// Jobs in one enqueue statement.
const ENQUEUE_BATCH: usize = 500;
const QUEUE: &str = "bench";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Jobs in each round
    #[arg(long, default_value_t = 50_000)]
    jobs: usize,
    /// Rounds of each side
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Connections that work at once
    #[arg(long, default_value_t = 4)]
    connections: u32,
    /// Jobs in one claim
    #[arg(long, value_delimiter = ',', default_values_t = [100, 500])]
    batch: Vec<u32>,
}

/// Seconds of one round.
struct Round {
    enqueue: Duration,
    drain: Duration,
}

/// One line of the result.
#[derive(Serialize)]
struct Figure {
    what: String,
    floor_per_s: f64,
    bugle_per_s: f64,
    ratio: f64,
    /// The lowest and highest ratio of a single round.
    ratio_min: f64,
    ratio_max: f64,
}

pub(super) async fn run(args: &Args, place: &Place, output: Output) -> Result<Exit, Failure> {
    if args.jobs == 0 || args.rounds == 0 || args.connections == 0 || args.batch.is_empty() {
        return Err(Failure::user(
            "jobs, rounds, connections and batch must be at least 1; leave them out for the defaults",
        ));
    }
    let pool = place.pool(args.connections + 1, false).await?;
    let bench = Bench { pool, schema: SchemaName::parse("bugle_bench")?, args };
    let bar = progress::bar(args.batch.len() * args.rounds);
    let mut figures = Vec::new();
    for batch in &args.batch {
        let (mut floor, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..args.rounds {
            floor.push(bench.floor(*batch).await?);
            ours.push(bench.bugle(*batch).await?);
            bar.inc(1);
        }
        figures.push(
            bench.figure(format!("enqueue, {ENQUEUE_BATCH} a statement"), &floor, &ours, |r| r.enqueue),
        );
        figures.push(bench.figure(format!("drain, claims of {batch}"), &floor, &ours, |r| r.drain));
    }
    bar.finish_and_clear();
    bench.drop_schema().await?;
    output.rows(&figures, || table(&figures))?;
    Ok(Exit::Ok)
}

fn table(figures: &[Figure]) -> Table {
    let right = |name| (name, Align::Right);
    let columns =
        [("figure", Align::Left), right("floor/s"), right("bugle/s"), right("ratio"), right("single rounds")];
    let mut table = Table::new(&columns);
    for f in figures {
        let spread = format!("{:.2} to {:.2}", f.ratio_min, f.ratio_max);
        table.row([
            f.what.clone(),
            f.floor_per_s.to_string(),
            f.bugle_per_s.to_string(),
            format!("{:.2}", f.ratio),
            spread,
        ]);
    }
    table
}

struct Bench<'a> {
    pool: PgPool,
    schema: SchemaName,
    args: &'a Args,
}

impl Bench<'_> {
    fn sql(&self, sql: &str) -> SqlStr {
        AssertSqlSafe(self.schema.place_in(sql)).into_sql_str()
    }

    /// One round of the floor.
    async fn floor(&self, batch: u32) -> Result<Round, Failure> {
        self.fresh_bugle().await?; // in the same state as for the other side
        sqlx::raw_sql(self.sql(include_str!("sql/floor_create.sql"))).execute(&self.pool).await?;
        let insert = self.sql(include_str!("sql/floor_enqueue.sql"));
        let enqueue = self.in_parallel(self.statements(), async |pool: PgPool, n| {
            for _ in 0..n {
                sqlx::query(insert.clone()).bind(payloads()).execute(&pool).await?;
            }
            Ok(())
        });
        let enqueue = enqueue.await?;
        let (claim, delete) =
            (self.sql(include_str!("sql/floor_claim.sql")), self.sql(include_str!("sql/floor_delete.sql")));
        let drain = self.in_parallel(0, async |pool: PgPool, _| {
            loop {
                let rows: Vec<(i64, Json<Box<RawValue>>)> =
                    sqlx::query_as(claim.clone()).bind(i64::from(batch)).fetch_all(&pool).await?;
                if rows.is_empty() {
                    return Ok(());
                }
                let ids: Vec<i64> = rows.iter().map(|(id, _)| *id).collect();
                sqlx::query(delete.clone()).bind(ids).execute(&pool).await?;
            }
        });
        Ok(Round { enqueue, drain: drain.await? })
    }

    /// One round of Bugle.
    async fn bugle(&self, batch: u32) -> Result<Round, Failure> {
        let bugle = self.fresh_bugle().await?;
        sqlx::raw_sql("CHECKPOINT").execute(&self.pool).await?;
        let queue = bugle.queue(QUEUE).await?;
        let enqueue = self.in_parallel(self.statements(), async |_, n| {
            for _ in 0..n {
                let payloads = payloads().into_iter().map(|json| json.0).collect();
                bugle.enqueue_many_raw(QUEUE, "bench", payloads).send().await?;
            }
            Ok(())
        });
        let enqueue = enqueue.await?;
        let drain = self.in_parallel(0, async |_, _| {
            loop {
                let look = queue.claim("bench", batch, Duration::from_mins(1)).await?;
                if look.jobs.is_empty() {
                    return Ok(());
                }
                let receipts: Vec<_> = look.jobs.iter().map(|job| job.receipt).collect();
                queue.ack(&receipts, &[look.token]).await?;
            }
        });
        Ok(Round { enqueue, drain: drain.await? })
    }

    /// How many enqueue statements one round has.
    fn statements(&self) -> usize {
        self.args.jobs.div_ceil(ENQUEUE_BATCH)
    }

    /// Lets every connection do its share, and measures until the last is done.
    async fn in_parallel(
        &self,
        shares: usize,
        work: impl AsyncFn(PgPool, usize) -> Result<(), Failure>,
    ) -> Result<Duration, Failure> {
        let n = usize::try_from(self.args.connections).unwrap_or(1);
        let begun = Instant::now();
        let parts = (0..n).map(|i| work(self.pool.clone(), shares / n + usize::from(i < shares % n)));
        try_join_all(parts).await?;
        Ok(begun.elapsed())
    }

    async fn fresh_bugle(&self) -> Result<Bugle, Failure> {
        self.drop_schema().await?;
        let options = Options { schema: self.schema.clone(), ..Options::default() };
        Ok(Bugle::new(self.pool.clone(), options).await?)
    }

    async fn drop_schema(&self) -> Result<(), Failure> {
        let sql = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema);
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&self.pool).await?;
        Ok(())
    }

    fn figure(&self, what: String, floor: &[Round], ours: &[Round], of: fn(&Round) -> Duration) -> Figure {
        let jobs = self.statements() * ENQUEUE_BATCH;
        let per_second = |rounds: &[Round]| rounds.iter().map(|r| rate(jobs, of(r))).collect::<Vec<_>>();
        let (floor, ours) = (per_second(floor), per_second(ours));
        let ratios: Vec<f64> = ours.iter().zip(&floor).map(|(a, b)| a / b).collect();
        Figure {
            what,
            floor_per_s: median(&floor).round(),
            bugle_per_s: median(&ours).round(),
            ratio: median(&ours) / median(&floor),
            ratio_min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            ratio_max: ratios.iter().copied().fold(0.0, f64::max),
        }
    }
}

/// A statement's worth of payloads of about 100 bytes.
fn payloads() -> Vec<Json<Box<RawValue>>> {
    let text = r#"{"to": "somebody@example.com", "subject": "Your order has been sent", "order": 4711, "retry": false}"#;
    vec![Json(RawValue::from_string(text.to_owned()).unwrap_or_default()); ENQUEUE_BATCH]
}
