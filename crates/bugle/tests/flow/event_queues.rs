//! The queues to which steps tell their events: what a definition may name, and that a settlement never fails for one.

use crate::fixture::{Place, Script, again, spec, until};
use bugle::flow::RunState;
use serde_json::{Value, json};

fn telling(queue: &str) -> Value {
    spec(
        &["a"],
        &json!({"a": {"events": [{"on": "always", "queue": queue}, {"on": "retry", "queue": queue}]}}),
    )
}

/// What the database says about a statement that it refuses.
async fn refused(place: &Place, sql: &str, spec: Option<&Value>) -> (String, String) {
    let query = sqlx::query(place.db.sql(sql).unwrap());
    let query = match spec {
        Some(spec) => query.bind(spec),
        None => query,
    };
    let error = query.execute(place.db.pool()).await.unwrap_err();
    let error = error.as_database_error().unwrap();
    (error.message().to_owned(), error.code().unwrap().into_owned())
}

const DEFINE: &str = "SELECT bugle.define($1, sha256($1::text::bytea))";

/// Waits until so many events have been told, and are messages with their numbers.
async fn told(place: &Place, events: i64) {
    until("the events are numbered", async || {
        place.one::<i64>("SELECT bugle.number_tail()").await;
        place.one::<i64>("SELECT count(*) FROM bugle.message").await == events
    })
    .await;
}

async fn runs_to_its_end(place: &Place) {
    let crew = place.crew(&Script::default().on("a", [again()]));
    let run = place.start().await;
    assert_eq!(place.ended(&run).await.0, RunState::Succeeded);
    crew.stop().await;
}

#[tokio::test]
async fn a_queue_that_holds_something_else_is_refused_when_a_definition_names_it() {
    let place = Place::new().await;
    place.one::<i64>("SELECT bugle.enqueue('mail', 'k')").await;
    let (message, code) = refused(&place, DEFINE, Some(&telling("mail"))).await;
    assert_eq!(message, "step \"a\" tells its events to queue \"mail\", which holds jobs");
    assert_eq!(code, "BGL04");
    let (message, _) = refused(&place, DEFINE, Some(&telling("steps"))).await;
    assert_eq!(message, "step \"a\" tells its events to queue \"steps\", which holds steps");
    assert_eq!(place.one::<i64>("SELECT count(*) FROM bugle.definition").await, 0, "nothing was defined");
    place.define(&telling("news")).await;
    let holds = "SELECT holds FROM bugle.queue WHERE name = 'news'";
    assert_eq!(place.one::<String>(holds).await, "messages");
}

#[tokio::test]
async fn no_other_queue_takes_the_name_of_one_for_events() {
    let place = Place::new().await;
    place.define(&telling("news")).await;
    let (message, code) = refused(&place, "SELECT bugle.enqueue('news', 'k')", None).await;
    assert!(message.contains("queue \"news\" holds messages") && code == "BGL04", "{message}");
    // Nor when it was deleted: the next event makes it again.
    place.one::<i32>("DELETE FROM bugle.queue WHERE name = 'news' RETURNING 1").await;
    let (message, code) = refused(&place, "SELECT bugle.enqueue('news', 'k')", None).await;
    assert_eq!(message, "queue \"news\" is for messages: definition \"d\" version 1 tells its events to it");
    assert_eq!(code, "BGL04");
    let mut other = spec(&["b"], &json!({"b": {"queue": "news"}}));
    other["name"] = json!("other");
    let (message, _) = refused(&place, DEFINE, Some(&other)).await;
    assert!(message.contains("is for messages"), "{message}");
    runs_to_its_end(&place).await;
    told(&place, 2).await; // one that failed, one that succeeded
}

#[tokio::test]
async fn a_full_queue_takes_events_all_the_same() {
    let place = Place::new().await;
    place.define(&telling("news")).await;
    let full = "UPDATE bugle.message_queue SET messages_max = 1 RETURNING 1";
    place.one::<i32>(full).await;
    for _ in 0..3 {
        runs_to_its_end(&place).await;
    }
    told(&place, 6).await;
}

#[tokio::test]
async fn a_settlement_never_fails_for_a_queue_that_cannot_hold_its_events() {
    let place = Place::new().await;
    place.define(&telling("news")).await;
    // Nobody can do this but by hand.
    place.one::<i32>("UPDATE bugle.queue SET holds = 'jobs' WHERE name = 'news' RETURNING 1").await;
    runs_to_its_end(&place).await;
    told(&place, 0).await;
}
