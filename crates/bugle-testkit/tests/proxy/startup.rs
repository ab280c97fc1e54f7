//! The first bytes of a connection, and requests to cancel.
use sqlx::postgres::PgSslMode;
use sqlx::{Connection, PgConnection};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::bench::{Bench, options, soon};
use super::raw::RawSession;

#[tokio::test]
async fn encryption_is_refused_and_the_client_goes_on_without() -> anyhow::Result<()> {
    let bench = Bench::new("unencrypted").await?;
    let through = bench.proxy.rewrite(&options()?);
    PgConnection::connect_with(&through.clone().ssl_mode(PgSslMode::Prefer)).await?.ping().await?;
    let required = PgConnection::connect_with(&through.ssl_mode(PgSslMode::Require)).await;
    assert!(matches!(required.unwrap_err(), sqlx::Error::Tls(_)));
    Ok(())
}

#[tokio::test]
async fn a_request_to_cancel_passes_through() -> anyhow::Result<()> {
    let mut bench = Bench::new("cancelled").await?;
    let mut session = RawSession::open(&bench.proxy, "to be cancelled").await?;
    session.send(&RawSession::message(b'Q', b"SELECT pg_sleep(600)\0")?).await?;
    bench.until("SELECT count(*) = 1 FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)'").await?;
    let mut cancel = TcpStream::connect(bench.proxy.addr()).await?;
    let request = [&16_u32.to_be_bytes()[..], &80_877_102_u32.to_be_bytes(), &session.key].concat();
    cancel.write_all(&request).await?;
    let answer = soon(session.read_until(b'Z')).await??;
    let error = answer.iter().find(|(tag, _)| *tag == b'E').map(|(_, body)| String::from_utf8_lossy(body));
    assert!(error.is_some_and(|error| error.contains("C57014")), "canceling statement due to user request");
    Ok(())
}
