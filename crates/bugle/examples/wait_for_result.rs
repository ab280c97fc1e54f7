//! A job as a question: enqueue it, wait for its end, read what its handler returned.
//!
//! `cargo run --example wait_for_result`
#![allow(clippy::print_stdout)] // it is for people to read

use bugle::pg::embedded::{Options, Server};
use bugle::{Bugle, Ctx, Ending, Job, Verdict};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[derive(serde::Serialize, serde::Deserialize)]
struct Divide {
    a: i64,
    b: i64,
}

impl Job for Divide {
    const KIND: &'static str = "divide";
}

async fn divide(job: Divide, _: Ctx) -> Verdict {
    match job.a.checked_div(job.b) {
        Some(quotient) => Verdict::done_with(&quotient),
        None => Verdict::dead("by_zero", format!("{} / {}", job.a, job.b)),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(Options::ephemeral()).await?;
    let bugle = Bugle::connect(&server.url()).await?;
    let elsewhere = Bugle::connect(&server.url()).await?; // as another process would
    let stop = CancellationToken::new();
    let worker = tokio::spawn(elsewhere.worker("default").handle(divide).run(stop.clone()));

    let handle = bugle.enqueue(&Divide { a: 42, b: 6 }).send_handle().await?;
    let quotient: i64 = handle.wait().await?.done()?;
    println!("42 / 6 = {quotient}");

    let hopeless = bugle.enqueue(&Divide { a: 1, b: 0 }).send_handle().await?;
    let end = hopeless.wait::<i64>().await?;
    println!("job {} is {} after attempt {}: {:?}", end.id, end.state(), end.attempt, end.how);
    assert!(matches!(&end.how, Ending::Dead { code: Some(code), .. } if code == "by_zero"));

    // One that nobody runs yet: not longer than a moment. Then somebody cancels it.
    let later = bugle.enqueue(&Divide { a: 1, b: 1 }).delay(Duration::from_hours(1)).send_handle().await?;
    assert!(later.wait_within::<i64>(Duration::from_millis(50)).await?.is_none());
    bugle.cancel_job(later.id()).await?;
    let why = later.wait::<i64>().await?.done().err().ok_or("it was cancelled")?;
    println!("{why}");

    stop.cancel();
    worker.await??;
    assert_eq!(quotient, 7);
    elsewhere.close().await;
    bugle.close().await;
    server.stop().await?;
    Ok(())
}
