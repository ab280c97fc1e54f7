//! What the options of a queue do to its pops.
use crate::fixture::{Place, any, payloads};
use bugle::Outcome;
use bugle::broker::operate::QueueOptions;
use bugle::broker::{Settlement, Verdict};
use chrono::{TimeDelta, Utc};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Moves all messages into the past.
async fn age(place: &Place, seconds: i32) {
    place.execute(&format!("UPDATE bugle.message SET at = at - interval '{seconds} s'")).await;
}

#[tokio::test]
async fn a_delayed_message_is_not_popped_before_its_time() {
    let place = Place::new().await;
    place.option("delay_seconds = 60").await;
    place.push("a", [1]).await;
    assert!(place.is_empty("g").await);
    age(&place, 60).await;
    place.push("a", [2]).await;
    let popped = place.broker.pop(&any(9).group("g").unwrap()).await.unwrap().unwrap();
    assert_eq!(payloads(&popped.messages), [1], "the second is not due");
}

#[tokio::test]
async fn a_partition_is_calm_before_it_is_popped_from() {
    let place = Place::new().await;
    place.option("window_seconds = 60").await;
    place.push("a", [1]).await;
    age(&place, 59).await;
    place.push("a", [2]).await;
    age(&place, 59).await;
    assert!(place.is_empty("g").await, "its newest message is too young");
    age(&place, 1).await;
    place.execute("INSERT INTO bugle.news (queue) SELECT id FROM bugle.queue").await; // time was moved behind the node's back
    let popped = place.broker.pop(&any(9).group("g").unwrap()).await.unwrap().unwrap();
    assert_eq!(payloads(&popped.messages), [1, 2], "all at once");
}

#[tokio::test]
async fn a_message_outlives_its_time_only_where_none_was_set() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    age(&place, 100_000_000).await;
    assert!(!place.is_empty("g").await, "no default deletes");
    place.option("ttl_seconds = 60").await;
    place.push("a", [2]).await;
    let popped = place.broker.pop(&any(9).group("h").unwrap()).await.unwrap().unwrap();
    assert_eq!(payloads(&popped.messages), [2]);
}

#[tokio::test]
async fn whoever_waits_for_a_delayed_message_gets_it_on_time() {
    let place = Place::new().await;
    place.option("delay_seconds = 1").await;
    let bugle = place.node().await;
    place.push("a", [1]).await;
    let popped = bugle.broker().pop_within(&any(1), crate::fixture::SOON).await.unwrap().unwrap();
    let at = popped.messages[0].at;
    let early =
        place.one::<bool>(&format!("SELECT clock_timestamp() < '{at}'::timestamptz + interval '1 s'")).await;
    assert!(!early);
}

#[tokio::test]
async fn a_message_that_has_waited_too_long_is_not_popped() {
    let place = Place::new().await;
    place.option("wait_seconds_max = 60").await;
    place.push("a", [1]).await;
    age(&place, 61).await;
    place.push("a", [2]).await;
    let popped = place.broker.pop(&any(9).group("g").unwrap()).await.unwrap().unwrap();
    assert_eq!(payloads(&popped.messages), [2]);
}

/// What every client of Queen sends for what nobody has set. Nought is not a time: no message goes because of it.
#[tokio::test]
async fn an_option_that_is_nought_deletes_nothing() {
    let place = Place::new().await;
    let nought = QueueOptions {
        lease_seconds: Some(300),
        retry_limit: Some(3),
        retry_delay_ms: Some(0),
        delay_seconds: Some(0),
        window_seconds: Some(0),
        messages_max: Some(0),
        ttl_seconds: Some(0),
        priority: Some(0),
        retention_enabled: Some(true),
        retention_seconds: Some(0),
        completed_retention_seconds: Some(0),
        wait_seconds_max: Some(0),
        encryption_enabled: Some(false),
        dead_letter_queue: Some(false),
        dead_letter_after_retries: Some(false),
        ..QueueOptions::default()
    };
    place.broker.configure("q", &nought).await.unwrap();
    assert_eq!(place.broker.show_queue("q").await.unwrap().unwrap().0.options, nought);
    place.push("a", [1]).await;
    age(&place, 100_000_000).await;
    let done = place.broker.maintain(Some(Utc::now() + TimeDelta::days(10_000))).await.unwrap();
    assert_eq!((done.floors, done.dropped), (0, 0));
    let mut popped = place.pop(9).await;
    assert_eq!(payloads(&popped.messages), [1]);
    for _ in 0..3 {
        assert_eq!(place.settle(&popped, Verdict::Fail).await, [Settlement::Retried]);
        popped = place.pop(9).await;
    }
    assert_eq!(
        place.settle(&popped, Verdict::Fail).await,
        [Settlement::Dead],
        "dead letters are always kept"
    );
    assert_eq!(place.broker.list_dead(None, None, 9, 0).await.unwrap().1, 1);
}

/// An option that nothing enforces would be a promise that nobody keeps.
#[tokio::test]
async fn what_is_not_built_is_refused_and_never_kept() {
    let place = Place::new().await;
    let options = QueueOptions { encryption_enabled: Some(true), ..QueueOptions::default() };
    let error = place.broker.configure("told", &options).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Refused);
    assert!(error.to_string().contains("\"told\" cannot be told to encrypt"), "{error}");
    assert!(place.broker.show_queue("told").await.unwrap().is_none(), "nothing of it was kept");
}

/// The table of docs/broker-cli.md has a row for every option, and every test that a row names is there.
#[test]
fn every_option_has_a_row_with_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = fs::read_to_string(root.join("../../docs/broker-cli.md")).unwrap();
    let (_, table) =
        docs.split_once("| option | on Queen's wire | what it does | tests |\n|---|---|---|---|\n").unwrap();
    let table = table.split("\n\n").next().unwrap();
    let rows: BTreeMap<&str, Vec<&str>> = table
        .lines()
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            (cells[1].trim_matches('`'), cells[4].split('`').skip(1).step_by(2).collect())
        })
        .collect();
    let Ok(serde_json::Value::Object(options)) = serde_json::to_value(QueueOptions::default()) else {
        panic!("options are an object");
    };
    let options: Vec<&str> = options.keys().map(String::as_str).collect();
    let mut named: Vec<&str> = rows.keys().copied().collect();
    named.sort_unstable();
    assert_eq!(named, options, "an option without a row, or a row without an option");
    let tests: String = fs::read_dir(root.join("tests/broker"))
        .unwrap()
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    for (option, own) in rows {
        assert!(!own.is_empty(), "{option} has no test");
        for name in own {
            assert!(tests.contains(&format!("fn {name}(")), "{option}: there is no test {name}");
        }
    }
}
