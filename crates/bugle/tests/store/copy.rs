//! Jobs written with COPY.

use crate::fixture::{Fixture, ids, raw, receipts};
use bugle::jobs::Priority;
use bugle::{Job, Outcome};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Line {
    text: String,
}

impl Job for Line {
    const KIND: &'static str = "line";
    const QUEUE: &'static str = "q";
    const MAX_ATTEMPTS: u16 = 3;
}

#[tokio::test]
async fn jobs_written_in_bulk_are_as_any_others() {
    let f = Fixture::new().await;
    // Longer than one chunk, with everything that a text can be.
    let lines: Vec<Line> =
        (0..1_000).map(|n| Line { text: format!("{n}\t\\N \n\"é\" {}", "x".repeat(50)) }).collect();
    assert_eq!(f.bugle.enqueue_bulk(&lines).send().await.unwrap(), 1_000);
    assert_eq!(f.counts().await, "ready 1000");
    let look = f.claim(1_000).await;
    let texts: Vec<Line> =
        look.jobs.iter().map(|job| serde_json::from_str(job.payload.get()).unwrap()).collect();
    assert!(texts.iter().zip(&lines).all(|(got, sent)| got.text == sent.text), "in order, and unchanged");
    assert!(look.jobs.iter().all(|job| job.kind == "line" && job.max_attempts == 3 && job.attempt == 1));
    f.queue.ack(&receipts(&look.jobs), &[look.token]).await.unwrap();
    assert_eq!(f.counts().await, "done 1000");
}

#[tokio::test]
async fn jobs_written_in_bulk_keep_to_their_queue_and_lane() {
    let f = Fixture::new().await;
    let first = f.enqueue(1).await;
    let two = || vec![raw("1"), raw("2")];
    f.bugle.enqueue_bulk_raw("q", "k", two()).priority(Priority::Urgent).send().await.unwrap();
    f.bugle.enqueue_bulk_raw("another", "k", two()).send().await.unwrap();
    let look = f.claim(10).await;
    assert_eq!(look.jobs.len(), 3);
    assert_eq!(ids(&look.jobs)[2], first[0], "urgent ones go first");
    assert_eq!(f.counts().await, "ready 2, leased 3");
    assert_eq!(f.bugle.enqueue_bulk_raw("q", "k", Vec::new()).send().await.unwrap(), 0);
}

#[tokio::test]
async fn a_bulk_in_a_callers_transaction_exists_only_when_that_commits() {
    let f = Fixture::new().await;
    for commit in [false, true] {
        let mut tx = f.db.pool().begin().await.unwrap();
        f.bugle.enqueue_bulk_raw("q", "k", vec![raw("1"); 3]).on(&mut tx).await.unwrap();
        if commit { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
    }
    assert_eq!(f.counts().await, "ready 3");
}

#[tokio::test]
async fn a_bulk_is_written_whole_or_not_at_all() {
    let f = Fixture::new().await;
    let long = format!("\"{}\"", "x".repeat(300_000));
    let half = "\"\\ud800\""; // half a character: JSON by the letter, and not for PostgreSQL
    for (bad, fault) in [(&long[..], "payload is 300002 bytes long"), (half, "")] {
        let error = f.bugle.enqueue_bulk_raw("q", "k", [raw("1"), raw(bad)]).send().await.unwrap_err();
        assert!(error.to_string().contains(fault), "{error}");
        assert_eq!(error.outcome(), Outcome::Refused, "{error}");
    }
    for attempts in [0, 1_001, 40_000] {
        let bulk = f.bugle.enqueue_bulk_raw("q", "k", [raw("1")]).max_attempts(attempts);
        assert!(bulk.send().await.unwrap_err().to_string().contains(&format!("is {attempts}")));
    }
    assert_eq!(f.counts().await, "");
    f.bugle.enqueue_bulk_raw("q", "k", [raw("1")]).send().await.unwrap(); // the connection is as good as before
    assert_eq!(f.counts().await, "ready 1");
}
