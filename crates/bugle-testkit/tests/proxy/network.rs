//! Slow, sliced and broken connections.
use std::time::{Duration, Instant};

use bugle_testkit::proxy::{Clients, Cut, Direction, Fault, Proxy};
use sqlx::{Connection, PgConnection};

use super::bench::{Bench, is_broken, options, soon};

#[tokio::test]
async fn a_delay_is_felt_in_each_direction() -> anyhow::Result<()> {
    let mut bench = Bench::new("delayed").await?;
    let mut client = bench.client().await?;
    bench.enqueue(&mut client, 1).await?;
    let delay = bench.proxy.set(Fault::delay(Direction::Both, Duration::from_millis(100)));
    let start = Instant::now();
    bench.enqueue(&mut client, 2).await?;
    assert!(start.elapsed() >= Duration::from_millis(200), "{:?}", start.elapsed());
    assert_eq!(bench.held().await?, [1, 2]);
    assert_eq!(delay.hits(), 2, "one request, one answer");
    Ok(())
}

#[tokio::test]
async fn a_delay_is_latency_and_not_a_rate() -> anyhow::Result<()> {
    let bench = Bench::new("latency").await?;
    let mut client = bench.client().await?;
    let delay = bench.proxy.set(Fault::delay(Direction::ToClient, Duration::from_millis(200)));
    let start = Instant::now();
    let text: String = sqlx::query_scalar("SELECT repeat('x', 1000000)").fetch_one(&mut client).await?;
    assert_eq!(text.len(), 1_000_000);
    assert!(delay.hits() >= 10, "{} chunks", delay.hits());
    assert!(start.elapsed() < Duration::from_millis(200) * u32::try_from(delay.hits())?);
    Ok(())
}

#[tokio::test]
async fn lifting_a_delay_sets_free_what_waits() -> anyhow::Result<()> {
    let bench = Bench::new("set_free").await?;
    let mut client = bench.client().await?;
    let delay = bench.proxy.set(Fault::delay(Direction::ToServer, Duration::from_hours(1)));
    let query = tokio::spawn(async move { client.ping().await });
    soon(delay.has_hit(1)).await?;
    delay.lift();
    soon(query).await???;
    Ok(())
}

#[tokio::test]
async fn a_throttled_answer_takes_its_time() -> anyhow::Result<()> {
    let bench = Bench::new("throttled").await?;
    let mut client = bench.client().await?;
    let throttle = bench.proxy.set(Fault::throttle(Direction::ToClient, 50_000));
    let start = Instant::now();
    let text: String = sqlx::query_scalar("SELECT repeat('x', 25000)").fetch_one(&mut client).await?;
    assert_eq!(text.len(), 25_000);
    assert!(start.elapsed() >= Duration::from_millis(500), "{:?}", start.elapsed());
    assert!(throttle.hits() >= 1);
    Ok(())
}

#[tokio::test]
async fn one_byte_at_a_time_is_still_the_same_protocol() -> anyhow::Result<()> {
    let mut bench = Bench::new("sliced").await?;
    let slice = bench.proxy.set(Fault::slice(Direction::Both, 1));
    let mut client = bench.client().await?;
    let payload: String = (0..100_000_u32).filter_map(|n| char::from_digit(n % 36, 36)).collect();
    let insert = "INSERT INTO sliced VALUES (1, $1) RETURNING payload";
    let back: String = sqlx::query_scalar(insert).bind(&payload).fetch_one(&mut client).await?;
    assert!(back == payload);
    assert_eq!(bench.held().await?, [1]);
    assert!(slice.hits() >= 4, "{}", slice.hits());
    Ok(())
}

#[tokio::test]
async fn a_cut_ends_open_connections_at_once() -> anyhow::Result<()> {
    let mut bench = Bench::new("cut_now").await?;
    for (how, kind) in
        [(Cut::Reset, std::io::ErrorKind::ConnectionReset), (Cut::Close, std::io::ErrorKind::UnexpectedEof)]
    {
        let victim = Clients::Index(bench.proxy.opened());
        let mut client = bench.client().await?;
        let gate = bench.proxy.gate("enqueue");
        let cut = {
            let insert = bench.enqueue(&mut client, 1);
            tokio::pin!(insert);
            tokio::select! {
                _ = &mut insert => anyhow::bail!("the gate is shut"),
                () = gate.arrived() => {}
            }
            let cut = bench.proxy.set(Fault::cut(how).on(victim));
            match soon(insert).await?.unwrap_err() {
                sqlx::Error::Io(error) => assert_eq!(error.kind(), kind, "{error}"),
                other => anyhow::bail!("not a broken connection: {other}"),
            }
            cut
        };
        assert_eq!(bench.held().await?, [0; 0]);
        assert_eq!(cut.hits(), 1);
        // Others are spared.
        bench.client().await?.ping().await?;
        bench.proxy.heal();
    }
    Ok(())
}

#[tokio::test]
async fn a_cut_that_stays_set_meets_new_connections_too() -> anyhow::Result<()> {
    let bench = Bench::new("unreachable").await?;
    let cut = bench.proxy.set(Fault::cut(Cut::Reset).on(Clients::Index(1)));
    let mut first = bench.client().await?;
    let error = bench.client().await.unwrap_err();
    assert!(is_broken(&error), "{error}");
    assert_eq!(cut.hits(), 1);
    first.ping().await?;
    Ok(())
}

#[tokio::test]
async fn a_half_closed_request_way_ends_the_session_without_the_statement() -> anyhow::Result<()> {
    let mut bench = Bench::new("half_requests").await?;
    let mut client = bench.client().await?;
    bench.enqueue(&mut client, 1).await?;
    let half = bench.proxy.set(Fault::half_close(Direction::ToServer));
    soon(half.has_hit(1)).await?;
    let error = soon(bench.enqueue(&mut client, 2)).await?.unwrap_err();
    assert!(is_broken(&error), "{error}");
    assert_eq!(bench.held().await?, [1]);
    assert_eq!(half.hits(), 1);
    Ok(())
}

#[tokio::test]
async fn a_half_closed_answer_way_hides_what_happened() -> anyhow::Result<()> {
    let mut bench = Bench::new("half_answers").await?;
    let mut client = bench.client().await?;
    bench.enqueue(&mut client, 1).await?;
    let half = bench.proxy.set(Fault::half_close(Direction::ToClient));
    soon(half.has_hit(1)).await?;
    let error = soon(bench.enqueue(&mut client, 2)).await?.unwrap_err();
    assert!(is_broken(&error), "{error}");
    bench.until("SELECT count(*) = 2 FROM half_answers").await?;
    assert_eq!(half.hits(), 1);
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_away_looks_away() -> anyhow::Result<()> {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let proxy = Proxy::start(nobody).await?;
    let error = soon(PgConnection::connect_with(&proxy.rewrite(&options()?))).await?.unwrap_err();
    assert!(is_broken(&error), "{error}");
    Ok(())
}
