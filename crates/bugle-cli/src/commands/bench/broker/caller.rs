//! A client of the broker over HTTP: one connection that is kept, one request at a time on it.

use crate::failure::Failure;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::net::SocketAddr;
use tokio::net::TcpStream;

pub(super) struct Caller {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

/// What a pop answers, as far as it is needed to ack it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Popped {
    consumer_group: String,
    pub(super) messages: Vec<Message>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message {
    transaction_id: String,
    partition_id: String,
    lease_id: String,
    pub(super) data: Box<RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Acks<'a> {
    consumer_group: &'a str,
    acknowledgments: Vec<Ack<'a>>,
}

/// What an ack answers, as far as it is needed to see that it counted.
#[derive(Deserialize)]
struct Acked {
    success: bool,
    error: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Ack<'a> {
    transaction_id: &'a str,
    partition_id: &'a str,
    lease_id: &'a str,
    status: &'static str,
}

impl Caller {
    pub(super) async fn connect(address: SocketAddr) -> Result<Self, Failure> {
        let stream =
            TcpStream::connect(address).await.map_err(|e| Failure::system("reach the server", &e))?;
        stream.set_nodelay(true).map_err(|e| Failure::system("set up a connection", &e))?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(lost)?;
        tokio::spawn(connection); // until one of both sides is gone
        Ok(Self { sender, host: address.to_string() })
    }

    /// So many of them.
    pub(super) async fn many(address: SocketAddr, count: usize) -> Result<Vec<Self>, Failure> {
        let mut callers = Vec::with_capacity(count);
        for _ in 0..count {
            callers.push(Self::connect(address).await?);
        }
        Ok(callers)
    }

    pub(super) async fn push(&mut self, body: Bytes) -> Result<(), Failure> {
        self.send(Method::POST, "/api/v1/push", body, StatusCode::CREATED).await.map(drop)
    }

    /// `None`: there was nothing.
    pub(super) async fn pop(&mut self, path: &str) -> Result<Option<Popped>, Failure> {
        let (status, body) = self.request(Method::GET, path, Bytes::new()).await?;
        match status {
            StatusCode::NO_CONTENT => Ok(None),
            StatusCode::OK => {
                let popped: Popped = serde_json::from_slice(&body)
                    .map_err(|e| Failure::server(format!("a pop's answer cannot be read: {e}")))?;
                Ok((!popped.messages.is_empty()).then_some(popped))
            }
            status => Err(refused(status, &body)),
        }
    }

    /// Acks all that was popped.
    pub(super) async fn ack(&mut self, popped: &Popped) -> Result<(), Failure> {
        let acknowledgments = popped
            .messages
            .iter()
            .map(|message| Ack {
                transaction_id: &message.transaction_id,
                partition_id: &message.partition_id,
                lease_id: &message.lease_id,
                status: "completed",
            })
            .collect();
        let acks = Acks { consumer_group: &popped.consumer_group, acknowledgments };
        let body = serde_json::to_vec(&acks).map_err(|e| Failure::server(e.to_string()))?;
        let answer = self.send(Method::POST, "/api/v1/ack/batch", body.into(), StatusCode::OK).await?;
        let acked: Vec<Acked> = serde_json::from_slice(&answer)
            .map_err(|e| Failure::server(format!("an ack's answer cannot be read: {e}")))?;
        match acked.iter().find(|acked| !acked.success) {
            Some(Acked { error, .. }) => Err(Failure::server(format!(
                "the server did not ack what it had handed out: {}",
                error.as_deref().unwrap_or("it does not say why")
            ))),
            None => Ok(()),
        }
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
        wanted: StatusCode,
    ) -> Result<Bytes, Failure> {
        let (status, answer) = self.request(method, path, body).await?;
        if status != wanted {
            return Err(refused(status, &answer));
        }
        Ok(answer)
    }

    async fn request(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.host)
            .header("content-type", "application/json")
            .body(Full::new(body))
            .map_err(|e| Failure::server(e.to_string()))?;
        self.sender.ready().await.map_err(lost)?;
        let answer = self.sender.send_request(request).await.map_err(lost)?;
        let status = answer.status();
        Ok((status, answer.into_body().collect().await.map_err(lost)?.to_bytes()))
    }
}

#[allow(clippy::needless_pass_by_value)] // as map_err hands it over
pub(super) fn lost(error: hyper::Error) -> Failure {
    Failure::server(format!("a connection to the server was lost: {error}"))
}

fn refused(status: StatusCode, body: &[u8]) -> Failure {
    Failure::server(format!("the server answered {status}: {}", String::from_utf8_lossy(body)))
}
