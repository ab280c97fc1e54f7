//! Effects in the same database, exactly once: the job ends in the transaction that does its work.
//!
//! `cargo run --example exactly_once`
#![allow(clippy::print_stdout)] // it is for people to read

use bugle::jobs::Backoff;
use bugle::pg::embedded::{Options, Server};
use bugle::{Bugle, Ctx, Job, Shared};
use sqlx::PgPool;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[derive(serde::Serialize, serde::Deserialize)]
struct Pay {
    account: i64,
    amount: i64,
}

impl Job for Pay {
    const KIND: &'static str = "pay";
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

async fn pay(
    job: Pay,
    pool: Shared<PgPool>,
    stop: Shared<CancellationToken>,
    ctx: Ctx,
) -> Result<(), Failed> {
    let mut tx = bugle::pg::begin(&pool).await?; // a handler may be interrupted here
    let update = "UPDATE account SET balance = balance + $2 WHERE id = $1 RETURNING balance";
    let balance: i64 =
        sqlx::query_scalar(update).bind(job.account).bind(job.amount).fetch_one(&mut *tx).await?;
    ctx.complete_in(&mut tx).await?;
    if ctx.attempt == 1 {
        println!("attempt 1: something breaks before the commit; nothing has happened");
        return Err("broken".into());
    }
    tx.commit().await?;
    println!("attempt {}: paid, the balance is {balance}", ctx.attempt);
    stop.cancel();
    // Too late to change anything: the job ended with the commit.
    Err("this is ignored".into())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(Options::ephemeral()).await?;
    let bugle = Bugle::connect(&server.url()).await?;
    let pool = bugle.pool().clone();
    sqlx::query("CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL)")
        .execute(&pool)
        .await?;
    sqlx::query("INSERT INTO account (id, balance) VALUES (1, 0)").execute(&pool).await?;
    let id = bugle.enqueue(&Pay { account: 1, amount: 100 }).send().await?;

    let stop = CancellationToken::new();
    let worker = bugle
        .worker("default")
        .backoff(Backoff::exponential(Duration::from_millis(5), Duration::from_secs(1)))
        .share(pool.clone())
        .share(stop.clone())
        .handle(pay);
    worker.run(stop).await?;

    let balance: i64 = sqlx::query_scalar("SELECT balance FROM account").fetch_one(&pool).await?;
    let shown = bugle.show_job(id).await?.ok_or("the job is gone")?;
    assert_eq!((balance, shown.row.state.as_str(), shown.failures.len()), (100, "done", 1));
    bugle.close().await;
    server.stop().await?;
    Ok(())
}
