//! Row 34: input that means harm, over raw sockets. It is refused, memory stays as it was, and others are served.

use super::idle_connections::{resident_bytes, work};
use super::serve::{answer, send, serve};
use super::{Running, Site};
use bugle_testkit::chaos::seed;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

/// What a body claims to be, or is, unless somebody stops it.
const GIGABYTE: usize = 1 << 30;
/// Bodies that are changed at random.
const MUTANTS: usize = 400;
/// What all of it may take, at the most and in the end; a single body may be 16 MiB, and what was used once is kept for the next.
const GROWTH_BYTES_MAX: u64 = 48 * 1024 * 1024;

const PUSH: &str = "POST /api/v1/push";
const VALID: [(&str, &str); 4] = [
    (
        PUSH,
        r#"{"items": [{"queue": "hostile", "partition": "p", "payload": {"a": [1, "é", null]}, "transactionId": "t-1"}]}"#,
    ),
    (
        "POST /api/v1/ack",
        r#"{"transactionId": "t-1", "partitionId": "00000001-0000-0000-0000-000000000000", "leaseId": "", "status": "failed", "error": "no"}"#,
    ),
    (
        "POST /api/v1/configure",
        r#"{"queue": "hostile", "options": {"leaseTime": 10, "retryLimit": 3, "ttl": 60}}"#,
    ),
    (
        "POST /api/v1/transaction",
        r#"{"operations": [{"type": "push", "items": [{"queue": "hostile", "payload": 1}]}], "requiredLeases": []}"#,
    ),
];

/// What is answered, as far as it comes: whoever sends too much may be cut off.
fn heard(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Sends a body without end, in chunks or with its length told before: how much of it was taken.
fn flood(address: &str, head: &str, chunk: &[u8]) -> (usize, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("{PUSH} HTTP/1.1\r\nhost: {address}\r\n{head}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut sent = 0;
    while sent < GIGABYTE && stream.write_all(chunk).is_ok() {
        sent += chunk.len();
    }
    (sent, heard(stream))
}

/// The most memory that it ever had.
fn peak_bytes(server: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.0.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn refuses(address: &str, what: &str, request: &str, body: &[u8]) {
    let length = body.len();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "{request} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let answer = heard(stream);
    assert!(answer.starts_with("HTTP/1.1 4"), "{what}: {answer}");
    assert!(answer.contains(r#"{"error":""#), "{what} is not explained: {answer}");
}

#[tokio::test]
async fn row_34_hostile_input_is_refused_and_harms_nobody() {
    let site = Site::new().await;
    let (server, address) = serve(&site);
    work(&address, 50); // the first of everything takes memory that stays
    let before = resident_bytes(&server);

    let slow: Vec<TcpStream> = (0..200).map(|_| half_a_head(&address)).collect();
    let megabyte = vec![b' '; 1 << 20];
    let chunk = [&b"100000\r\n"[..], &megabyte, b"\r\n"].concat();
    for (head, chunk) in [
        (format!("content-length: {GIGABYTE}"), &megabyte),
        ("transfer-encoding: chunked".to_owned(), &chunk),
    ] {
        let (sent, answer) = flood(&address, &head, chunk);
        assert!(sent < GIGABYTE / 4, "{head}: {sent} bytes were taken");
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413"), "{head}: {answer}");
    }
    let deep = format!(r#"{{"items": [{{"queue": "hostile", "payload": {}"#, "[".repeat(1 << 20));
    refuses(&address, "deep JSON", PUSH, deep.as_bytes());
    refuses(&address, "a zero in a name", PUSH, br#"{"items": [{"queue": "a\u0000b", "payload": 1}]}"#);
    refuses(
        &address,
        "a zero in an id",
        PUSH,
        br#"{"items": [{"queue": "hostile", "transactionId": "a\u0000"}]}"#,
    );
    refuses(&address, "half a character", PUSH, br#"{"items": [{"queue": "\ud800", "payload": 1}]}"#);
    refuses(&address, "no UTF-8", PUSH, b"{\"items\": [{\"queue\": \"\xc3\x28\", \"payload\": 1}]}");
    refuses(&address, "no UTF-8 in a path", "GET /api/v1/pop/queue/%C3%28", b"");
    refuses(&address, "a zero in a path", "GET /api/v1/pop/queue/a%00b", b"");
    refuses(&address, "a name without end", &format!("GET /api/v1/pop/queue/{}", "a".repeat(4_000)), b"");
    garbage(&address);
    mutants(&address);

    work(&address, 20);
    drop(slow);
    let grown = resident_bytes(&server).saturating_sub(before);
    let peak = peak_bytes(&server).saturating_sub(before);
    eprintln!("hostile input: {grown} bytes stayed, {peak} at the most");
    assert!(
        grown <= GROWTH_BYTES_MAX && peak <= GROWTH_BYTES_MAX,
        "{grown} bytes stayed, {peak} at the most"
    );
}

fn half_a_head(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /livez HTTP/1.1\r\nx-slow: ").unwrap();
    stream
}

/// What is no HTTP at all ends the connection, with or without an answer.
fn garbage(address: &str) {
    let many = format!("GET /livez HTTP/1.1\r\nhost: {address}\r\n{}\r\n", "x: y\r\n".repeat(10_000));
    for bytes in [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"\0\0\0\0\r\n\r\n", b"GET\r\n\r\n", many.as_bytes()]
    {
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = stream.write_all(bytes); // it may be cut off before the end
        let _ = stream.shutdown(Shutdown::Write);
        let answer = heard(stream);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
}

/// Requests that were right before some of their bytes were changed: done or refused, never a fault of the server.
fn mutants(address: &str) {
    let mut rng = StdRng::seed_from_u64(seed());
    for _ in 0..MUTANTS {
        let (request, body) = VALID[rng.random_range(0..VALID.len())];
        let mut body = body.as_bytes().to_vec();
        for _ in 0..rng.random_range(1..=4) {
            if body.len() < 2 {
                break;
            }
            let place = rng.random_range(0..body.len());
            match rng.random_range(0..4) {
                0 => body[place] = rng.random(),
                1 => body.insert(place, b"\"{}[],:\\0e-\x00"[rng.random_range(0..12)]),
                2 => {
                    body.remove(place);
                }
                _ => body.truncate(place.max(1)),
            }
        }
        let Ok(body) = std::str::from_utf8(&body) else {
            refuses(address, "no UTF-8", request, &body);
            continue;
        };
        let (status, said) = answer(send(address, request, body));
        assert!(status < 500, "{request} {body}: {status} {said}");
    }
}
