//! A saga that survives `kill -9`: a trip is booked step by step; the last step fails, and what was booked is cancelled in reverse.
//!
//! The program starts its worker as a process of its own and kills it twice, each time at the worst moment: a step has been done, but nobody
//! has been told. The next worker goes on where the last one died, and every effect is there once.
//!
//! `cargo run -p bugle-duroxide --example saga`
#![allow(clippy::print_stdout)] // it is for people to read

use bugle::pg::embedded::{Options, Server};
use bugle_duroxide::PostgresProvider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use sqlx::PgPool;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{ChildStdout, Command};

type Failed = Box<dyn std::error::Error>;

/// How the worker is told where the data is: it holds a password, so it is not on the command line.
const WORKER_URL: &str = "SAGA_WORKER_URL";
/// Whoever does these for the first time is killed before it can say so.
const DEADLY: [&str; 2] = ["book hotel", "cancel hotel"];

/// Books everything, or cancels what was booked and fails.
async fn trip(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let mut booked = Vec::new();
    for what in ["flight", "hotel", "car"] {
        if let Err(reason) = ctx.schedule_activity("Do", format!("book {what}")).await {
            for what in booked.into_iter().rev() {
                ctx.schedule_activity("Do", format!("cancel {what}")).await?;
            }
            return Err(reason);
        }
        booked.push(what);
    }
    Ok("enjoy your trip".to_owned())
}

/// One step. It may be run again when its worker dies, so its effect has a key: the step of this saga.
async fn step(pool: PgPool, saga: String, step: String) -> Result<String, String> {
    if step == "book car" {
        return Err("no car left".to_owned());
    }
    let say = |error: sqlx::Error| error.to_string();
    sqlx::query("INSERT INTO run (step) VALUES ($1)").bind(&step).execute(&pool).await.map_err(say)?;
    let effect = "INSERT INTO effect (saga, step) VALUES ($1, $2) ON CONFLICT (saga, step) DO NOTHING";
    let done = sqlx::query(effect).bind(saga).bind(&step).execute(&pool).await.map_err(say)?;
    if done.rows_affected() == 1 && DEADLY.contains(&step.as_str()) {
        println!("{step}"); // the parent reads it, and kills
        std::future::pending::<()>().await;
    }
    Ok(step)
}

/// The worker: runs whatever there is to run until it is killed.
async fn work(url: &str) -> Result<(), Failed> {
    let provider = PostgresProvider::new_with_long_poll(url).await?;
    let pool = provider.pool().clone();
    let activities = ActivityRegistry::builder()
        .register("Do", move |ctx: ActivityContext, name: String| {
            step(pool.clone(), ctx.instance_id().to_owned(), name)
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder().register("Trip", trip).build();
    // How long a dead worker's step is waited for. Leases of the living are renewed.
    let options = RuntimeOptions { worker_lock_timeout: Duration::from_secs(2), ..RuntimeOptions::default() };
    let _runtime = Runtime::start_with_options(Arc::new(provider), activities, orchestrations, options).await;
    std::future::pending().await
}

/// Starts workers, one after the other, until the saga has ended; answers how it ended and what was being done when each was killed.
async fn outlive(client: &Client, url: &str) -> Result<(OrchestrationStatus, Vec<String>), Failed> {
    let mut killed_at = Vec::new();
    loop {
        let mut worker = Command::new(std::env::current_exe()?)
            .env(WORKER_URL, url)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let said = worker.stdout.take().ok_or("the worker has no output")?;
        tokio::select! {
            step = deadly_step(said) => {
                let step = step?;
                println!("kill -9 {} in the middle of: {step}", worker.id().unwrap_or(0));
                worker.kill().await?; // SIGKILL: no goodbye, no clean-up
                killed_at.push(step);
            }
            status = client.wait_for_orchestration("trip-1", Duration::from_mins(1)) => {
                worker.kill().await?;
                return Ok((status?, killed_at));
            }
        }
    }
}

/// Reads what a worker prints until it is in the middle of a step in which it shall die.
async fn deadly_step(said: ChildStdout) -> Result<String, Failed> {
    let mut lines = BufReader::new(said).lines();
    while let Some(line) = lines.next_line().await? {
        if DEADLY.contains(&line.as_str()) {
            return Ok(line);
        }
    }
    Err("the worker has ended by itself".into())
}

async fn column(pool: &PgPool, sql: &'static str) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(sql).fetch_all(pool).await
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    if let Ok(url) = std::env::var(WORKER_URL) {
        return work(&url).await;
    }
    let server = Server::start(Options::ephemeral()).await?;
    let provider = Arc::new(PostgresProvider::new(&server.url()).await?);
    let pool = provider.pool().clone();
    let tables = "CREATE TABLE run (step text NOT NULL);
        CREATE TABLE effect (id bigserial, saga text NOT NULL, step text NOT NULL, UNIQUE (saga, step))";
    sqlx::raw_sql(tables).execute(&pool).await?;

    let client = Client::new(provider);
    client.start_orchestration("trip-1", "Trip", "").await?;
    let (status, killed_at) = outlive(&client, &server.url()).await?;
    let OrchestrationStatus::Failed { details, .. } = status else {
        return Err(format!("it should have failed: {status:?}").into());
    };
    assert!(details.display_message().contains("no car left"), "{details:?}");
    assert_eq!(killed_at, DEADLY);

    let effects = column(&pool, "SELECT step FROM effect ORDER BY id").await?;
    println!("each effect once, in this order: {effects:?}");
    assert_eq!(effects, ["book flight", "book hotel", "cancel hotel", "cancel flight"]);
    let again = column(&pool, "SELECT step FROM run GROUP BY step HAVING count(*) = 2 ORDER BY step").await?;
    println!("run a second time, without an effect: {again:?}");
    assert_eq!(again, DEADLY, "only what was under way is run again");

    pool.close().await;
    server.stop().await?;
    Ok(())
}
