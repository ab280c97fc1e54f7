//! A typed job, written in your own transaction; a plain async function that runs it, with something shared and a context.
//!
//! `cargo run --example send_receipt`
#![allow(clippy::print_stdout)] // it is for people to read

use bugle::pg::embedded::{Options, Server};
use bugle::{Bugle, Ctx, Job, Shared};
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;

#[derive(serde::Serialize, serde::Deserialize)]
struct SendReceipt {
    order: i64,
    to: String,
}

impl Job for SendReceipt {
    const KIND: &'static str = "send_receipt";
    const QUEUE: &'static str = "mail";
    const MAX_ATTEMPTS: u16 = 8;
}

/// Stands for a service that may be told twice and acts once, by the key.
#[derive(Default)]
struct Mailer {
    sent: Mutex<Vec<String>>,
}

impl Mailer {
    fn send(&self, to: &str, key: String) -> Result<(), std::io::Error> {
        let mut sent = self.sent.lock().map_err(|_| std::io::Error::other("the mailer is broken"))?;
        if !sent.contains(&key) {
            println!("mail to {to}");
            sent.push(key);
        }
        Ok(())
    }
}

/// Any error: the job is tried again later.
async fn send_receipt(
    job: SendReceipt,
    mailer: Shared<Mailer>,
    stop: Shared<CancellationToken>,
    ctx: Ctx,
) -> Result<(), std::io::Error> {
    mailer.send(&job.to, ctx.idempotency_key())?;
    println!("receipt for order {} sent in attempt {}", job.order, ctx.attempt);
    stop.cancel(); // this example ends with its first job
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(Options::ephemeral()).await?; // or your own: Bugle::connect("postgres://...")
    let bugle = Bugle::connect(&server.url()).await?;

    // The order and its job: both are there when this commits, or neither is.
    let mut tx = bugle.begin().await?;
    sqlx::query("CREATE TABLE orders (id bigint PRIMARY KEY)").execute(&mut *tx).await?;
    sqlx::query("INSERT INTO orders (id) VALUES ($1)").bind(42_i64).execute(&mut *tx).await?;
    let receipt = SendReceipt { order: 42, to: "ann@example.com".to_owned() };
    let id = bugle.enqueue(&receipt).key("receipt-42").on(&mut *tx).await?;
    tx.commit().await?;

    let stop = CancellationToken::new();
    let worker =
        bugle.worker("mail").concurrency(8).share(Mailer::default()).share(stop.clone()).handle(send_receipt);
    worker.run(stop).await?;

    let shown = bugle.show_job(id).await?.ok_or("the job is gone")?;
    assert_eq!(shown.row.state, "done");
    bugle.close().await;
    server.stop().await?;
    Ok(())
}
