//! Queues that nobody waits for, and queues that somebody else holds up.
use crate::fixture::{HOUR, Place, Running, SOON, node, raw};
use bugle::Ctx;
use bugle::jobs::Claimed;
use bugle_wake::Why;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn nothing_is_done_for_a_queue_that_nobody_waits_for() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let mut worker = Running::on(&bugle, "q");
    place.outside.queue("unwatched").await.unwrap();
    place.asleep(&bugle, 1).await;
    let before = (place.looks().await, node(&bugle).counters().table());

    for _ in 0..20 {
        place.enqueue("unwatched", 1).await;
    }
    place.quiet(&bugle).await;
    assert_eq!((place.looks().await, node(&bugle).counters().table()), before, "neither rings nor looks");
    assert_eq!(place.seats().await, (1, 0), "one seat: that of the queue with a worker");
    assert_eq!(place.one::<i64>("SELECT ready FROM bugle.queue_count WHERE ready > 0").await, 20);

    place.enqueue("q", 1).await;
    worker.next().await;
    worker.stop().await;
}

#[tokio::test]
async fn a_queue_in_the_same_bucket_rings_but_causes_no_look() {
    let place = Place::new().await;
    let ours = place.number("q").await;
    let mut neighbour = String::new();
    for n in 0.. {
        neighbour = format!("n{n}");
        if place.number(&neighbour).await.bucket() == ours.bucket() {
            break;
        }
    }
    let bugle = place.node(|_| {}).await;
    let worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    let before = place.looks().await;
    place.enqueue(&neighbour, 1).await;
    crate::fixture::until("it was heard", async || node(&bugle).counters().rings.get() == 1).await;
    place.quiet(&bugle).await;
    assert_eq!(place.looks().await, before);
    assert_eq!(node(&bugle).counters().looks_by(Why::Ring), 0);
    worker.stop().await;
}

#[tokio::test]
async fn a_worker_whose_slots_are_all_busy_neither_looks_nor_is_rung_for() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let queue = bugle.queue("q").await.unwrap();
    place.enqueue("q", 1).await;
    let look = queue.claim_within("w", 1, HOUR, HOUR).await.unwrap().unwrap();
    crate::fixture::until("the seat is left", async || place.seats().await == (0, 0)).await;
    place.quiet(&bugle).await;
    let before = (place.looks().await, node(&bugle).counters().rings.get());
    place.enqueue("q", 50).await;
    place.quiet(&bugle).await;
    assert_eq!((place.looks().await, node(&bugle).counters().rings.get()), before);
    let more = tokio::time::timeout(SOON, queue.claim_within("w", 50, HOUR, HOUR)).await.unwrap();
    assert_eq!(more.unwrap().unwrap().jobs.len(), 50, "whoever wants again looks");
    assert_eq!(look.jobs.len(), 1);
}

#[tokio::test]
async fn a_queue_that_a_stranger_holds_up_does_not_hold_up_the_others_of_the_node() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let mut held = Running::on(&bugle, "held");
    let mut free: Vec<Running> =
        ["free1", "free2", "free3"].map(|queue| Running::on(&bugle, queue)).into_iter().collect();
    place.asleep(&bugle, 4).await;
    let stranger = place.hold_claims("held").await;

    // First the look of the held queue alone, then one that names all of them.
    let waits = place.enqueue("held", 1).await[0];
    place.claims_held(1).await;
    for (n, worker) in free.iter_mut().enumerate() {
        let id = place.enqueue(&format!("free{}", n + 1), 1).await[0];
        assert_eq!(worker.next().await.id, id);
    }
    let mut tx = place.db.pool().begin().await.unwrap();
    for queue in ["held", "free1", "free2", "free3"] {
        place.outside.enqueue_raw(queue, "k", raw("1")).on(&mut *tx).await.unwrap();
    }
    tx.commit().await.unwrap();
    for worker in &mut free {
        worker.next().await;
    }
    assert!(held.begun().is_empty());

    stranger.goes().await;
    assert_eq!(held.next().await.id, waits);
    held.next().await;
    for worker in free.into_iter().chain([held]) {
        worker.stop().await;
    }
}

#[tokio::test]
async fn a_stranger_met_by_a_look_for_many_queues_is_passed_over() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let stranger = place.hold_claims("held").await;
    for queue in ["held", "free"] {
        place.enqueue(queue, 1).await;
    }
    // Both are registered before the pump runs: one look for both.
    let (held, free) = (bugle.queue("held").await.unwrap(), bugle.queue("free").await.unwrap());
    let held = tokio::spawn(async move { held.claim_within("w", 1, HOUR, HOUR).await });
    let free = free.claim_within("w", 1, HOUR, HOUR);
    let look = tokio::time::timeout(SOON, free).await.expect("held up").unwrap().unwrap();
    assert_eq!(look.jobs.len(), 1);
    assert!(!held.is_finished());
    stranger.goes().await;
    let look = tokio::time::timeout(SOON, held).await.expect("forgotten").unwrap().unwrap().unwrap();
    assert_eq!(look.jobs.len(), 1);
}

/// A client that gave up is not noticed by a server process that waits for a lock: it would wait on, one more for every try, and in the end
/// claim for nobody.
#[tokio::test]
async fn a_look_does_not_wait_for_a_stranger_for_ever() {
    let place = Place::new().await;
    let stranger = place.hold_claims("q").await;
    let queue = place.outside.queue("q").await.unwrap();
    let claim = tokio::time::timeout(SOON, queue.claim("w", 1, HOUR)).await.expect("it waits on");
    let error = claim.unwrap_err();
    assert_eq!(error.outcome(), bugle::Outcome::Refused, "{error}");
    place.claims_held(0).await;
    stranger.goes().await;
}

/// The bodies of large jobs are fetched after the claim: one that is cancelled in between never comes, and its slot must not be lost.
#[tokio::test]
async fn a_job_cancelled_between_its_claim_and_its_body_costs_no_slot() {
    let place = Place::new().await;
    let bodies = "ALTER FUNCTION bugle.bodies(bigint) RENAME TO all_bodies;
        CREATE FUNCTION bugle.bodies(p_token bigint) RETURNS TABLE (
          lane smallint, x bigint, id bigint, attempt smallint, max_attempts smallint, enqueued_at timestamptz, due_at timestamptz,
          kind text, key text, extra jsonb, payload jsonb, until timestamptz
        ) LANGUAGE plpgsql AS $$
        BEGIN
          IF NOT EXISTS (SELECT FROM bugle.history) THEN
            PERFORM bugle.cancel((SELECT min(b.id) FROM bugle.all_bodies(p_token) b));
          END IF;
          RETURN QUERY SELECT * FROM bugle.all_bodies(p_token);
        END $$";
    place.execute(bodies).await;
    let large = "SELECT count(bugle.enqueue('q', 'k', (
            SELECT jsonb_agg(md5(n::text || m::text)) FROM generate_series(1, 6000) AS m))) FROM generate_series(1, 2) AS n";
    place.one::<i64>(large).await;

    let bugle = place.node(|_| {}).await;
    let (started, mut begun) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let worker = bugle.worker("q").concurrency(2).drain(std::time::Duration::ZERO);
    let worker = worker.handle_any(move |job: Claimed, _: Ctx| {
        let _ = started.send(job.id);
        std::future::pending::<()>()
    });
    let worker = tokio::spawn(worker.run(stop.clone()));
    tokio::time::timeout(SOON, begun.recv()).await.unwrap().unwrap(); // the other one was cancelled
    let next = place.enqueue("q", 1).await[0];
    let second = tokio::time::timeout(SOON, begun.recv()).await.expect("a slot was lost");
    assert_eq!(second, Some(next));
    stop.cancel();
    worker.await.unwrap().unwrap();
}

/// One look serves all queues, so what is wrong with one of them fails it for all.
#[tokio::test]
async fn a_queue_whose_looks_fail_does_not_starve_the_others_of_the_node() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let (bad, mut good) = (Running::on(&bugle, "bad"), Running::on(&bugle, "good"));
    place.asleep(&bugle, 2).await;
    let number = place.number("bad").await;
    place.execute(&format!("UPDATE bugle.cursor SET px[3] = 1000000000000 WHERE queue = {number}")).await;
    for _ in 0..20 {
        let mut tx = place.db.pool().begin().await.unwrap();
        for queue in ["bad", "good"] {
            place.outside.enqueue_raw(queue, "k", raw("1")).on(&mut *tx).await.unwrap();
        }
        tx.commit().await.unwrap();
        good.next().await;
    }
    assert!(node(&bugle).counters().failed_looks.get() > 0);
    bad.stop().await;
    good.stop().await;
}
