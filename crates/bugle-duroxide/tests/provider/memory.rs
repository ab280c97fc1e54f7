//! Histories in memory: never other than in the database, whatever happens there.

use crate::fixture::{HOUR, NOW, Place, ack, begin, event, raised, started, turn};
use bugle_duroxide::{LongPollConfig, Options, PostgresProvider};
use duroxide::providers::{Provider as _, ProviderAdmin as _};
use duroxide::{Event, EventKind};

fn status(id: u64, status: &str) -> Event {
    event("i", id, EventKind::CustomStatusUpdated { status: Some(status.to_owned()) })
}

/// A turn on this node that adds one event.
async fn add(provider: &PostgresProvider, added: Event) -> Vec<Event> {
    provider.enqueue_for_orchestrator(raised("i", "go"), None).await.unwrap();
    let (item, token, _) = turn(provider, HOUR, NOW).await.unwrap();
    assert_eq!(item.history_error, None);
    ack(provider, &token, vec![added], vec![]).await.unwrap();
    item.history
}

/// What the database has, read without memory.
async fn written(place: &Place) -> Vec<Event> {
    place.at_once().await.read("i").await.unwrap()
}

#[tokio::test]
async fn two_nodes_that_take_turns_see_every_event() {
    let place = Place::new().await;
    let (one, two) = (place.at_once().await, place.at_once().await);
    begin(&one, "i", vec![started("i")]).await;
    for id in 2..12 {
        let node = if id % 3 == 0 { &two } else { &one };
        let history = add(node, status(id, "é \" \\ \u{0}")).await;
        assert_eq!(history.len() as u64, id - 1);
        for node in [&one, &two] {
            assert_eq!(node.read("i").await.unwrap(), written(&place).await);
        }
    }
}

#[tokio::test]
async fn only_what_is_new_is_sent() {
    let place = Place::new().await;
    let (one, two) = (place.at_once().await, place.at_once().await);
    begin(&one, "i", vec![started("i")]).await;
    for id in 2..=50 {
        add(&one, status(id, "x")).await;
    }
    let sent =
        "SELECT cardinality(data) FROM bugle.read_history('i', (SELECT incarnation FROM bugle.instance), 1, ";
    assert_eq!(place.one::<i32>(&format!("{sent} 50)")).await, 0);
    assert_eq!(place.one::<i32>(&format!("{sent} 48)")).await, 2);
    assert_eq!(place.one::<i32>(&format!("{sent} 51)")).await, 50, "memory knows more than the database");
    // The claim of the node that wrote last carries no history; the other one's carries all of it.
    one.enqueue_for_orchestrator(raised("i", "go"), None).await.unwrap();
    let (item, token, _) = turn(&one, HOUR, NOW).await.unwrap();
    assert_eq!(item.history.len(), 50);
    one.abandon_orchestration_item(&token, None, true).await.unwrap();
    let sent = "SELECT history IS NULL FROM bugle.claim_turns(1, '1 ms', false, 0, 0, (SELECT node FROM bugle.instance)) LIMIT 1";
    assert!(place.one::<bool>(sent).await);
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    assert_eq!(turn(&two, HOUR, NOW).await.unwrap().0.history.len(), 50);
}

/// The same id, made anew, has another past, although as many events.
#[tokio::test]
async fn an_instance_that_was_deleted_and_made_anew_has_its_new_history() {
    let place = Place::new().await;
    let (one, two) = (place.at_once().await, place.at_once().await);
    begin(&one, "i", vec![started("i"), status(2, "old")]).await;
    for node in [&one, &two] {
        assert_eq!(node.read("i").await.unwrap().last(), Some(&status_as(node, "old").await));
    }
    two.delete_instances_atomic(&["i".to_owned()], true).await.unwrap();
    assert_eq!(one.read("i").await.unwrap(), []);
    begin(&two, "i", vec![started("i"), status(2, "new")]).await;
    for node in [&one, &two] {
        let history = add(node, status(if std::ptr::eq(node, &raw const one) { 3 } else { 4 }, "more")).await;
        assert_eq!(kinds(&history)[1], kinds(&[status(2, "new")])[0]);
        assert_eq!(node.read("i").await.unwrap(), written(&place).await);
    }
}

/// The last event as the database has it: events carry the time at which they were made.
async fn status_as(provider: &PostgresProvider, text: &str) -> Event {
    let last = provider.read_with_execution("i", 1).await.unwrap().pop().unwrap();
    assert_eq!(last.kind, EventKind::CustomStatusUpdated { status: Some(text.to_owned()) });
    last
}

fn kinds(events: &[Event]) -> Vec<EventKind> {
    events.iter().map(|event| event.kind.clone()).collect()
}

#[tokio::test]
async fn history_that_was_changed_by_hand_is_read_anew() {
    let place = Place::new().await;
    let one = place.at_once().await;
    begin(&one, "i", vec![started("i"), status(2, "wrong")]).await;
    assert_eq!(one.read("i").await.unwrap().len(), 2);
    place.execute("UPDATE bugle.history SET data = replace(data, 'wrong', 'right') WHERE event = 2").await;
    assert_eq!(one.read("i").await.unwrap(), written(&place).await);
    let history = add(&one, status(3, "more")).await;
    assert_eq!(kinds(&history)[1], EventKind::CustomStatusUpdated { status: Some("right".to_owned()) });
    place.execute("DELETE FROM bugle.history WHERE event = 3").await;
    assert_eq!(one.read("i").await.unwrap().len(), 2);
    one.append_with_execution("i", 1, vec![status(3, "appended")]).await.unwrap();
    assert_eq!(one.read("i").await.unwrap(), written(&place).await);
}

#[tokio::test]
async fn without_memory_everything_is_read() {
    let place = Place::new().await;
    let options = Options { history_cache_bytes_max: 0, ..place.options(LongPollConfig::default()) };
    let one = place.provider(options).await;
    begin(&one, "i", vec![started("i")]).await;
    for id in 2..6 {
        assert_eq!(add(&one, status(id, "x")).await.len() as u64, id - 1);
    }
    assert_eq!(one.read("i").await.unwrap().len(), 5);
}

/// PostgreSQL keeps no character 0; users may have one all the same.
#[tokio::test]
async fn every_text_comes_back_as_it_was_given() {
    let place = Place::new().await;
    let one = place.at_once().await;
    let odd = "a\u{0}b \u{e000}0 \\u0000 'é'";
    let set = EventKind::KeyValueSet { key: odd.to_owned(), value: odd.to_owned(), last_updated_at_ms: 1 };
    one.enqueue_for_orchestrator(crate::fixture::start("i"), None).await.unwrap();
    let (_, token, _) = turn(&one, HOUR, NOW).await.unwrap();
    let metadata = duroxide::providers::ExecutionMetadata {
        status: Some("Completed".to_owned()),
        output: Some(odd.to_owned()),
        ..crate::fixture::named()
    };
    let events = vec![started("i"), event("i", 2, set), status(3, odd)];
    one.ack_orchestration_item(&token, 1, events.clone(), vec![], vec![], metadata, vec![]).await.unwrap();
    assert_eq!(written(&place).await, events);
    assert_eq!(one.get_kv_value("i", odd).await.unwrap().as_deref(), Some(odd));
    assert_eq!(one.get_kv_all_values("i").await.unwrap()[odd], odd);
    assert_eq!(one.get_custom_status("i", 0).await.unwrap(), Some((Some(odd.to_owned()), 1)));
    assert_eq!(one.get_instance_info("i").await.unwrap().output.as_deref(), Some(odd));
}
