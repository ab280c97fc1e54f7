//! Calls that come at the same time are made together, and each has its own answer.

use crate::fixture::{HOUR, NOW, Place, activity, begin, event, raised, start, started, turn, work};
use bugle_duroxide::PostgresProvider;
use duroxide::EventKind;
use duroxide::providers::{Provider as _, ProviderError, WorkItem};
use futures_util::future::join_all;
use sqlx::Connection as _;
use std::time::Duration;

const CALLS: u64 = 8;

fn completed(instance: &str, id: u64) -> WorkItem {
    let (instance, result) = (instance.to_owned(), String::new());
    WorkItem::ActivityCompleted { instance, execution_id: 1, id, result }
}

/// Statements of this place that call a function, so far.
async fn calls(place: &Place, function: &str) -> i64 {
    place.db.statements(&[&format!("bugle.{function}(")]).await.unwrap()
}

/// Claims so many works of an instance, and acks all of them at the same time.
async fn ack_all(provider: &PostgresProvider, tokens: &[(u64, String)]) -> Vec<Result<(), ProviderError>> {
    join_all(tokens.iter().map(|(id, token)| provider.ack_work_item(token, Some(completed("i", *id))))).await
}

async fn claimed(provider: &PostgresProvider) -> Vec<(u64, String)> {
    begin(provider, "i", vec![started("i")]).await;
    let mut tokens = Vec::new();
    for id in 1..=CALLS {
        provider.enqueue_for_worker(activity("i", id, None)).await.unwrap();
        let (_, token, _) = work(provider, HOUR, NOW).await.unwrap();
        tokens.push((id, token));
    }
    tokens
}

async fn told(provider: &PostgresProvider) -> Vec<u64> {
    let (item, _, _) = turn(provider, HOUR, NOW).await.expect("it was told");
    let id = |message: &WorkItem| match message {
        WorkItem::ActivityCompleted { id, .. } => *id,
        other => panic!("{other:?}"),
    };
    item.messages.iter().map(id).collect()
}

#[tokio::test]
async fn acks_at_the_same_time_are_few_statements() {
    let place = Place::new().await;
    let provider = place.at_once().await;
    let tokens = claimed(&provider).await;
    let before = calls(&place, "ack_work").await;
    for acked in ack_all(&provider, &tokens).await {
        acked.unwrap();
    }
    // All have asked before anything could be sent.
    assert_eq!(calls(&place, "ack_work").await - before, 1);
    assert_eq!(told(&provider).await, (1..=CALLS).collect::<Vec<_>>(), "each once, in their order");
    assert!(work(&provider, HOUR, NOW).await.is_none());
}

#[tokio::test]
async fn an_ack_whose_lease_was_lost_fails_alone() {
    let place = Place::new().await;
    let provider = place.at_once().await;
    let mut tokens = claimed(&provider).await;
    // One twice, and one that was cancelled meanwhile.
    tokens.push(tokens[0].clone());
    place.execute("DELETE FROM bugle.work WHERE activity = 3").await;
    let answers = ack_all(&provider, &tokens).await;
    let lost: Vec<usize> = (0..answers.len()).filter(|n| answers[*n].is_err()).collect();
    assert_eq!(lost, [2, 8], "{answers:?}");
    for n in lost {
        assert!(!answers[n].as_ref().unwrap_err().is_retryable());
    }
    assert_eq!(told(&provider).await, [1, 2, 4, 5, 6, 7, 8]);
}

/// A statement is under way, because somebody holds what it needs; whatever comes meanwhile goes with the next one.
#[tokio::test]
async fn messages_that_come_while_one_is_written_are_written_together() {
    let place = Place::new().await;
    let provider = place.at_once().await;
    begin(&provider, "held", vec![started("held")]).await;
    provider.enqueue_for_orchestrator(raised("held", "first"), Some(HOUR)).await.unwrap();
    let mut holder = sqlx::PgConnection::connect_with(place.db.connect_options()).await.unwrap();
    let hold = place.db.sql("BEGIN; SELECT FROM bugle.inbox FOR UPDATE").unwrap();
    sqlx::raw_sql(hold).execute(&mut holder).await.unwrap();
    let before = calls(&place, "enqueue_messages").await;
    let waiting = tokio::spawn({
        let provider = provider.clone();
        async move { provider.enqueue_for_orchestrator(raised("held", "second"), None).await }
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '.enqueue_messages%'";
    crate::fixture::until("the first waits", async || {
        let count: i64 =
            sqlx::query_scalar(waits).bind(place.db.name()).fetch_one(place.db.pool()).await.unwrap();
        count == 1
    })
    .await;
    let others = tokio::spawn({
        let provider = provider.clone();
        async move {
            let names: Vec<String> = (0..CALLS).map(|n| format!("i{n}")).collect();
            join_all(names.iter().map(|name| provider.enqueue_for_orchestrator(start(name), None))).await
        }
    });
    tokio::task::yield_now().await; // they have asked
    sqlx::raw_sql("COMMIT").execute(&mut holder).await.unwrap();
    waiting.await.unwrap().unwrap();
    for written in others.await.unwrap() {
        written.unwrap();
    }
    assert_eq!(calls(&place, "enqueue_messages").await - before, 2);
    let messages: i64 = place.one("SELECT count(*) FROM bugle.message").await;
    assert_eq!(messages, 2 + i64::try_from(CALLS).unwrap());
}

/// A name that PostgreSQL cannot store is one caller's fault.
#[tokio::test]
async fn a_message_that_cannot_be_written_fails_alone() {
    let place = Place::new().await;
    let provider = place.at_once().await;
    let names = ["a", "b\0", "c"];
    let answers =
        join_all(names.map(|name| provider.enqueue_for_orchestrator(start(name), Some(Duration::ZERO))))
            .await;
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    assert!(!answers[1].as_ref().unwrap_err().is_retryable(), "{answers:?}");
    let written: Vec<String> =
        place.one("SELECT array_agg(instance ORDER BY instance) FROM bugle.message").await;
    assert_eq!(written, ["a", "c"]);
}

#[tokio::test]
async fn reads_at_the_same_time_are_one_statement_and_each_has_its_own_history() {
    let place = Place::new().await;
    let (writer, reader) = (place.at_once().await, place.at_once().await);
    let names: Vec<String> = (1..=CALLS).map(|n| format!("i{n}")).collect();
    for (n, name) in (1..).zip(&names) {
        let more = (2..=n).map(|id| {
            let kind = EventKind::TimerCreated { fire_at_ms: id };
            event(name, id, kind)
        });
        begin(&writer, name, std::iter::once(started(name)).chain(more).collect()).await;
    }
    let before = calls(&place, "read_history").await;
    let asked = names.iter().map(String::as_str).chain(["nobody"]);
    let histories = join_all(asked.map(|name| reader.read(name))).await;
    assert_eq!(calls(&place, "read_history").await - before, 1);
    for (n, history) in histories.into_iter().enumerate() {
        let events = history.unwrap();
        let expected = if n < names.len() { n + 1 } else { 0 };
        assert_eq!(events.len(), expected);
        assert!(events.iter().all(|event| event.instance_id == names[n]));
    }
}
