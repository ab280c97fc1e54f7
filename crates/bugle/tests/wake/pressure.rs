//! Fault row 14: somebody listens and does not read, and PostgreSQL's queue of notifications fills up. Filling it takes gigabytes; here the
//! heartbeat's function says how full it is, in the test's own schema.
use crate::fixture::{Place, until};
use crate::node::{Waiter, counters, status};
use std::time::Duration;

impl Place {
    async fn say_how_full(&self, usage: f64) {
        self.execute(&format!(
            "CREATE OR REPLACE FUNCTION bugle.heartbeat(OUT backend int, OUT control bigint, OUT notify_usage float8) LANGUAGE sql
             AS $$ SELECT pg_backend_pid(), c.version, {usage}::float8 FROM bugle.control c $$"
        ))
        .await;
    }
}

#[tokio::test]
async fn above_half_of_the_notification_queue_nodes_hold_no_lock_and_poll() {
    let p = Place::new().await;
    let node = p.node_with(|options| options.wake.times.heartbeat = Duration::from_millis(100)).await;
    let waiter = p.sentinel(&node).await;
    p.say_how_full(0.6).await;
    p.until_nobody_sits().await;
    assert!(!status(&node).listening, "and it says so");

    let mut ear = p.ear().await;
    let id = p.push().await;
    assert_eq!(waiter.job().await.id.0, id, "found by a poll");
    assert!(ear.heard().await.is_empty(), "nobody was rung for");

    p.say_how_full(0.3).await;
    let beats = counters(&node).heartbeats.get();
    until("it has looked twice at how full it is", async || counters(&node).heartbeats.get() > beats + 2)
        .await;
    assert!(!status(&node).listening, "a queue that is only less full is not trusted");
    p.say_how_full(0.1).await;
    let waiter = Waiter::on(&node, "q").await;
    p.until_sentinel(&node).await;
    let id = p.push().await;
    assert_eq!(waiter.job().await.id.0, id);
    assert!(ear.heard().await.len() == 1, "by a ring again");
}
