//! Consumers that go: in time, too late, or with their jobs already claimed for them.
use crate::fixture::{HOUR, Place, SOON, node, until};
use bugle::Bugle;
use futures_util::FutureExt as _;
use std::pin::pin;
use std::time::Duration;

/// Nobody waits here, and nothing is held for anybody.
async fn nothing_is_left(place: &Place, bugle: &Bugle) {
    until("nobody waits", async || node(bugle).status().intentions == 0).await;
    until("no seat is held", async || place.seats().await == (0, 0)).await;
    let status = node(bugle).status();
    assert!(status.sleeps.is_empty(), "{status:?}");
    place.quiet(bugle).await;
    let before = place.looks().await;
    place.enqueue("q", 1).await;
    place.quiet(bugle).await;
    assert_eq!(place.looks().await, before, "it does not look for nobody");
    assert_eq!(place.one::<i64>("SELECT count(*) FROM bugle.lease").await, 0);
}

#[tokio::test]
async fn a_deadline_answers_none_and_leaves_nothing_behind() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let queue = bugle.queue("q").await.unwrap();
    let wait = Duration::from_millis(300);
    let begun = std::time::Instant::now();
    let look = queue.claim_within("w", 1, HOUR, wait).await.unwrap();
    assert!(look.is_none());
    assert!(begun.elapsed() >= wait, "it waits when there is no work");
    nothing_is_left(&place, &bugle).await;
}

#[tokio::test]
async fn a_claim_without_waiting_answers_at_once() {
    let place = Place::new().await;
    let queue = place.outside.queue("q").await.unwrap();
    let look = queue.claim("w", 1, HOUR).await.unwrap();
    assert!(look.jobs.is_empty());
    assert!(place.outside.node().is_none(), "it starts no engine");
}

#[tokio::test]
async fn a_wait_that_is_given_up_before_work_comes_leaves_nothing_behind() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let queue = bugle.queue("q").await.unwrap();
    let claim = tokio::spawn(async move { queue.claim_within("w", 1, HOUR, HOUR).await });
    place.asleep(&bugle, 1).await;
    claim.abort();
    nothing_is_left(&place, &bugle).await;
}

#[tokio::test]
async fn what_was_claimed_for_a_wait_that_was_given_up_is_handed_back_and_the_attempt_is_not_counted() {
    let place = Place::new().await;
    let (bugle, other) = (place.node(|_| {}).await, place.node(|_| {}).await);
    let queue = bugle.queue("q").await.unwrap();
    let id = place.enqueue("q", 1).await[0];

    let stranger = place.hold_claims("q").await;
    let claim = tokio::spawn(async move { queue.claim_within("gone", 1, HOUR, HOUR).await });
    place.claims_held(1).await;
    claim.abort();
    until("it is gone", async || node(&bugle).status().intentions == 0).await;
    stranger.goes().await;

    until("it was handed back", async || node(&bugle).counters().hand_backs.get() == 1).await;
    until("the job is ready", async || {
        let sql = "SELECT string_agg(state || ' ' || attempt, ', ') FROM bugle.job_view";
        place.one::<String>(sql).await == "ready 0"
    })
    .await;
    let queue = other.queue("q").await.unwrap();
    let look = tokio::time::timeout(SOON, queue.claim_within("w", 1, HOUR, HOUR)).await.unwrap();
    let job = look.unwrap().unwrap().jobs.remove(0);
    assert_eq!((job.id, job.attempt), (id, 1), "its first attempt");
}

#[tokio::test]
async fn a_sleeping_node_gets_what_another_one_hands_back() {
    let place = Place::new().await;
    let (bugle, other) = (place.node(|_| {}).await, place.node(|_| {}).await);
    let queue = bugle.queue("q").await.unwrap();
    // Polled once: it is registered, and what is handed out to it stays untaken.
    let mut claim = Box::pin(async move { queue.claim_within("gone", 1, HOUR, HOUR).await });
    assert!((&mut claim).now_or_never().is_none());
    place.asleep(&bugle, 1).await;
    let id = place.enqueue("q", 1).await[0];
    until("it was handed out", async || node(&bugle).counters().hand_outs.get() == 1).await;

    let theirs = other.queue("q").await.unwrap();
    let mut theirs = pin!(theirs.claim_within("w", 1, HOUR, HOUR));
    assert!((&mut theirs).now_or_never().is_none());
    place.asleep(&other, 1).await;
    drop(claim);

    let look = tokio::time::timeout(SOON, theirs).await.expect("the sleeper heard nothing");
    let job = look.unwrap().unwrap().jobs.remove(0);
    assert_eq!((job.id, job.attempt), (id, 1), "the attempt of the one that went is not counted");
    assert_eq!(node(&bugle).counters().hand_backs.get(), 1);
}

#[tokio::test]
async fn what_was_handed_out_and_not_taken_is_handed_back_when_the_node_stops() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let queue = bugle.queue("q").await.unwrap();
    // Polled once: it is registered, and what is handed out to it stays untaken.
    let mut claim = Box::pin(async move { queue.claim_within("w", 1, HOUR, HOUR).await });
    assert!((&mut claim).now_or_never().is_none());
    place.enqueue("q", 1).await;
    until("it was handed out", async || node(&bugle).counters().hand_outs.get() == 1).await;
    bugle.close().await;
    drop(claim);
    let sql = "SELECT string_agg(state || ' ' || attempt, ', ') FROM bugle.job_view";
    assert_eq!(place.one::<String>(sql).await, "ready 0");
}

#[tokio::test]
async fn a_hand_back_that_fails_is_tried_again() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let queue = bugle.queue("q").await.unwrap();
    let fails_twice = "ALTER FUNCTION bugle.release(int, smallint[], bigint[], bigint[], bigint[], bigint[]) RENAME TO real_release;
        CREATE SEQUENCE bugle.tries;
        CREATE FUNCTION bugle.release(int, smallint[], bigint[], bigint[], bigint[], bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
        BEGIN
          IF nextval('bugle.tries') <= 2 THEN
            RAISE EXCEPTION 'out of order';
          END IF;
          RETURN QUERY SELECT * FROM bugle.real_release($1, $2, $3, $4, $5, $6);
        END $$";
    place.execute(fails_twice).await;
    let mut claim = Box::pin(async move { queue.claim_within("gone", 1, HOUR, HOUR).await });
    assert!((&mut claim).now_or_never().is_none());
    place.enqueue("q", 1).await;
    until("it was handed out", async || node(&bugle).counters().hand_outs.get() == 1).await;
    drop(claim);
    until("the job is ready", async || {
        place.one::<String>("SELECT string_agg(state || ' ' || attempt, ', ') FROM bugle.job_view").await
            == "ready 0"
    })
    .await;
}

#[tokio::test]
async fn too_many_consumers_are_refused_with_a_sentence_that_says_what_to_do() {
    let place = Place::new().await;
    let bugle = place.node(|options| options.intentions_max = 3).await;
    let queue = bugle.queue("q").await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let queue = queue.clone();
        waiting.push(tokio::spawn(async move { queue.claim_within("w", 1, HOUR, HOUR).await }));
    }
    until("three wait", async || bugle.node().is_some_and(|node| node.status().intentions == 3)).await;

    let refused = queue.claim_within("w", 1, HOUR, HOUR).await.unwrap_err().to_string();
    assert!(refused.contains("3 consumers wait already"), "{refused}");
    assert!(refused.contains("intentions_max"), "{refused}");
    assert_eq!(node(&bugle).counters().refused_intentions.get(), 1);

    waiting.remove(0).abort();
    until("one has gone", async || node(&bugle).status().intentions == 2).await;
    place.enqueue("q", 3).await;
    let served = tokio::time::timeout(SOON, queue.claim_within("w", 1, HOUR, HOUR)).await.unwrap();
    assert!(served.unwrap().is_some(), "there is room again");
}
