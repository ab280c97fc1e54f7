//! Serving messages over HTTP.

use super::{Ran, Running, Site, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

/// A server that says where it listens.
pub(crate) fn serve(site: &Site) -> (Running, String) {
    let mut command = site.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
    let mut server = Running(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(told["open"], true);
    (server, told["listening"].as_str().unwrap().trim_start_matches("http://").to_owned())
}

pub(crate) fn send(address: &str, request: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!(
        "{request} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    stream
}

/// The status and the body of what is answered.
pub(crate) fn answer(mut stream: TcpStream) -> (u16, String) {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test]
async fn two_servers_of_one_database_wake_each_other_and_stop_in_order() {
    let site = Site::new().await;
    let ((mut one, here), (mut two, there)) = (serve(&site), serve(&site));
    let waiting = send(&there, "GET /api/v1/pop/queue/orders?wait=true&timeout=3600000", "");
    eventually("it waits", || answer(send(&there, "GET /metrics", "")).1.contains("\nbugle_intentions 1\n"));
    let items = json!({"items": [{"queue": "orders", "payload": {"order": 42}}]}).to_string();
    assert_eq!(answer(send(&here, "POST /api/v1/push", &items)).0, 201);
    let (status, body) = answer(waiting);
    assert_eq!(status, 200);
    assert!(body.contains(r#""data":{"order":42}"#) || body.contains(r#""data":{"order": 42}"#), "{body}");

    let waiting = send(&there, "GET /api/v1/pop/queue/orders?wait=true&timeout=3600000", "");
    eventually("it waits", || answer(send(&there, "GET /metrics", "")).1.contains("\nbugle_intentions 1\n"));
    two.signal(Signal::TERM);
    assert_eq!(answer(waiting).0, 204, "who waits is answered");
    assert_eq!(two.end(), 0);
    one.signal(Signal::INT);
    assert_eq!(one.end(), 0);
}

#[tokio::test]
async fn an_address_for_others_is_refused_without_keys() {
    let site = Site::new().await;
    let ran = site.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("bugle key create"), "{}", ran.stderr);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = site.run(&["serve", "--listen", &address]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("cannot listen on {address}")), "{}", ran.stderr);
    let ran = site.run(&["serve", "--listen", "127.0.0.1:0", "--jwt-secret-file", "/nowhere"]);
    assert!(ran.code == 1 && ran.stderr.contains("/nowhere cannot be read"), "{}", ran.stderr);
}

#[tokio::test]
async fn variables_of_the_first_design_say_what_they_mean_now() {
    let site = Site::new().await;
    let mut command = site.command(&["serve", "--listen", "0.0.0.0:0"]);
    command.env("POLL_INTERVAL_MS", "100").env("BUGLE_LISTEN", "127.0.0.1:1");
    let ran = Ran::of(command);
    assert!(ran.stderr.contains("POLL_INTERVAL_MS is set and changes nothing"), "{}", ran.stderr);
    assert!(ran.stderr.contains("0.0.0.0"), "what is typed goes before what is set: {}", ran.stderr);
}
