//! Stopping: jobs that end in time end, the others are interrupted and go back, and no attempt of theirs is used up.
//!
//! `cargo run --example graceful_stop`
#![allow(clippy::print_stdout)] // it is for people to read

use bugle::pg::embedded::{Options, Server};
use bugle::{Bugle, Ctx, Job};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

#[derive(serde::Serialize, serde::Deserialize)]
struct Sleep {
    seconds: u64,
}

impl Job for Sleep {
    const KIND: &'static str = "sleep";
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(Options::ephemeral()).await?;
    let bugle = Bugle::connect(&server.url()).await?;
    let jobs = [Sleep { seconds: 0 }, Sleep { seconds: 3_600 }];
    let ids = bugle.enqueue_many(&jobs).send().await?;

    let (started, mut starts) = mpsc::unbounded_channel();
    let worker =
        bugle.worker("default").drain(Duration::from_millis(200)).handle(move |job: Sleep, ctx: Ctx| {
            started.send(ctx.id).ok();
            tokio::time::sleep(Duration::from_secs(job.seconds))
        });
    let stop = CancellationToken::new();
    let running = tokio::spawn(worker.run(stop.clone()));

    // In your program: tokio::signal::ctrl_c(), or SIGTERM by tokio::signal::unix.
    for _ in &ids {
        starts.recv().await;
    }
    println!("both run; stopping");
    stop.cancel();
    running.await??; // returns when everything is settled

    for (id, wanted) in ids.into_iter().zip(["done", "ready"]) {
        let row = bugle.show_job(id).await?.ok_or("the job is gone")?.row;
        println!("job {id} is {}, attempts used up: {}", row.state, row.attempt);
        assert_eq!((row.state.as_str(), row.attempt), (wanted, i16::from(wanted == "done")));
    }
    bugle.close().await;
    server.stop().await?;
    Ok(())
}
