//! The recorder keeps what was written, whoever dies.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bugle_testkit::history::{Event, FaultKind, History, Item, Op, Phase, Recorder, RecorderClient};

const TIMEOUT: Duration = Duration::from_secs(30);
const SOCKET: &str = "BUGLE_TEST_RECORDER";

#[test]
fn a_call_has_an_invoke_and_its_answers_in_order() {
    let recorder = Recorder::new();
    let client = recorder.client();
    let items = [Item::job(1).token(9), Item::job(2).token(9)];
    let call = client.invoke(Event::new("worker-1#1", Op::Ack).queue("mail").items(items.clone())).unwrap();
    call.ok(|answer| answer.items([items[0].clone()])).unwrap();
    call.refused(|answer| answer.items([items[1].clone()]).cause("lease lost")).unwrap();
    let window = client.fault(FaultKind::Killed, Some("worker-1#1")).unwrap();
    window.end().unwrap();

    let history = recorder.history();
    let events = history.events();
    let phases: Vec<_> = events.iter().map(|event| (event.n, event.op, event.phase)).collect();
    assert_eq!(
        phases,
        [
            (1, Op::Ack, Phase::Invoke),
            (2, Op::Ack, Phase::Ok),
            (3, Op::Ack, Phase::Refused),
            (4, Op::Fault, Phase::Invoke),
            (5, Op::Fault, Phase::Ok),
        ]
    );
    assert!(events[..3].iter().all(|event| event.call == events[0].call));
    assert_ne!(events[0].call, events[3].call);
    assert_eq!(events[4].fault.as_ref().unwrap().victim.as_deref(), Some("worker-1#1"));
    assert!(events.is_sorted_by_key(|event| event.t_ns));
}

#[test]
fn events_of_several_connections_are_ordered_by_when_they_happened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recorder");
    let recorder = Recorder::new();
    recorder.listen(&path).unwrap();
    let clients = [RecorderClient::connect(&path).unwrap(), RecorderClient::connect(&path).unwrap()];
    for round in 0..100 {
        let call = clients[round % 2].invoke(Event::new(&format!("w{round}#1"), Op::Claim)).unwrap();
        call.unknown("cut off").unwrap();
    }
    drop(clients);
    let history = recorder.finish(TIMEOUT).unwrap();
    let who: Vec<_> = history.events().iter().map(|event| event.who.to_string()).collect();
    let expected: Vec<_> =
        (0..100).flat_map(|round| [format!("w{round}#1"), format!("w{round}#1")]).collect();
    assert_eq!(who, expected);
    assert_eq!((recorder.torn(), recorder.malformed()), (0, 0));
}

#[test]
fn a_torn_line_is_dropped_and_counted_and_a_strange_one_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recorder");
    let recorder = Recorder::new();
    recorder.listen(&path).unwrap();
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"{\"no\":\"event\"}\n{\"n\":0,\"t_ns\":1,\"wh").unwrap();
    drop(stream);
    let history = recorder.finish(TIMEOUT).unwrap();
    assert!(history.events().is_empty());
    assert_eq!((recorder.torn(), recorder.malformed()), (1, 1));
}

#[test]
fn an_open_connection_is_not_mistaken_for_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recorder");
    let recorder = Recorder::new();
    recorder.listen(&path).unwrap();
    let client = RecorderClient::connect(&path).unwrap();
    let error = recorder.finish(Duration::from_millis(50)).unwrap_err();
    assert_eq!(error.to_string(), "1 connections still open");
    drop(client);
    recorder.finish(TIMEOUT).unwrap();
}

#[test]
fn a_saved_history_is_loaded_unchanged() {
    let recorder = Recorder::new();
    let client = recorder.client();
    let due = Some("2026-01-02T03:04:05.000006Z".parse().unwrap());
    let item = Item { key: Some("k".into()), due, max_attempts: Some(3), ..Item::default() };
    client.invoke(Event::new("producer#1", Op::Enqueue).queue("mail").items([item])).unwrap();
    client.fault(FaultKind::Other("disk_full".into()), None).unwrap();
    client.heal().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    recorder.history().save(file.path()).unwrap();
    assert_eq!(History::load(file.path()).unwrap(), recorder.history());
}

/// Not a test of its own: the child of the test below.
#[test]
fn a_child_that_records_until_it_is_killed() {
    let Ok(path) = std::env::var(SOCKET) else { return };
    let client = RecorderClient::connect(path).unwrap();
    for id in 0.. {
        client.invoke(Event::new("child#1", Op::Cancel).items([Item::job(id)])).unwrap();
    }
}

#[test]
fn a_killed_child_leaves_everything_it_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recorder");
    let recorder = Recorder::new();
    recorder.listen(&path).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_child_that_records_until_it_is_killed"])
        .env(SOCKET, &path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while recorder.count() < 100 {
        assert!(began.elapsed() < TIMEOUT, "the child does not record");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let history = recorder.finish(TIMEOUT).unwrap();
    let jobs: Vec<_> = history.events().iter().filter_map(|event| event.items[0].job).collect();
    assert!(
        jobs.iter().copied().eq(0..i64::try_from(jobs.len()).unwrap()),
        "nothing in the middle is missing"
    );
    assert!(recorder.torn() <= 1);
}
