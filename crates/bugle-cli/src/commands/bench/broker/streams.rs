//! Pops that wait as streams of few HTTP/2 connections, as behind a proxy.

use super::caller::lost;
use crate::failure::Failure;
use bytes::Bytes;
use http_body_util::Empty;
use hyper::Request;
use hyper::client::conn::http2::handshake;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const CONNECTIONS: usize = 100;
/// Until those who have asked are known to the server: so long, and so long for each.
const SETTLE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_micros(100));

/// Opens so many and returns when they wait. They end when this is dropped.
pub(super) async fn wait(address: SocketAddr, queue: &str, streams: usize) -> Result<JoinSet<()>, Failure> {
    let mut tasks = JoinSet::new();
    let uri = format!("http://{address}/api/v1/pop/queue/{queue}?wait=true&timeout=600000");
    for nth in 0..CONNECTIONS {
        let stream =
            TcpStream::connect(address).await.map_err(|e| Failure::system("reach the server", &e))?;
        let (sender, connection) =
            handshake(TokioExecutor::new(), TokioIo::new(stream)).await.map_err(lost)?;
        tasks.spawn(async move {
            let _ = connection.await;
        });
        let share = streams / CONNECTIONS + usize::from(nth < streams % CONNECTIONS);
        for _ in 0..share {
            let mut sender = sender.clone();
            let request = Request::get(&uri).body(Empty::<Bytes>::new());
            let request = request.map_err(|e| Failure::server(e.to_string()))?;
            sender.ready().await.map_err(lost)?;
            let answer = sender.send_request(request);
            tasks.spawn(async move {
                let _ = answer.await; // it waits until it is dropped
            });
        }
    }
    tokio::time::sleep(SETTLE.0 + SETTLE.1 * u32::try_from(streams).unwrap_or(u32::MAX)).await;
    Ok(tasks)
}
