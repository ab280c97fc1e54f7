//! A queue that is paused while others wait for it.
use crate::fixture::{Place, Running, node, raw};
use bugle_wake::Why;

#[tokio::test]
async fn resuming_wakes_who_sleeps_on_other_nodes() {
    let place = Place::new().await;
    let bugles = [place.node(|_| {}).await, place.node(|_| {}).await];
    let mut workers: Vec<_> = bugles.iter().map(|bugle| Running::on(bugle, "q")).collect();
    assert!(place.outside.pause("q").await.unwrap());
    for bugle in &bugles {
        place.asleep(bugle, 1).await;
    }
    let id = place.enqueue("q", 1).await[0];
    for bugle in &bugles {
        place.quiet(bugle).await;
    }
    assert!(workers.iter_mut().all(|worker| worker.begun().is_empty()), "it is paused");
    assert!(place.outside.resume("q").await.unwrap());
    let mut begun = Vec::new();
    crate::fixture::until("it has begun", async || {
        begun.extend(workers.iter_mut().flat_map(Running::begun));
        !begun.is_empty()
    })
    .await;
    assert_eq!(begun, [id]);
    for worker in workers {
        worker.stop().await;
    }
}

/// The looks under the pause must not lead the one after it to search behind what has long been due.
#[tokio::test]
async fn what_became_due_under_the_pause_runs_when_it_ends() {
    let place = Place::new().await;
    place.outside.pause("q").await.unwrap();
    let id = place.enqueue_in("q", crate::fixture::HOUR).await;
    place.execute("UPDATE bugle.due SET due_at = now() - interval '1 minute'").await;
    let bugle = place.node(|_| {}).await;
    let mut worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    assert!(worker.begun().is_empty());
    place.outside.resume("q").await.unwrap();
    assert_eq!(worker.next().await.id, id);
    worker.stop().await;
}

#[tokio::test]
async fn a_paused_queue_costs_no_looks_while_its_jobs_are_due() {
    let place = Place::new().await;
    place.outside.enqueue_raw("q", "k", raw("1")).send().await.unwrap();
    place.outside.pause("q").await.unwrap();
    place.enqueue_in("q", std::time::Duration::from_millis(1)).await;
    let bugle = place.node(|_| {}).await;
    let worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    assert_eq!(node(&bugle).counters().looks_by(Why::Timer), 0);
    let status = node(&bugle).status();
    assert!(status.sleeps.is_empty(), "{status:?}");
    place.silent(&bugle).await;
    worker.stop().await;
}
