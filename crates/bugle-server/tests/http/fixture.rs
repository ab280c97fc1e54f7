//! A server of one test's own, and a client of it.
use bugle::Bugle;
use bugle::access::{NewKey, Right, Scope, Secret};
use bugle_server::{Jwt, Options, Server};
use bugle_testkit::postgres::TestDb;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use sqlx::postgres::PgPoolOptions;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) use bugle_testkit::{SOON, until};

/// So far away that whatever happens was not caused by it.
pub(crate) const HOUR: Duration = Duration::from_hours(1);

/// Any port of this machine alone.
pub(crate) const LOOPBACK: &str = "127.0.0.1:0";

/// A Bugle whose heartbeat is an hour away.
pub(crate) async fn node(db: &TestDb, mut wake: bugle::wake_engine::Options) -> Bugle {
    wake.times.heartbeat = HOUR;
    let connect = db.connect_options().clone();
    let pool = PgPoolOptions::new().max_connections(8).connect_with(connect).await.unwrap();
    let options = bugle::Options { schema: db.schema_name().unwrap(), wake, ..bugle::Options::default() };
    Bugle::new(pool, options).await.unwrap()
}

/// A schema, a server in it, and a client.
pub(crate) struct Site {
    pub(crate) db: TestDb,
    pub(crate) bugle: Bugle,
    pub(crate) url: String,
    pub(crate) http: Client,
    pub(crate) stop: CancellationToken,
    running: Option<JoinHandle<std::io::Result<()>>>,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<String>,
    /// null when there was no body.
    pub(crate) json: Value,
}

impl Site {
    pub(crate) async fn new() -> Self {
        Self::with(bugle::wake_engine::Options::default()).await
    }

    /// A server whose engine looks at nothing by accident: its heartbeat is an hour away.
    pub(crate) async fn with(wake: bugle::wake_engine::Options) -> Self {
        let db = TestDb::schema().await.unwrap();
        let bugle = node(&db, wake).await;
        Self::serve(db, bugle, Options::new(LOOPBACK.parse().unwrap())).await
    }

    /// A server that checks tokens.
    pub(crate) async fn with_jwt(jwt: Jwt) -> Self {
        let db = TestDb::schema().await.unwrap();
        let bugle = node(&db, bugle::wake_engine::Options::default()).await;
        Self::serve(db, bugle, Options { jwt: Some(jwt), ..Options::new(LOOPBACK.parse().unwrap()) }).await
    }

    pub(crate) async fn serve(db: TestDb, bugle: Bugle, options: Options) -> Self {
        // The client asks for one even where it speaks in the clear.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = Server::bind(bugle.clone(), options).await.unwrap();
        let url = format!("{}://{}", server.scheme(), server.address());
        let stop = CancellationToken::new();
        let running = Some(tokio::spawn(server.run(stop.clone())));
        Self { db, bugle, url, http: Client::new(), stop, running }
    }

    /// Makes a key for queues whose names begin so.
    pub(crate) async fn key(
        &self,
        name: &str,
        queues: &str,
        rights: impl IntoIterator<Item = Right>,
    ) -> Secret {
        let key = NewKey::new(name).unwrap().scope(Scope::new(queues, rights).unwrap());
        self.bugle.access().create(&key).await.unwrap().0
    }

    /// From here on it is called with this key or token.
    pub(crate) fn show(&mut self, secret: &str) {
        let headers = [(reqwest::header::AUTHORIZATION, format!("Bearer {secret}").parse().unwrap())];
        self.http = Client::builder().default_headers(headers.into_iter().collect()).build().unwrap();
    }

    pub(crate) fn path(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let mut request = self.http.request(method, self.path(path));
        if let Some(body) = body {
            request = request.json(body);
        }
        Answer::of(request.send().await.unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, Some(&body)).await
    }

    /// Posts what need not be JSON.
    pub(crate) async fn post_raw(&self, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        Answer::of(self.http.post(self.path(path)).body(body).send().await.unwrap()).await
    }

    /// Pushes these payloads into a partition of the queue `q`; their transaction ids are the payloads.
    pub(crate) async fn push(&self, partition: &str, payloads: impl IntoIterator<Item = i64>) {
        let item = |n: i64| json!({"queue": "q", "partition": partition, "payload": n, "transactionId": n.to_string()});
        let items: Vec<Value> = payloads.into_iter().map(item).collect();
        let answer = self.post("/api/v1/push", json!({ "items": items })).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
        assert!(answer.list().iter().all(|item| item["status"] == "queued"), "{answer:?}");
    }

    /// Pops from the queue `q` without waiting.
    pub(crate) async fn pop(&self, query: &str) -> Answer {
        self.get(&format!("/api/v1/pop/queue/q?{query}")).await
    }

    /// Waits until so many wait and nothing is under way.
    pub(crate) async fn waiting(&self, intentions: usize) {
        until("they wait", async || {
            let status = self.bugle.node().map(bugle::wake_engine::Node::status);
            status.is_some_and(|s| s.intentions == intentions && s.looking == 0 && s.listening)
        })
        .await;
    }

    /// One value, from SQL written for the schema `bugle`.
    pub(crate) async fn one<T>(&self, sql: &str) -> T
    where
        (T,): for<'r> sqlx::FromRow<'r, sqlx::postgres::PgRow>,
        T: Send + Unpin,
    {
        sqlx::query_scalar(self.db.sql(sql).unwrap()).fetch_one(self.db.pool()).await.unwrap()
    }

    pub(crate) async fn execute(&self, sql: &str) {
        sqlx::raw_sql(self.db.sql(sql).unwrap()).execute(self.db.pool()).await.unwrap();
    }

    /// Stops the server and waits until it has.
    pub(crate) async fn stop(&mut self) {
        self.stop.cancel();
        let running = self.running.take().unwrap();
        tokio::time::timeout(SOON, running).await.expect("it did not stop").unwrap().unwrap();
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Answer {
    pub(crate) async fn of(response: reqwest::Response) -> Self {
        let status = response.status();
        let retry_after =
            response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
        let bytes = response.bytes().await.unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let json = if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        };
        Self { status, retry_after, json }
    }

    pub(crate) fn list(&self) -> &Vec<Value> {
        self.json.as_array().unwrap_or_else(|| panic!("no list: {self:?}"))
    }

    /// The sentence of an error with this status.
    pub(crate) fn error(&self, status: u16) -> &str {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        self.json["error"].as_str().unwrap_or_else(|| panic!("no error: {self:?}"))
    }

    /// The payloads of what was popped.
    pub(crate) fn payloads(&self) -> Vec<i64> {
        assert_eq!(self.status, StatusCode::OK, "{self:?}");
        let messages = self.json["messages"].as_array().unwrap();
        messages.iter().map(|message| message["data"].as_i64().unwrap()).collect()
    }

    /// What acks one of the popped messages.
    pub(crate) fn ack(&self, place: usize, status: &str) -> Value {
        let message = &self.json["messages"][place];
        json!({
            "transactionId": message["transactionId"], "partitionId": message["partitionId"],
            "leaseId": message["leaseId"], "status": status,
        })
    }
}
