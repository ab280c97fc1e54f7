//! Clients that are slow or silent: none of them is waited for without end. That it ends is what is asserted, not when.
use crate::fixture::{HOUR, LOOPBACK, SOON, Site, node};
use bugle_server::{Options, Patience, Tls};
use bugle_testkit::postgres::TestDb;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The shortest time that a client on a busy machine keeps easily.
const SHORT: Duration = Duration::from_secs(2);

/// Nobody is hurried.
const PATIENT: Patience = Patience { head: HOUR, body_part: HOUR, body: HOUR, answer: HOUR };

const PUSH_HEAD: &str = "POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n";

async fn site(patience: Patience) -> Site {
    let db = TestDb::schema().await.unwrap();
    let bugle = node(&db, bugle::wake_engine::Options::default()).await;
    Site::serve(db, bugle, Options { patience, ..Options::new(LOOPBACK.parse().unwrap()) }).await
}

/// A client that has said this.
async fn said(site: &Site, text: &str) -> TcpStream {
    let address = site.url.split_once("://").unwrap().1;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// What the server says until it closes.
async fn until_closed(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    let reading = async {
        // A connection that is reset is closed as well.
        let _ = stream.read_to_end(&mut answer).await;
    };
    tokio::time::timeout(SOON, reading).await.expect("the server waits without end");
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn who_does_not_say_what_it_wants_is_let_go() {
    let site = site(Patience { head: SHORT, ..PATIENT }).await;
    let mut silent = Vec::new();
    for beginning in
        ["", "P", "PRI * HTTP/2.0\r\n\r\nSM", "GET /livez HT", "GET /livez HTTP/1.1\r\nhost: loc"]
    {
        silent.push((beginning, said(&site, beginning).await));
    }
    let idle = said(&site, "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    for (beginning, stream) in silent {
        let answer = until_closed(stream).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{beginning:?}: {answer}");
    }
    let answer = until_closed(idle).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "answered, then closed: {answer}");
}

#[tokio::test]
async fn who_says_nothing_behind_tls_is_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let tls = Tls { certificate: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
    std::fs::write(&tls.certificate, made.cert.pem()).unwrap();
    std::fs::write(&tls.key, made.signing_key.serialize_pem()).unwrap();
    let db = TestDb::schema().await.unwrap();
    let bugle = node(&db, bugle::wake_engine::Options::default()).await;
    let patience = Patience { head: SHORT, ..PATIENT };
    let options = Options { patience, tls: Some(tls), ..Options::new(LOOPBACK.parse().unwrap()) };
    let site = Site::serve(db, bugle, options).await;
    assert_eq!(until_closed(said(&site, "").await).await, "", "before the handshake");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_answered_408() {
    let site = site(Patience { body_part: SHORT, ..PATIENT }).await;
    let stalled = said(&site, &format!("{PUSH_HEAD}{{")).await;
    let answer = until_closed(stalled).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("the body did not arrive in time; send it again"), "{answer}");
}

#[tokio::test]
async fn a_body_that_comes_byte_by_byte_is_answered_408() {
    let site = site(Patience { body: SHORT, ..PATIENT }).await;
    let mut stream = said(&site, PUSH_HEAD).await;
    let mut first = [0; 12];
    let dripping = async {
        loop {
            tokio::select! {
                read = stream.read_exact(&mut first) => break read.map(|_| ()),
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
            }
            stream.write_all(b" ").await?; // never a long pause, and never an end
        }
    };
    tokio::time::timeout(SOON, dripping).await.expect("the server waits without end").unwrap();
    assert_eq!(std::str::from_utf8(&first), Ok("HTTP/1.1 408"));
}

#[tokio::test]
async fn who_does_not_read_is_let_go() {
    let site = site(Patience { answer: SHORT, ..PATIENT }).await;
    let ask = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut stream = said(&site, ask).await;
    // The answers fill what the sockets hold, then the requests do, and then only the end is left.
    let asking = async { while stream.write_all(ask.as_bytes()).await.is_ok() {} };
    tokio::time::timeout(SOON, asking).await.expect("the server waits without end");
    assert_eq!(site.get("/livez").await.status.as_u16(), 200);
}

#[tokio::test]
async fn a_pop_may_wait_longer_than_slow_clients_are_waited_for() {
    let site = site(Patience { head: SHORT, body_part: SHORT, body: SHORT, answer: SHORT }).await;
    let wait = format!("/api/v1/pop/queue/q?wait=true&timeout={}", (SHORT * 2).as_millis());
    let second = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let (first, second) = tokio::join!(site.get(&wait), second.get(site.path(&wait)).send());
    assert_eq!((first.status.as_u16(), second.unwrap().status().as_u16()), (204, 204));
}
