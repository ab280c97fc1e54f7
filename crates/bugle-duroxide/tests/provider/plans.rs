//! What a look costs does not depend on what is not due.

use crate::fixture::Place;
use serde_json::Value;
use sqlx::{Connection as _, PgConnection};

/// Pages that a statement touched, everything inside its functions included.
async fn pages(place: &Place, session: &mut PgConnection, statement: &str) -> i64 {
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}");
    let plan: Value = sqlx::query_scalar(place.db.sql(&explain).unwrap()).fetch_one(session).await.unwrap();
    let plan = &plan[0]["Plan"];
    ["Shared Hit Blocks", "Shared Read Blocks"].iter().map(|name| plan[*name].as_i64().unwrap()).sum()
}

const TURNS: &str = "SELECT * FROM bugle.claim_turns(4, '1 hour', true, 0, 1000, 'n')";
const WORK: &str =
    "SELECT * FROM bugle.claim_work(ARRAY['a', 'b', 'c', 'd'], '1 hour', '1 hour', true, '{}')";
const FUTURE: &str = "
    INSERT INTO bugle.message (instance, kind, item, due) SELECT 'f' || n, 'start', '{}', clock_timestamp() + '1 hour' FROM generate_series(1, 100000) AS n;
    INSERT INTO bugle.inbox (instance, due) SELECT 'f' || n, clock_timestamp() + '1 hour' FROM generate_series(1, 100000) AS n;
    INSERT INTO bugle.work (instance, execution, activity, item, due) SELECT 'f' || n, 1, 1, '{}', clock_timestamp() + '1 hour' FROM generate_series(1, 100000) AS n;";
const DUE: &str = "
    SELECT bugle.enqueue_message('d' || n, 'start', '{}', '0') FROM generate_series(1, 4) AS n;
    SELECT bugle.enqueue_work(ARRAY['d'], ARRAY[1::bigint], ARRAY[n::bigint], ARRAY[NULL], ARRAY[NULL], ARRAY['{}']) FROM generate_series(1, 4) AS n;";

/// With and without statistics: whatever the planner believes, it walks the index of due times from its lower end.
#[tokio::test]
async fn a_hundred_thousand_rows_that_are_not_due_are_not_visited() {
    let place = Place::new().await;
    drop(place.at_once().await);
    place.execute(FUTURE).await;
    let mut session = PgConnection::connect_with(place.db.connect_options()).await.unwrap();
    for analysed in [false, true] {
        if analysed {
            place
                .execute(
                    "ANALYZE bugle.inbox; ANALYZE bugle.message; ANALYZE bugle.work; ANALYZE bugle.instance",
                )
                .await;
        }
        for look in [TURNS, WORK] {
            // What a session reads of the catalogue when it first runs a statement is not the look's.
            place.execute(DUE).await;
            pages(&place, &mut session, look).await;
            let empty = pages(&place, &mut session, look).await;
            assert!(empty < 200, "{empty} pages for an empty look, analysed: {analysed}: {look}");
            place.execute(DUE).await;
            let full = pages(&place, &mut session, look).await;
            assert!(full < 300, "{full} pages to claim four, analysed: {analysed}: {look}");
        }
    }
}
