//! Ten thousand clients that keep their connections and say nothing, and others that go on.

use super::serve::{answer, send, serve};
use super::{Running, Site};
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// As many as there shall be, where so many files may be open.
const IDLE_MAX: usize = 10_000;
/// With fewer it would prove nothing.
const IDLE_MIN: usize = 500;
/// Files of this process and of the server that are no idle connections.
const OTHER_FILES: usize = 300;
/// One idle connection may cost so much.
const IDLE_BYTES_MAX: u64 = 32 * 1024;
/// Pushes and pops of the others, each with a payload of this size: were they kept, that would be eight times what is allowed.
const ROUNDS: usize = 500;
const PAYLOAD_BYTES: usize = 64 * 1024;
const GROWTH_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// As many as may be open, once that limit is as high as it may be.
fn idle_connections() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let most = limit.maximum.map_or(usize::MAX, |most| usize::try_from(most).unwrap());
    most.saturating_sub(OTHER_FILES).min(IDLE_MAX)
}

pub(crate) fn resident_bytes(server: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.0.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn ask(address: &str, stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(format!("GET /livez HTTP/1.1\r\nhost: {address}\r\n\r\n").as_bytes())
}

/// The whole of one answer; `None`: the connection is closed.
fn heard(stream: &mut TcpStream) -> Option<String> {
    let mut text = String::new();
    loop {
        let mut part = [0; 1024];
        let bytes = stream.read(&mut part).ok().filter(|bytes| *bytes > 0)?;
        text.push_str(std::str::from_utf8(&part[..bytes]).unwrap());
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() >= length.parse().unwrap() {
            return Some(text);
        }
    }
}

/// Connections that have each been answered once, and are kept.
fn keep_open(address: &str, count: usize) -> Vec<TcpStream> {
    let mut streams = Vec::with_capacity(count);
    // In herds: each waits for the others' answers and not for its own alone.
    while streams.len() < count {
        let mut herd = Vec::new();
        for _ in 0..(count - streams.len()).min(100) {
            let mut stream = TcpStream::connect(address).unwrap();
            ask(address, &mut stream).unwrap();
            herd.push(stream);
        }
        for stream in &mut herd {
            assert!(heard(stream).unwrap().starts_with("HTTP/1.1 200"));
        }
        streams.append(&mut herd);
    }
    streams
}

/// Pushes and pops, on connections of their own.
pub(crate) fn work(address: &str, rounds: usize) {
    let payload = "x".repeat(PAYLOAD_BYTES);
    let push = json!({"items": [{"queue": "q", "payload": payload}]}).to_string();
    for _ in 0..rounds {
        assert_eq!(answer(send(address, "POST /api/v1/push", &push)).0, 201);
        let (status, body) = answer(send(address, "GET /api/v1/pop/queue/q?autoAck=true", ""));
        assert_eq!(status, 200);
        let popped: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(popped["messages"][0]["data"].as_str().map(str::len), Some(PAYLOAD_BYTES));
    }
}

/// How many of them are answered once more: none was closed to make room for another.
fn are_open(address: &str, streams: &mut [TcpStream]) -> usize {
    let mut open = 0;
    for stream in streams {
        open += usize::from(ask(address, stream).is_ok() && heard(stream).is_some());
    }
    open
}

#[tokio::test]
async fn ten_thousand_idle_connections_cost_little_and_others_are_served() {
    let site = Site::new().await;
    let (server, address) = serve(&site);
    work(&address, 50); // the first of everything takes memory that stays
    let (idle, before) = (idle_connections(), resident_bytes(&server));
    let mut streams = keep_open(&address, idle);
    assert!(streams.len() == idle && idle >= IDLE_MIN, "only {idle} files may be open");
    let with_idle = resident_bytes(&server);
    let each = with_idle.saturating_sub(before) / u64::try_from(idle).unwrap();
    work(&address, ROUNDS / 4);
    let warm = resident_bytes(&server);
    work(&address, ROUNDS);
    let grown = resident_bytes(&server).saturating_sub(warm);
    eprintln!(
        "{idle} idle connections: {each} bytes each; {ROUNDS} pushes and pops beside them: {grown} bytes more"
    );
    assert!(each <= IDLE_BYTES_MAX, "{each} bytes for each of {idle} idle connections");
    assert!(grown <= GROWTH_BYTES_MAX, "{grown} bytes more after {ROUNDS} pushes and pops");
    assert_eq!(are_open(&address, &mut streams), idle);
}
