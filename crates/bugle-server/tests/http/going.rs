//! Clients that go, and servers that stop.
use crate::fixture::{Site, until};
use crate::pop::wait;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const WAIT: &str = "/api/v1/pop/queue/q?wait=true&timeout=3600000";

#[tokio::test]
async fn a_client_that_goes_while_it_waits_is_forgotten() {
    let site = Site::new().await;
    let waiter = wait(&site, WAIT);
    site.waiting(1).await;
    waiter.abort();
    site.waiting(0).await;
    site.push("p", [1]).await;
    let popped = site.pop("").await;
    assert_eq!((popped.payloads(), &popped.json["messages"][0]["retryCount"]), (vec![1], &json!(0)));
}

/// The claim is made and the client goes before it has read: what was not taken is handed back, and what was is kept by its lease alone.
#[tokio::test]
async fn nothing_is_lost_when_clients_go_at_the_moment_of_a_push() {
    let site = Site::new().await;
    site.execute("SELECT bugle.configure_queue('q', '{\"lease_seconds\": 1}')").await;
    for round in 0..20 {
        let waiter = wait(&site, WAIT);
        site.waiting(1).await;
        let (push, ()) = tokio::join!(site.push("p", [round]), async { waiter.abort() });
        let () = push;
        site.waiting(0).await;
        let popped = site.get("/api/v1/pop/queue/q?wait=true&autoAck=true&timeout=3600000").await;
        assert_eq!(popped.payloads(), [round]);
    }
}

#[tokio::test]
async fn an_http_2_stream_that_is_reset_is_forgotten() {
    let site = Site::new().await;
    let http = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let request = http.get(site.path(WAIT));
    let waiter = tokio::spawn(async move { request.send().await });
    site.waiting(1).await;
    let live = http.get(site.path("/livez")).send().await.unwrap();
    assert_eq!(
        (live.status().as_u16(), live.version()),
        (200, reqwest::Version::HTTP_2),
        "beside it, on one connection"
    );
    waiter.abort();
    site.waiting(0).await;
}

#[tokio::test]
async fn a_server_that_stops_answers_those_who_wait_and_lets_nobody_in() {
    let mut site = Site::new().await;
    let waiters: Vec<_> = (0..5).map(|_| wait(&site, WAIT)).collect();
    site.waiting(5).await;
    site.stop().await;
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap().status.as_u16(), 204);
    }
    assert!(site.http.get(site.path("/livez")).send().await.unwrap_err().is_connect());
    site.bugle.close().await;
    let held: i64 = site.one("SELECT count(*) FROM bugle.group_cursor WHERE held").await;
    assert_eq!(held, 0);
}

#[tokio::test]
async fn what_was_claimed_for_those_who_wait_is_handed_back_when_the_server_stops() {
    let mut site = Site::new().await;
    let waiters: Vec<_> = (0..20).map(|_| wait(&site, WAIT)).collect();
    site.waiting(20).await;
    // Pushes and the stop at once: some are answered with messages, some with nothing.
    let push = |n: i64| json!({"items": [{"queue": "q", "partition": n.to_string(), "payload": n}]});
    let pushes = (0..20).map(|n| site.http.post(site.path("/api/v1/push")).json(&push(n)).send());
    let pushes: Vec<_> = pushes.map(tokio::spawn).collect();
    site.stop.cancel();
    let mut accepted = 0;
    for push in pushes {
        accepted += i64::from(push.await.unwrap().is_ok_and(|response| response.status().is_success()));
    }
    let mut popped = 0;
    for waiter in waiters {
        let answer = waiter.await.unwrap();
        popped += i64::from(answer.status.as_u16() == 200);
    }
    site.stop().await;
    site.bugle.close().await;
    let held = "SELECT count(*) FROM bugle.group_cursor c WHERE held AND NOT EXISTS (SELECT FROM bugle.group_cursor d WHERE d.part = c.part AND d.grp = c.grp AND d.ver > c.ver)";
    until("the others are handed back", async || site.one::<i64>(held).await == popped).await;
    assert!(popped <= accepted, "{popped} of {accepted}");
}

/// As a load balancer that sends half a request and then nothing.
#[tokio::test]
async fn clients_that_say_nothing_harm_nobody() {
    let site = Site::new().await;
    let address = site.url.trim_start_matches("http://");
    let mut silent = Vec::new();
    for beginning in
        ["", "GET /livez HT", "POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{"]
    {
        for _ in 0..50 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(beginning.as_bytes()).await.unwrap();
            silent.push(stream);
        }
    }
    site.push("p", [1]).await;
    assert_eq!(site.pop("autoAck=true").await.payloads(), [1]);
    let mut last = silent.pop().unwrap();
    last.write_all(b"x").await.unwrap();
    drop(silent);
    last.shutdown().await.unwrap();
    let mut rest = Vec::new();
    last.read_to_end(&mut rest).await.unwrap();
    assert_eq!(site.get("/livez").await.status.as_u16(), 200);
}
