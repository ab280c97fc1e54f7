//! Calls that the server does not answer, or not in time for the client: duroxide itself would soon give up.

use crate::fixture::{HOUR, NOW, Place, ack, activity, begin, event, raised, start, started, turn, work};
use crate::runtime::{done, runtime};
use bugle_duroxide::{LongPollConfig, PostgresProvider};
use bugle_testkit::proxy::{Fault, Proxy};
use duroxide::providers::{Provider as _, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, EventKind, OrchestrationContext, OrchestrationRegistry};
use std::sync::Arc;
use std::time::Duration;

/// A provider all of whose connections go through the proxy.
async fn through(place: &Place, proxy: &Proxy, config: LongPollConfig) -> PostgresProvider {
    place.provider_on(&proxy.rewrite(place.db.connect_options()), place.options(config)).await
}

/// It tries an ack six times within a third of a second, and then acks that the orchestration has failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acks_that_do_not_reach_the_server_fail_no_orchestration() {
    let place = Place::new().await;
    let proxy = place.proxy().await;
    let runtime = runtime(&through(&place, &proxy, LongPollConfig::enabled()).await).await;
    let client = Client::new(Arc::new(place.at_once().await));
    let cut = proxy.set(Fault::cut_before_forward(".ack_turn(").next(8));
    client.start_orchestration("i", "Hello", "you").await.unwrap();
    assert_eq!(done(&client, "i").await, "Hello, you");
    assert_eq!(cut.hits(), 8);
    runtime.shutdown(Some(1_000)).await;
}

/// It takes a renewal that fails for a lease that was stolen, and throws the activity away: its instance would wait for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_does_not_reach_the_server_costs_no_activity() {
    let place = Place::new().await;
    let proxy = place.proxy().await;
    let node = through(&place, &proxy, LongPollConfig::enabled()).await;
    let cut = proxy.set(Fault::cut_before_forward(".renew_work(").next(3));
    let activities = ActivityRegistry::builder()
        .register("Long", {
            let cut = cut.clone();
            move |ctx: ActivityContext, _: String| {
                let cut = cut.clone();
                async move {
                    cut.has_hit(3).await;
                    // That nothing happens can only be seen by watching for a while.
                    let stolen =
                        tokio::time::timeout(Duration::from_millis(300), ctx.cancelled()).await.is_ok();
                    Ok(format!("stolen: {stolen}"))
                }
            }
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Patient", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_activity("Long", "").await
        })
        .build();
    // It is renewed after half of the lease.
    let options = RuntimeOptions { worker_lock_timeout: Duration::from_secs(2), ..RuntimeOptions::default() };
    let runtime = Runtime::start_with_options(Arc::new(node), activities, orchestrations, options).await;
    let client = Client::new(Arc::new(place.at_once().await));
    client.start_orchestration("i", "Patient", "").await.unwrap();
    assert_eq!(done(&client, "i").await, "stolen: false");
    runtime.shutdown(Some(1_000)).await;
}

#[tokio::test]
async fn a_turn_is_renewed_when_the_server_is_back() {
    let place = Place::new().await;
    let proxy = place.proxy().await;
    let provider = through(&place, &proxy, LongPollConfig::default()).await;
    provider.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    let (_, token, _) = turn(&provider, HOUR, NOW).await.unwrap();
    let cut = proxy.set(Fault::cut_before_forward(".renew_turn(").next(3));
    provider.renew_orchestration_item_lock(&token, HOUR).await.unwrap();
    assert_eq!(cut.hits(), 3);
}

/// What was done, but not answered, is refused when it is repeated: it was done once.
#[tokio::test]
async fn acks_whose_answers_are_lost_are_done_once() {
    let place = Place::new().await;
    let proxy = place.proxy().await;
    let provider = through(&place, &proxy, LongPollConfig::default()).await;
    begin(&provider, "i", vec![started("i")]).await;
    provider.enqueue_for_orchestrator(raised("i", "go"), None).await.unwrap();
    provider.enqueue_for_worker(activity("i", 2, None)).await.unwrap();
    let (_, turn_token, _) = turn(&provider, HOUR, NOW).await.unwrap();
    let (_, work_token, _) = work(&provider, HOUR, NOW).await.unwrap();

    let cut = proxy.set(Fault::cut_after_answer(".ack_").next(1));
    let status = EventKind::CustomStatusUpdated { status: Some("once".to_owned()) };
    let refused = ack(&provider, &turn_token, vec![event("i", 2, status)], vec![]).await.unwrap_err();
    assert!(!refused.is_retryable(), "{refused}");
    assert_eq!((cut.hits(), provider.read("i").await.unwrap().len()), (1, 2));

    let cut = proxy.set(Fault::cut_after_answer(".ack_").next(1));
    let result = String::new();
    let completed = WorkItem::ActivityCompleted { instance: "i".to_owned(), execution_id: 1, id: 2, result };
    let refused = provider.ack_work_item(&work_token, Some(completed.clone())).await.unwrap_err();
    assert!(!refused.is_retryable(), "{refused}");
    let (item, ..) = turn(&provider, HOUR, NOW).await.unwrap();
    assert_eq!((cut.hits(), item.messages), (1, vec![completed]));
}
