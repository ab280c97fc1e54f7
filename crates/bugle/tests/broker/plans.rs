//! No statement of a message's path reads a whole table, nor sorts the log, on a log of a hundred thousand messages in several generations.
use crate::fixture::{Place, any, verdicts};
use bugle::broker::Verdict;
use bugle::broker::operate::Filter;
use sqlx::Row as _;
use std::collections::BTreeMap;

/// A queue `q` with a hundred partitions and a hundred thousand messages, in four generations; most of them done by the group.
async fn filled() -> Place {
    let place = Place::new().await;
    place
        .execute(
            "SELECT bugle.declare_queue('q', 'default', 'messages');
            SELECT bugle.declare_group(1, '__QUEUE_MODE__');
            INSERT INTO bugle.partition (queue, name) SELECT 1, 'p' || n FROM generate_series(1, 100) AS n;
            SELECT bugle.make_generations(4);",
        )
        .await;
    for generation in 0..4_i64 {
        place
            .execute(&format!(
                "INSERT INTO bugle.message (part, seq, n, at, id, key, payload)
                SELECT 1 + i % 100, {start} + i, {generation} * 250 + i / 100 + 1, clock_timestamp(), gen_random_uuid(), 'k' || {generation} || '-' || i, '1'
                FROM generate_series(1, 24999) AS i;
                INSERT INTO bugle.generation (no) VALUES ({generation}) ON CONFLICT DO NOTHING;
                SELECT setval('bugle.message_seq', {start} + 25000)",
                start = generation << 32
            ))
            .await;
    }
    place
        .execute(
            "INSERT INTO bugle.message_key (part, key, gen, id, seq) SELECT part, key, (seq >> 32)::int, id, seq FROM bugle.message;
            INSERT INTO bugle.group_cursor (part, grp, ver, cur) SELECT p.id, 1, v, (3::bigint << 32) + 24900 FROM bugle.partition p, generate_series(1, 30) AS v;
            ANALYZE bugle.message; ANALYZE bugle.message_key; ANALYZE bugle.group_cursor; ANALYZE bugle.partition; ANALYZE bugle.news; ANALYZE bugle.tail",
        )
        .await;
    place
}

/// Rows that were read from each table of messages, by sequential scans and through indexes.
async fn read(place: &Place) -> BTreeMap<String, (i64, i64)> {
    let sql = "SELECT regexp_replace(relname, '_[0-9]+$', '') AS name, sum(seq_tup_read)::bigint AS whole, sum(coalesce(idx_tup_fetch, 0))::bigint AS probed
        FROM pg_stat_user_tables WHERE schemaname = $1
        AND relname ~ '^(message|message_key|group_cursor|partition|news|tail|dead_message)(_[0-9]+)?$' GROUP BY 1";
    let rows = sqlx::query(sql)
        .bind(place.db.schema_name().unwrap().as_str())
        .fetch_all(place.db.pool())
        .await
        .unwrap();
    rows.iter().map(|row| (row.get("name"), (row.get("whole"), row.get("probed")))).collect()
}

#[tokio::test]
async fn no_statement_of_a_messages_path_reads_a_whole_table() {
    let place = filled().await;
    // What the filling has read is told with some delay.
    crate::fixture::until("the filling is counted", async || {
        let read = read(&place).await;
        read["message"].0 >= 99_996 && read["partition"].0 >= 100
    })
    .await;
    let before = read(&place).await;
    for round in 0..3 {
        let with_key =
            |n: i32| crate::fixture::message("q", &format!("p{n}"), n).key(&format!("r{round}-{n}")).unwrap();
        place.broker.push((1..=20).map(with_key).collect()).await.unwrap();
        place.execute("SELECT bugle.push('q', 'p7', '1')").await;
        for _ in 0..3 {
            let popped = place.broker.pop(&any(20).partitions(3).unwrap()).await.unwrap().unwrap();
            place.broker.extend(popped.token, crate::fixture::HOUR).await.unwrap();
            let verdict = if round == 1 { Verdict::Fail } else { Verdict::Ack };
            place.broker.settle(&verdicts(&popped, verdict)).await.unwrap();
        }
        let filter = Filter { queue: Some("q".to_owned()), limit: 5, ..Filter::default() };
        place.broker.list_messages(&filter).await.unwrap();
        place.broker.lag("q", None).await.unwrap();
        place.broker.list_queues(&bugle::broker::operate::Tags::default()).await.unwrap();
    }
    let begun = std::time::Instant::now();
    let after = loop {
        let after = read(&place).await;
        if after["message"].1 > before["message"].1 + 1_000 {
            break after;
        }
        assert!(begun.elapsed() < crate::fixture::SOON, "not counted: {after:?}, before {before:?}");
        tokio::task::yield_now().await;
    };
    let probed = after["message"].1 - before["message"].1;
    assert!(probed < 20_000, "{probed} messages were read through indexes");
    for (name, (whole, _)) in &after {
        assert_eq!(*whole, before[name].0, "{name} was read from end to end: {after:?}, before {before:?}");
    }
}

#[tokio::test]
async fn what_a_statement_touches_does_not_grow_with_the_log() {
    let place = filled().await;
    let token = "ARRAY['aaaaaaaa-0000-0000-0000-000000000000'::uuid]";
    let look = |seen: &str, tried: &str| {
        format!(
            "SELECT * FROM bugle.look_messages('{{1}}', '{{1}}', ARRAY[{seen}]::text[], ARRAY['{tried}'], '{{1}}', '{{NULL}}', '{{10}}', '{{1}}', {token}, '{{NULL}}', '{{f}}')"
        )
    };
    let seen = "pg_current_snapshot()::text";
    for (what, most, statement) in [
        ("an empty look", 40, look(seen, "{}")),
        ("a look that claims", 300, look(seen, "{5}")),
        ("a push", 300, "SELECT * FROM bugle.push_messages('{1}', '{p5}', ARRAY[gen_random_uuid()], '{k}', '{NULL}', '{NULL}', '{1}')".to_owned()),
        ("the depth of a hundred partitions", 3_000, "SELECT bugle.queue_depth(1)".to_owned()),
        ("a search of a hundred partitions", 3_000, look("NULL", "{}")),
        ("the lag of a hundred partitions", 3_000, "SELECT * FROM bugle.group_lag(1)".to_owned()),
    ] {
        let touched = place.db.pages_touched(&statement).await.unwrap();
        assert!(touched < most, "{what}: {touched} pages");
    }
}
