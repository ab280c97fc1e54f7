//! The look of a sleeper that one job wakes is one statement whose snapshot is older than the queue's lock. What others decide in between must hold.

use crate::fixture::{HOUR, Place, SOON, until};
use bugle::jobs::Look;
use sqlx::PgConnection;
use std::time::Duration;
use tokio::task::JoinHandle;

const LEASE: Duration = Duration::from_mins(1);

/// From now on a quick look waits after its snapshot and before the queue's lock, for as long as a session holds the gate.
const GATE: &str = "
    DO $do$ BEGIN
      EXECUTE format('CREATE OR REPLACE FUNCTION bugle.claim_class() RETURNS int LANGUAGE plpgsql AS $$
        BEGIN
          IF current_query() LIKE ''%%single ask%%'' THEN
            PERFORM pg_advisory_xact_lock_shared(hashtext(''bugle.gate''));
          END IF;
          RETURN %s;
        END $$', bugle.claim_class());
    END $do$";

/// One job, and a node in the middle of a quick look for ten.
struct Halfway {
    place: Place,
    id: i64,
    gate: PgConnection,
    look: JoinHandle<Look>,
}

impl Halfway {
    async fn new() -> Self {
        let place = Place::new().await;
        place.execute(GATE).await;
        let mut gate = place.session().await;
        let hold = place.db.sql("SELECT pg_advisory_lock(hashtext('bugle.gate'))").unwrap();
        sqlx::query(hold).execute(&mut gate).await.unwrap();
        let id = place.enqueue("q", 1).await[0].0;
        let node = place.node(|_| {}).await;
        let look = tokio::spawn(async move {
            let queue = node.queue("q").await.unwrap();
            queue.claim_within("slow", 10, LEASE, HOUR).await.unwrap().unwrap()
        });
        let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = hashtext('bugle.gate')::bit(32)::bigint)";
        let begun = std::time::Instant::now();
        while !place.one::<bool>(waits).await {
            assert!(begun.elapsed() < SOON && !look.is_finished(), "no quick look came to the gate");
        }
        Self { place, id, gate, look }
    }

    /// Lets the look go on.
    async fn open(&mut self) {
        sqlx::query("SELECT pg_advisory_unlock_all()").execute(&mut self.gate).await.unwrap();
    }

    /// What the look brought after all.
    async fn go_on(mut self) -> Vec<i64> {
        self.open().await;
        let look = tokio::time::timeout(SOON, self.look).await.unwrap().unwrap();
        look.jobs.iter().map(|job| job.id.0).collect()
    }

    /// What it brings when that job is gone and another one comes.
    async fn go_on_with_another(mut self) {
        self.open().await;
        until("the node sleeps", async || self.place.seats().await == (1, 0)).await;
        let next = self.place.enqueue("q", 1).await[0].0;
        assert_eq!(self.go_on().await, [next]);
    }
}

#[tokio::test]
async fn what_another_claims_in_between_is_not_handed_out_twice() {
    let halfway = Halfway::new().await;
    let other = halfway.place.outside.queue("q").await.unwrap().claim("quick", 2, LEASE).await.unwrap();
    assert_eq!(other.jobs.iter().map(|job| job.id.0).collect::<Vec<_>>(), [halfway.id]);
    halfway.go_on_with_another().await;
}

#[tokio::test]
async fn what_is_cancelled_in_between_never_starts() {
    let halfway = Halfway::new().await;
    let was = halfway.place.outside.cancel_job(bugle::JobId(halfway.id)).await.unwrap();
    assert_eq!(was, Some(bugle::jobs::State::Ready));
    halfway.go_on_with_another().await;
}

#[tokio::test]
async fn a_pause_in_between_holds() {
    let mut halfway = Halfway::new().await;
    let id = halfway.id;
    assert!(halfway.place.outside.pause("q").await.unwrap());
    halfway.open().await;
    until("the node sleeps", async || halfway.place.seats().await == (1, 0)).await;
    assert_eq!(halfway.place.one::<i64>("SELECT claimed FROM bugle.newest_cursor").await, 0);
    assert!(!halfway.look.is_finished());
    assert!(halfway.place.outside.resume("q").await.unwrap());
    assert_eq!(halfway.go_on().await, [id]);
}

/// Which of the two ways a look goes must not matter to whom it serves.
#[tokio::test]
async fn lanes_are_served_in_order_and_none_waits_for_ever() {
    let place = Place::new().await;
    let node = place.node(|_| {}).await;
    let queue = node.queue("q").await.unwrap();
    place.execute("SELECT bugle.enqueue('q', 'k', priority => p) FROM generate_series(0, 3) AS p, generate_series(1, 20)").await;
    let mut kinds = Vec::new();
    for _ in 0..16 {
        let look = queue.claim_within("w", 1, LEASE, HOUR).await.unwrap().unwrap();
        let id = look.jobs[0].id.0;
        kinds.push(place.one::<i16>(&format!("SELECT lane FROM bugle.job WHERE id = {id}")).await);
    }
    assert_eq!(kinds, [0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 3], "every eighth from the other end");
}
