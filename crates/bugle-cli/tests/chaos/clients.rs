//! Producers and consumers over HTTP, every request recorded before it is sent and after it was answered.
use bugle_testkit::chaos::{GROUPS, LAG_MAX, Messenger, PARTITIONS, QUEUE, Run, message_token};
use bugle_testkit::history::{Call, Event, Item, Op, RecorderClient};
use bugle_testkit::until;
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Before a request that was not answered with yes is made again.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a pop waits.
const WAIT_MILLISECONDS: u64 = 5_000;
/// An ack is tried so often.
const ACK_TRIES: usize = 20;

/// A client that keeps its connections.
pub(crate) fn http() -> Client {
    // It asks for one even where it speaks in the clear.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().build().unwrap()
}

/// Every client is an open file, and the usual limit of 1,024 is few.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

/// Where the servers are.
#[derive(Clone)]
pub(crate) struct Site(Arc<RwLock<[String; 2]>>);

impl Site {
    pub(crate) fn new(urls: [String; 2]) -> Self {
        Self(Arc::new(RwLock::new(urls)))
    }

    pub(crate) fn put(&self, place: usize, url: String) {
        self.0.write().unwrap()[place] = url;
    }

    fn url(&self, place: usize) -> String {
        self.0.read().unwrap()[place].clone()
    }
}

/// Consumers that wait, and producers.
pub(crate) struct Crowd {
    tasks: JoinSet<()>,
    stop: CancellationToken,
    /// Messages that consumers were handed.
    popped: Arc<AtomicU64>,
}

impl Crowd {
    pub(crate) fn start(run: &Run, site: &Site, consumers: usize, producers: usize) -> Self {
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        raise_file_limit();
        let (http, popped) = (http(), Arc::new(AtomicU64::new(0)));
        let client = |who: String, at| Recorded {
            http: http.clone(),
            site: site.clone(),
            recorder: run.recorder.client(),
            who,
            at,
        };
        for number in 0..consumers {
            let group = GROUPS[number % GROUPS.len()];
            let client = client(format!("consumer-{number}"), 0);
            tasks.spawn(consume(client, group, stop.clone(), popped.clone()));
        }
        for number in 0..producers {
            let client = client(format!("producer-{number}"), number % 2);
            let lag = run.messenger(&run.bugle, "lag");
            tasks.spawn(produce(client, number, lag, stop.clone()));
        }
        Self { tasks, stop, popped }
    }

    /// Waits until messages come again, with the servers that there are now.
    pub(crate) async fn until_answered_anew(&self) {
        let before = self.popped.load(Ordering::Relaxed);
        until("messages come again", async || self.popped.load(Ordering::Relaxed) > before + 50).await;
    }

    /// Lets everybody finish what they are at.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.tasks.join_all().await;
    }
}

/// A client that goes to the other server when one does not answer.
struct Recorded {
    http: Client,
    site: Site,
    recorder: RecorderClient,
    who: String,
    at: usize,
}

/// What a consumer was handed.
struct Popped {
    items: Vec<Item>,
    /// What acks them.
    acks: Vec<Value>,
}

impl Recorded {
    fn event(&self, op: Op) -> Event {
        Event::new(&self.who, op).queue(QUEUE)
    }

    fn path(&self, path: &str) -> String {
        format!("{}/api/v1/{path}", self.site.url(self.at))
    }

    /// What was answered; `None`: not yes, and that is recorded.
    async fn send(&mut self, call: &Call, request: RequestBuilder) -> Option<(StatusCode, Value)> {
        let answer = async {
            let response = request.send().await?;
            let (status, bytes) = (response.status(), response.bytes().await?);
            Ok::<_, reqwest::Error>((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
        };
        match answer.await {
            Ok((status, json)) if status.is_success() => return Some((status, json)),
            Ok((_, json)) if json["outcome"] == "unknown" => call.unknown(&json.to_string()).unwrap(),
            Ok((status, json)) => {
                call.refused(|event| event.cause(&format!("{status} {json}"))).unwrap();
            }
            Err(error) => {
                self.at = 1 - self.at;
                if error.is_connect() {
                    call.refused(|event| event.cause("nobody is there")).unwrap();
                } else {
                    call.unknown(&error.to_string()).unwrap();
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
        None
    }

    async fn push(&mut self, partition: &str, marks: &[u64]) -> bool {
        let item =
            |mark: &u64| Item { mark: Some(*mark), partition: Some(partition.into()), ..Item::default() };
        let call = self.recorder.invoke(self.event(Op::Push).items(marks.iter().map(item))).unwrap();
        let message = |mark: &u64| json!({"queue": QUEUE, "partition": partition, "payload": mark, "transactionId": mark.to_string()});
        let items: Vec<Value> = marks.iter().map(message).collect();
        let request = self.http.post(self.path("push")).json(&json!({ "items": items }));
        let Some((_, answers)) = self.send(&call, request).await else { return false };
        let answers = answers.as_array().unwrap();
        let is_there = |answer: &Value| matches!(answer["status"].as_str(), Some("queued" | "duplicate"));
        assert!(answers.len() == marks.len() && answers.iter().all(is_there), "{answers:?}");
        call.ok(|event| event.items(marks.iter().map(|_| Item::default()))).unwrap();
        true
    }

    async fn pop(&mut self, group: &str) -> Option<Popped> {
        let call = self.recorder.invoke(self.event(Op::Pop).group(group)).unwrap();
        let query =
            format!("pop/queue/{QUEUE}?consumerGroup={group}&batch=5&wait=true&timeout={WAIT_MILLISECONDS}");
        let request = self.http.get(self.path(&query));
        let (_, json) = self.send(&call, request).await?;
        let messages = json["messages"].as_array().map_or(&[][..], Vec::as_slice);
        let item = |message: &Value| Item {
            partition: message["partition"].as_str().map(Into::into),
            mark: message["data"].as_u64(),
            attempt: message["retryCount"].as_i64().and_then(|tries| tries.try_into().ok()),
            token: message["leaseId"].as_str().and_then(|id| id.parse().ok()).map(message_token),
            ..Item::default()
        };
        let ack = |message: &Value| {
            json!({
                "transactionId": message["transactionId"], "partitionId": message["partitionId"],
                "leaseId": message["leaseId"], "consumerGroup": group,
            })
        };
        let popped =
            Popped { items: messages.iter().map(item).collect(), acks: messages.iter().map(ack).collect() };
        call.ok(|event| event.items(popped.items.clone())).unwrap();
        (!popped.items.is_empty()).then_some(popped)
    }

    /// `false`: it was not answered.
    async fn ack(&mut self, group: &str, popped: &Popped) -> bool {
        let event = self.event(Op::Ack).group(group).items(popped.items.clone());
        let call = self.recorder.invoke(event).unwrap();
        let body = json!({ "acknowledgments": popped.acks });
        let request = self.http.post(self.path("ack/batch")).json(&body);
        let Some((_, answers)) = self.send(&call, request).await else { return false };
        let answers = answers.as_array().unwrap();
        assert_eq!(answers.len(), popped.items.len());
        let (done, lost): (Vec<_>, Vec<_>) =
            popped.items.iter().zip(answers).partition(|(_, answer)| answer["success"] == true);
        let items =
            |of: Vec<(&Item, &Value)>| of.into_iter().map(|(item, _)| item.clone()).collect::<Vec<_>>();
        if !done.is_empty() {
            call.ok(|event| event.items(items(done))).unwrap();
        }
        if !lost.is_empty() {
            call.refused(|event| event.items(items(lost)).cause("lost")).unwrap();
        }
        true
    }
}

async fn consume(mut client: Recorded, group: &str, stop: CancellationToken, count: Arc<AtomicU64>) {
    while !stop.is_cancelled() {
        let Some(popped) = client.pop(group).await else { continue };
        count.fetch_add(u64::try_from(popped.items.len()).unwrap(), Ordering::Relaxed);
        if rand::random_ratio(1, 50) {
            continue; // forgotten: the lease has to end by itself
        }
        for _ in 0..ACK_TRIES {
            if client.ack(group, &popped).await {
                break;
            }
        }
    }
}

/// Pushes until told to stop, each message until that is answered with yes.
async fn produce(mut client: Recorded, number: usize, lag: Messenger, stop: CancellationToken) {
    let mut marks = ((u64::try_from(number).unwrap() + 1) << 32)..;
    while !stop.is_cancelled() {
        let some: Vec<u64> = marks.by_ref().take(rand::random_range(1..=6)).collect();
        let partition = format!("p{}", rand::random_range(0..PARTITIONS));
        while !client.push(&partition, &some).await {}
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..20))).await;
        while !stop.is_cancelled() && lag.lag().await.is_none_or(|lag| lag > LAG_MAX) {
            tokio::time::sleep(PAUSE).await;
        }
    }
}
