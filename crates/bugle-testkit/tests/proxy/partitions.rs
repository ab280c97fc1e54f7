//! Connections over which nothing comes: lost for good, or late.
use std::time::Duration;

use bugle_testkit::proxy::{Direction, Fault};
use sqlx::Connection;

use super::bench::{Bench, is_broken, soon};

/// How long a client waits before it believes that nothing will come.
const SILENCE: Duration = Duration::from_millis(300);

#[tokio::test]
async fn a_black_hole_is_silence_and_no_error() -> anyhow::Result<()> {
    let mut bench = Bench::new("swallowed").await?;
    let mut client = bench.client().await?;
    let hole = bench.proxy.set(Fault::black_hole(Direction::Both).on(bench.proxy.so_far()));
    let outcome = tokio::time::timeout(SILENCE, bench.enqueue(&mut client, 1)).await;
    assert!(outcome.is_err(), "neither an answer nor an error");
    assert_eq!(bench.held().await?, [0; 0]);
    assert_eq!(hole.hits(), 1, "the request; there was no answer to lose");
    bench.client().await?.ping().await?;
    Ok(())
}

#[tokio::test]
async fn a_black_hole_for_answers_hides_what_happened() -> anyhow::Result<()> {
    let mut bench = Bench::new("hidden").await?;
    let mut client = bench.client().await?;
    bench.enqueue(&mut client, 1).await?;
    let hole = bench.proxy.set(Fault::black_hole(Direction::ToClient));
    let outcome = tokio::time::timeout(SILENCE, bench.enqueue(&mut client, 2)).await;
    assert!(outcome.is_err(), "neither an answer nor an error");
    assert_eq!(bench.held().await?, [1, 2]);
    assert_eq!(hole.hits(), 1);
    Ok(())
}

#[tokio::test]
async fn a_connection_into_a_black_hole_is_accepted_and_never_answered() -> anyhow::Result<()> {
    let mut bench = Bench::new("unanswered").await?;
    let hole = bench.proxy.set(Fault::black_hole(Direction::Both));
    let outcome = tokio::time::timeout(SILENCE, bench.client_named("unanswered")).await;
    assert!(outcome.is_err(), "neither a session nor an error");
    assert_eq!(bench.sessions("unanswered").await?, 0);
    assert_eq!(hole.hits(), 1);
    Ok(())
}

#[tokio::test]
async fn the_server_does_not_hear_of_a_close_in_a_black_hole() -> anyhow::Result<()> {
    let mut bench = Bench::new("forgotten").await?;
    let mut client = bench.client_named("forgotten").await?;
    let mut transaction = client.begin().await?;
    bench.enqueue(&mut transaction, 1).await?;
    let hole = bench.proxy.set(Fault::black_hole(Direction::Both));
    drop(transaction);
    drop(client);
    soon(hole.has_hit(1)).await?;
    assert_eq!(bench.sessions("forgotten").await?, 1, "with its transaction and its locks");
    // What lost bytes is reset when the network heals, and the session ends.
    bench.proxy.heal();
    bench.until("SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'forgotten'").await?;
    assert_eq!(bench.held().await?, [0; 0]);
    Ok(())
}

#[tokio::test]
async fn a_client_in_a_black_hole_is_reset_when_it_is_lifted() -> anyhow::Result<()> {
    let bench = Bench::new("lifted").await?;
    let mut client = bench.client().await?;
    let hole = bench.proxy.set(Fault::black_hole(Direction::ToServer));
    let ping = tokio::spawn(async move { client.ping().await });
    soon(hole.has_hit(1)).await?;
    bench.proxy.heal();
    let error = soon(ping).await??.unwrap_err();
    assert!(is_broken(&error), "{error}");
    bench.client().await?.ping().await?;
    Ok(())
}

#[tokio::test]
async fn what_is_stalled_arrives_late_even_if_nobody_waits_for_it() -> anyhow::Result<()> {
    let mut bench = Bench::new("late").await?;
    let mut client = bench.client().await?;
    bench.enqueue(&mut client, 1).await?;
    let stall = bench.proxy.set(Fault::stall(Direction::ToServer));
    let outcome = tokio::time::timeout(SILENCE, bench.enqueue(&mut client, 2)).await;
    assert!(outcome.is_err(), "neither an answer nor an error");
    drop(client);
    assert_eq!(bench.held().await?, [1]);
    bench.proxy.heal();
    bench.until("SELECT count(*) = 2 FROM late").await?;
    assert!(stall.hits() >= 1);
    Ok(())
}
