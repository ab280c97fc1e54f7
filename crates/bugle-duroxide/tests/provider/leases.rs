//! Leases: only their token opens them, only while they last, and nobody waits for somebody who waits for him.

use crate::fixture::{HOUR, NOW, Place, ack, activity, begin, event, raised, start, started, turn, work};
use duroxide::EventKind;
use duroxide::providers::{ExecutionMetadata, Provider as _, ScheduledActivityIdentifier, WorkItem};
use sqlx::Connection as _;
use std::time::Duration;

/// The takeover commits while the old holder's ack waits for the row.
#[tokio::test]
async fn an_ack_that_waited_for_a_takeover_is_refused() {
    let place = Place::new().await;
    let provider = place.at_once().await;
    begin(&provider, "i", vec![started("i")]).await;
    provider.enqueue_for_orchestrator(raised("i", "once"), None).await.unwrap();
    let (_, old, _) = turn(&provider, HOUR, NOW).await.unwrap();
    // Somebody else takes over, in a transaction that is not yet committed.
    let mut thief = sqlx::PgConnection::connect_with(place.db.connect_options()).await.unwrap();
    let steal = "BEGIN; UPDATE bugle.inbox SET token = gen_random_uuid() WHERE instance = 'i'; UPDATE bugle.message m SET token = b.token FROM bugle.inbox b WHERE m.instance = 'i'";
    sqlx::raw_sql(place.db.sql(steal).unwrap()).execute(&mut thief).await.unwrap();
    let late = tokio::spawn({
        let (provider, old) = (provider.clone(), old.clone());
        async move {
            let scheduled = EventKind::ActivityScheduled {
                name: "Activity".to_owned(),
                input: String::new(),
                session_id: None,
                tag: None,
            };
            let (events, work) = (vec![event("i", 2, scheduled)], vec![activity("i", 2, None)]);
            let none = ExecutionMetadata::default();
            provider.ack_orchestration_item(&old, 1, events, work, vec![], none, vec![]).await
        }
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '.ack_turn%'";
    crate::fixture::until("the ack waits", async || {
        let waiting: i64 =
            sqlx::query_scalar(waits).bind(place.db.name()).fetch_one(place.db.pool()).await.unwrap();
        waiting == 1
    })
    .await;
    sqlx::raw_sql("COMMIT").execute(&mut thief).await.unwrap();
    let refused = late.await.unwrap().unwrap_err();
    assert!(!refused.is_retryable(), "{refused}");
    assert_eq!(provider.read("i").await.unwrap().len(), 1, "nothing of it was kept");
    assert!(work(&provider, HOUR, NOW).await.is_none(), "the activity runs once");
}

#[tokio::test]
async fn a_lease_begins_with_the_claim_and_is_over_when_it_is_over() {
    let place = Place::new().await;
    let provider = place.at_once().await;
    provider.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    let (_, first, _) = turn(&provider, Duration::from_millis(1), NOW).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    for refused in [
        ack(&provider, &first, vec![started("i")], vec![]).await,
        provider.renew_orchestration_item_lock(&first, HOUR).await,
    ] {
        assert!(!refused.unwrap_err().is_retryable());
    }
    // Poison must be acked in the end, however often leases ran out before.
    let (_, second, attempt) = turn(&provider, HOUR, NOW).await.unwrap();
    assert_eq!(attempt, 2);
    ack(&provider, &second, vec![started("i")], vec![]).await.unwrap();
}

/// Renewals, fetches, acks, completions and cancellations of the same few instances, all at once: whoever locks two things locks them in one order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_somebody_who_waits_for_him() {
    const ROUNDS: u64 = 40;
    let place = Place::new().await;
    let provider = place.at_once().await;
    let names = ["a", "b", "c"];
    for name in names {
        begin(&provider, name, vec![started(name)]).await;
    }
    for name in names {
        provider.enqueue_for_orchestrator(raised(name, "go"), None).await.unwrap();
    }
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    let before: i64 = place.one(deadlocks).await;
    let turns = (0..3).map(|_| {
        let provider = provider.clone();
        tokio::spawn(async move {
            for id in 0..ROUNDS {
                let Some((item, token, _)) = turn(&provider, HOUR, NOW).await else { continue };
                let me = item.instance.as_str();
                let renew = provider.renew_orchestration_item_lock(&token, HOUR);
                // To everybody, itself included, and each cancels what another has just scheduled.
                let messages: Vec<WorkItem> = names.iter().rev().map(|other| raised(other, me)).collect();
                let cancelled = names.map(|instance| ScheduledActivityIdentifier {
                    instance: instance.to_owned(),
                    execution_id: 1,
                    activity_id: id,
                });
                let scheduled = vec![activity(me, id + 1, None), activity(me, id + 2, None)];
                let none = ExecutionMetadata::default();
                let (renewed, claimed) = tokio::join!(renew, work(&provider, HOUR, NOW));
                renewed.unwrap();
                let acked = provider.ack_orchestration_item(
                    &token,
                    1,
                    vec![],
                    scheduled,
                    messages,
                    none,
                    cancelled.to_vec(),
                );
                let completed = async {
                    let Some((WorkItem::ActivityExecute { instance, id, .. }, token, _)) = claimed else {
                        return;
                    };
                    let done =
                        WorkItem::ActivityCompleted { instance, execution_id: 1, id, result: String::new() };
                    let _ = provider.ack_work_item(&token, Some(done)).await; // it may have been cancelled
                };
                let (acked, ()) = tokio::join!(acked, completed);
                acked.unwrap();
            }
        })
    });
    for task in turns.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(place.one::<i64>(deadlocks).await, before);
}
