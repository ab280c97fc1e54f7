//! Whoever waits for the end of a job is told of it, and costs nothing meanwhile.
use crate::fixture::{HOUR, Place, Running, SOON, node, raw, until};
use bugle::jobs::Claimed;
use bugle::{Bugle, Ctx, Done, End, Error, JobId, Mode};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) type Wait = JoinHandle<Result<End<i64>, Error>>;

pub(crate) fn wait_for(bugle: &Bugle, id: JobId) -> Wait {
    let handle = bugle.handle(id);
    tokio::spawn(async move { handle.wait().await })
}

/// What a wait is told, which must come soon: the job is done, and its result is its number.
pub(crate) async fn told(wait: Wait) -> JobId {
    let end = tokio::time::timeout(SOON, wait).await.expect("not told").unwrap().unwrap();
    assert_eq!(end.clone().done(), Ok(end.id.0));
    end.id
}

#[tokio::test]
async fn a_thousand_wait_and_nothing_is_asked_until_one_job_ends_and_one_look_tells_it() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let ids = place.enqueue("q", 1000).await;
    let first = place.claim("q", 1).await;
    let waits: Vec<Wait> = ids.iter().map(|id| wait_for(&bugle, *id)).collect();
    place.asleep(&bugle, 1000).await;
    assert!(node(&bugle).status().sleeps.is_empty(), "{:?}", node(&bugle).status());
    let looks = place.end_looks().await;
    place.silent(&bugle).await;

    place.end("q", first).await;
    until("somebody is told", async || waits.iter().any(JoinHandle::is_finished)).await;
    place.quiet(&bugle).await;
    assert_eq!(place.end_looks().await - looks, 1, "one look for a thousand who wait");
    assert_eq!(node(&bugle).counters().rings.get(), 1);
    let (over, waits): (Vec<_>, Vec<_>) = waits.into_iter().partition(JoinHandle::is_finished);
    assert_eq!(over.len(), 1, "exactly one is told");
    for wait in over {
        assert_eq!(told(wait).await, ids[0]);
    }

    // All the others end at once, and one look tells all of them.
    let rest = place.claim("q", 1000).await;
    place.end("q", rest).await;
    for wait in waits {
        told(wait).await;
    }
    assert_eq!(place.end_looks().await - looks, 2);
}

#[tokio::test]
async fn ends_and_new_jobs_ring_for_those_alone_whom_they_concern() {
    let place = Place::new().await;
    let (waiting, working) = (place.node(|_| {}).await, place.node(|_| {}).await);
    let ids = place.enqueue("q", 2).await;
    let held = place.claim("q", 2).await;
    let _wait = wait_for(&waiting, ids[1]);
    let mut worker = Running::on(&working, "other");
    place.number("other").await;
    place.asleep(&waiting, 1).await;
    place.asleep(&working, 1).await;

    place.enqueue("q", 5).await;
    place.quiet(&waiting).await;
    assert_eq!(node(&waiting).counters().rings.get(), 0, "a new job is nothing to whoever waits for an end");
    let queue = place.outside.queue("q").await.unwrap();
    queue.ack(&[held.jobs[0].receipt], &[]).await.unwrap();
    until("the end is heard", async || node(&waiting).counters().rings.get() == 1).await;
    place.quiet(&working).await;
    assert_eq!(node(&working).counters().hand_outs.get(), 0, "nor an end to a worker");
    assert_eq!(worker.begun(), []);
    worker.stop().await;
}

#[tokio::test]
async fn a_job_that_another_node_runs_is_told_where_it_is_waited_for() {
    let place = Place::new().await;
    let (one, two, working) = (place.node(|_| {}).await, place.node(|_| {}).await, place.node(|_| {}).await);
    let id = place.enqueue_in("q", HOUR).await;
    let waits = [wait_for(&one, id), wait_for(&two, id), wait_for(&two, id)];
    place.asleep(&one, 1).await;
    place.asleep(&two, 2).await;
    let mut worker = Running::on(&working, "q");
    place.outside.retry_job(id).await.unwrap();
    worker.next().await;
    for wait in waits {
        let end = tokio::time::timeout(SOON, wait).await.expect("not told").unwrap();
        // The worker's handler returns nothing, which is no number.
        assert!(matches!(end, Err(Error::Result { .. })), "{end:?}");
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_wait_of_two_nodes_is_told_while_a_third_one_runs_the_jobs() {
    let place = Place::new().await;
    let working = place.node(|_| {}).await;
    let stop = CancellationToken::new();
    let worker = working.worker("q").handle_any(|job: Claimed, _: Ctx| async move { Done(job.id) });
    let worker = tokio::spawn(worker.run(stop.clone()));
    let nodes = [place.node(|_| {}).await, place.node(|_| {}).await];
    let ask = |bugle: Bugle| async move {
        for _ in 0..40 {
            let handle = bugle.enqueue_raw("q", "k", raw("1")).send_handle().await.unwrap();
            let end = handle.wait_within::<i64>(SOON).await.unwrap().expect("not told");
            assert_eq!(end.done(), Ok(handle.id().0));
        }
    };
    let asks: Vec<_> = (0..16).map(|n| tokio::spawn(ask(nodes[n % 2].clone()))).collect();
    for ask in asks {
        ask.await.unwrap();
    }
    for bugle in &nodes {
        assert_eq!(node(bugle).counters().failed_looks.get(), 0);
        until("nobody waits", async || node(bugle).status().intentions == 0).await;
    }
    stop.cancel();
    worker.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_wait_that_is_given_up_leaves_nothing_behind() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let id = place.enqueue("q", 1).await[0];
    let none = bugle.handle(id).wait_within::<()>(Duration::from_millis(200)).await.unwrap();
    assert!(none.is_none(), "it has not ended");
    let wait = wait_for(&bugle, id);
    place.asleep(&bugle, 1).await;
    wait.abort();
    until("nobody waits", async || node(&bugle).status().intentions == 0).await;
    until("no seat is held", async || place.seats().await == (0, 0)).await;
    place.quiet(&bugle).await;
    let looks = place.end_looks().await;
    let held = place.claim("q", 1).await;
    place.end("q", held).await;
    place.quiet(&bugle).await;
    assert_eq!((place.end_looks().await, node(&bugle).counters().rings.get()), (looks, 0));
    assert!(node(&bugle).status().sleeps.is_empty());
}

#[tokio::test]
async fn more_jobs_than_one_look_searches_for_are_told_all_the_same() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let ids = place.enqueue("q", 2500).await;
    for _ in 0..3 {
        let held = place.claim("q", 1000).await;
        place.end("q", held).await;
    }
    let queue = bugle.queue("q").await.unwrap();
    let waits: Vec<Wait> = ids
        .iter()
        .map(|id| {
            let handle = queue.handle(*id);
            tokio::spawn(async move { handle.wait().await })
        })
        .collect();
    for (wait, id) in waits.into_iter().zip(ids) {
        assert_eq!(told(wait).await, id);
    }
}

#[tokio::test]
async fn where_a_queue_is_polled_its_ends_are_as_well_and_nobody_rings() {
    let place = Place::new().await;
    let poll = Some(Duration::from_millis(50));
    place.outside.set_mode("q", Mode::PollingOnly, poll).await.unwrap();
    let bugle = place.node(|_| {}).await;
    let id = place.enqueue("q", 1).await[0];
    let wait = wait_for(&bugle, id);
    until("it polls", async || place.end_looks().await > 3).await;
    assert_eq!(place.seats().await, (0, 0), "so nobody rings");
    let held = place.claim("q", 1).await;
    place.end("q", held).await;
    told(wait).await;
    assert_eq!(node(&bugle).counters().rings.get(), 0);
}

#[tokio::test]
async fn whoever_waits_for_an_engine_that_stops_is_told_so() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let id = place.enqueue("q", 1).await[0];
    let wait = wait_for(&bugle, id);
    place.asleep(&bugle, 1).await;
    bugle.close().await;
    assert!(matches!(wait.await.unwrap(), Err(Error::NoConnection(_))));
}

#[tokio::test]
async fn whoever_begins_to_wait_when_the_engine_has_stopped_is_told_so() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let (id, queue) = (place.enqueue_in("q", HOUR).await, bugle.queue("q").await.unwrap());
    let none = queue.claim_within("w", 1, HOUR, Duration::from_millis(1)).await.unwrap();
    assert!(none.is_none(), "it only makes the engine know the queue");
    bugle.close().await;
    let late = tokio::time::timeout(SOON, queue.handle(id).wait::<()>()).await.expect("it waits for ever");
    assert!(matches!(late, Err(Error::NoConnection(_))), "{late:?}");
}
