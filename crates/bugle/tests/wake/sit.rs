//! Rules 5, 7 and 8 as the functions keep them: plain sessions, interleaved by hand.
use crate::fixture::{LEVELS, Place, Sleeper, soon};
use bugle_testkit::postgres::{Backend, terminate_backend};

/// How many jobs a sleeper's look could see.
async fn visible(p: &Place, sleeper: &mut Sleeper) -> i64 {
    let count = sqlx::query_scalar(p.sql("SELECT count(*) FROM bugle.job"));
    count.fetch_one(&mut sleeper.session).await.unwrap()
}

#[tokio::test]
async fn a_refusal_by_a_producer_in_flight_is_no_proof_of_a_sentinel() {
    for level in LEVELS {
        let p = Place::new().await;
        let (mut ear, mut sleeper) = (p.ear().await, p.sleeper().await);
        let mut producer = p.transaction(level).await;
        p.run(&mut producer, "SELECT bugle.enqueue('q', 'k')").await;
        assert_eq!(sleeper.sit(false).await, "shallow", "{level}");
        assert_eq!(p.seats().await, [""; 0], "nothing is kept");
        p.run(&mut producer, "COMMIT").await;
        assert_eq!(ear.heard().await, [""; 0], "it found nobody asleep");
        assert_eq!(sleeper.sit(false).await, "bell");
        assert_eq!(visible(&p, &mut sleeper).await, 1, "the second look finds it");
    }
}

#[tokio::test]
async fn whoever_gets_the_bell_sees_every_job_written_under_its_shared_side() {
    for level in LEVELS {
        let p = Place::new().await;
        let (mut ear, mut sleeper) = (p.ear().await, p.sleeper().await);
        let mut producers = Vec::new();
        for _ in 0..3 {
            let mut producer = p.transaction(level).await;
            p.run(&mut producer, "SELECT bugle.enqueue('q', 'k')").await;
            producers.push(producer);
        }
        for (producer, end) in producers.iter_mut().zip(["COMMIT", "ROLLBACK", "COMMIT"]) {
            assert_eq!(sleeper.sit(false).await, "shallow", "{level}");
            p.run(producer, end).await;
        }
        assert_eq!(sleeper.sit(false).await, "bell");
        assert_eq!(visible(&p, &mut sleeper).await, 2);
        assert_eq!(ear.heard().await, [""; 0], "and nobody will ring for them");
    }
}

#[tokio::test]
async fn a_reserve_that_finds_only_a_producer_gives_its_mark_back() {
    let p = Place::new().await;
    let (mut one, mut two) = (p.sleeper().await, p.sleeper().await);
    assert_eq!((one.sit(false).await, two.sit(false).await), ("bell".to_owned(), "reserve".to_owned()));
    one.leave().await;
    let mut producer = p.transaction(LEVELS[0]).await;
    p.run(&mut producer, "SELECT bugle.enqueue('q', 'k')").await;
    assert_eq!(two.sit(true).await, "shallow");
    assert_eq!(p.seats().await, [""; 0], "session locks are counted: it had one, not two");
    p.run(&mut producer, "COMMIT").await;
    assert_eq!(two.sit(false).await, "bell");
}

#[tokio::test]
async fn the_second_to_sit_is_marked_and_told_when_the_first_leaves() {
    let p = Place::new().await;
    let (mut ear, mut one, mut two) = (p.ear().await, p.sleeper().await, p.sleeper().await);
    assert_eq!(one.sit(false).await, "bell");
    assert_eq!(two.sit(false).await, "reserve");
    assert_eq!(p.seats().await, ["sentinel", "reserve"]);
    assert_eq!(two.sit(true).await, "reserve", "the heartbeat of a reserve changes nothing");
    assert_eq!(ear.heard().await, [""; 0]);
    assert_eq!(one.leave().await, 1);
    assert_eq!(ear.heard().await, [format!("{}:h", p.bucket)]);
    assert_eq!(two.sit(true).await, "bell");
    assert_eq!(p.seats().await, ["sentinel"], "the mark went with it");
    assert_eq!(ear.heard().await, [""; 0], "nobody else is marked");
}

#[tokio::test]
async fn nobody_is_told_where_nobody_is_marked() {
    let p = Place::new().await;
    let (mut ear, mut one, mut two) = (p.ear().await, p.sleeper().await, p.sleeper().await);
    assert_eq!(one.sit(false).await, "bell");
    assert_eq!(one.leave().await, 0);
    assert_eq!(one.sit(false).await, "bell");
    assert_eq!(two.sit(false).await, "reserve");
    assert_eq!(two.unmark().await, 0, "a reserve that leaves just drops the mark");
    assert_eq!(one.leave().await, 0);
    assert_eq!(ear.heard().await, [""; 0]);
}

#[tokio::test]
async fn whoever_takes_the_bell_after_a_crash_tells_the_others() {
    let p = Place::new().await;
    let mut ear = p.ear().await;
    let (mut one, mut two, mut three) = (p.sleeper().await, p.sleeper().await, p.sleeper().await);
    assert_eq!(one.sit(false).await, "bell");
    assert_eq!(two.sit(false).await, "reserve");
    assert_eq!(three.sit(false).await, "reserve");
    terminate_backend(p.db.connect_options(), Backend::Pid(one.pid)).await.unwrap();
    assert_eq!(p.seats().await, ["reserve", "reserve"], "its locks died with it");
    assert_eq!(ear.heard().await, [""; 0]);
    assert_eq!(two.sit(true).await, "bell");
    assert_eq!(ear.heard().await, [format!("{}:h", p.bucket)], "the third slept uncovered meanwhile");
    assert_eq!(three.sit(true).await, "reserve");
}

/// Puts a gate into `ring_if_marked`: whoever comes there waits while the place's own lock 1 is held.
async fn gate_the_handover(p: &Place) {
    p.execute(
        "ALTER FUNCTION bugle.ring_if_marked(int[]) RENAME TO ring_now;
         CREATE FUNCTION bugle.ring_if_marked(p_buckets int[]) RETURNS int LANGUAGE plpgsql AS $$
         BEGIN
           PERFORM pg_advisory_xact_lock_shared(bugle.claim_class() + 1, 1);
           RETURN bugle.ring_now(p_buckets);
         END $$",
    )
    .await;
}

#[tokio::test]
async fn the_bell_is_unlocked_before_the_handover_is_rung() {
    let p = Place::new().await;
    gate_the_handover(&p).await;
    let (mut one, mut two) = (p.sleeper().await, p.sleeper().await);
    assert_eq!(one.sit(false).await, "bell");
    assert_eq!(two.sit(false).await, "reserve");
    let mut gate = p.session().await;
    p.run(&mut gate, "SELECT pg_advisory_lock(bugle.claim_class() + 1, 1)").await;
    let pid = one.pid;
    let leaving = tokio::spawn(async move { one.leave().await });
    p.until_it_waits(pid).await;
    // The ring is still to come, and it must find whoever sits now.
    let mut three = p.sleeper().await;
    let shared = p.sql("SELECT pg_try_advisory_xact_lock_shared(bugle.bell_class(), $1)");
    let free: bool = sqlx::query_scalar(shared).bind(p.bucket).fetch_one(&mut three.session).await.unwrap();
    assert!(free, "a reserve that hears the ring first would find the bell taken and sleep on");
    p.run(&mut gate, "SELECT pg_advisory_unlock(bugle.claim_class() + 1, 1)").await;
    assert_eq!(soon("it has left", leaving).await.unwrap(), 1);
}

#[tokio::test]
async fn a_sleeper_is_marked_before_it_tests_for_a_sentinel() {
    let p = Place::new().await;
    let (mut one, mut two) = (p.sleeper().await, p.sleeper().await);
    assert_eq!(one.sit(false).await, "bell");
    // A gate between the refusal and the mark: somebody's ring_if_marked is under way.
    let mut gate = p.session().await;
    let bucket = p.bucket;
    p.run(&mut gate, &format!("SELECT pg_advisory_lock(bugle.mark_class(), {bucket})")).await;
    let pid = two.pid;
    let sitting = tokio::spawn(async move { (two.sit(false).await, two) });
    p.until_it_waits(pid).await;
    one.leave().await;
    p.run(&mut gate, &format!("SELECT pg_advisory_unlock(bugle.mark_class(), {bucket})")).await;
    let (seat, mut two) = soon("it sits", sitting).await.unwrap();
    assert_eq!(
        seat, "shallow",
        "tested before the mark, it would rely on a sentinel that left unaware of it"
    );
    assert_eq!(two.sit(false).await, "bell");
}

#[tokio::test]
async fn many_seats_are_taken_and_left_with_one_statement() {
    let p = Place::new().await;
    let (mut ear, mut one, mut two) = (p.ear().await, p.sleeper().await, p.sleeper().await);
    assert_eq!(one.sit(false).await, "bell");
    let all: Vec<i32> = (1..=bugle_wake::BUCKETS).collect();
    let sit = p.sql("SELECT bugle.sit($1, array_fill(false, ARRAY[64]))");
    let seats: Vec<String> = sqlx::query_scalar(sit).bind(&all).fetch_one(&mut two.session).await.unwrap();
    for (bucket, seat) in all.iter().zip(&seats) {
        assert_eq!(seat, if *bucket == p.bucket { "reserve" } else { "bell" }, "bucket {bucket}");
    }
    assert_eq!(one.leave().await, 1);
    let leave = p.sql("SELECT bugle.leave(array_remove($1, $2), ARRAY[$2])");
    let rung: i32 =
        sqlx::query_scalar(leave).bind(&all).bind(p.bucket).fetch_one(&mut two.session).await.unwrap();
    assert_eq!(rung, 0);
    assert_eq!(p.one::<i64>("SELECT count(*) FROM bugle.seat").await, 0);
    assert_eq!(ear.heard().await, [format!("{}:h", p.bucket)]);
}

#[tokio::test]
async fn a_stranger_with_the_shared_side_costs_sleep_and_one_with_the_exclusive_side_costs_rings() {
    let p = Place::new().await;
    let (mut ear, mut sleeper, mut stranger) = (p.ear().await, p.sleeper().await, p.session().await);
    let bucket = p.bucket;
    p.run(&mut stranger, &format!("SELECT pg_advisory_lock_shared(bugle.bell_class(), {bucket})")).await;
    assert_eq!(sleeper.sit(false).await, "shallow", "it looks at short intervals");
    p.push().await;
    assert_eq!(ear.heard().await, [""; 0]);
    p.run(&mut stranger, &format!("SELECT pg_advisory_unlock_shared(bugle.bell_class(), {bucket})")).await;
    p.run(&mut stranger, &format!("SELECT pg_advisory_lock(bugle.bell_class(), {bucket})")).await;
    assert_eq!(sleeper.sit(false).await, "reserve");
    p.push().await;
    assert_eq!(ear.heard().await.len(), 1, "everybody who sleeps hears it");
}
