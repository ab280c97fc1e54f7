//! What people ask for does not read the log: the statement of each of the operator's routes, on a million messages. Pages are counted, not time.
use crate::fixture::Place;
use std::collections::BTreeSet;

const MESSAGES: i64 = 1_000_000;
const PARTITIONS: i64 = 100;
const GENERATIONS: i64 = 4;
/// A probe or two in each generation for each partition; the log itself is some thirteen thousand pages.
const PAGES_MAX: u64 = 4_000;
/// For what is about one message, one group or one queue's row.
const FEW_PAGES: u64 = 300;

/// A queue `q` with a million messages of the last day, in a hundred partitions and four generations, of which the group `g` has done nine in ten;
/// and dead letters.
async fn filled() -> Place {
    let place = Place::new().await;
    place
        .execute(
            "SELECT bugle.declare_queue('q', 'default', 'messages');
            SELECT bugle.declare_group(1, 'g');
            INSERT INTO bugle.partition (queue, name) SELECT 1, 'p' || n FROM generate_series(1, 100) AS n;
            SELECT bugle.make_generations(4);",
        )
        .await;
    let each = MESSAGES / GENERATIONS;
    for generation in 0..GENERATIONS {
        // Partition by partition, so that the index grows at one end; the numbers rise in each.
        place
            .execute(&format!(
                "INSERT INTO bugle.message (part, seq, n, at, id, key, payload)
                SELECT 1 + i / {per_part}, ({generation}::bigint << 32) + 1 + i % {per_part} * {PARTITIONS} + i / {per_part},
                    {generation} * {per_part} + i % {per_part} + 1,
                    clock_timestamp() - interval '24 hours' * (1 - ({generation} + (i % {per_part})::float / {per_part}) / {GENERATIONS}),
                    md5('{generation}-' || i)::uuid, CASE WHEN {generation} = 3 THEN 'k' || i END, '1'
                FROM generate_series(0, {each} - 1) AS i;
                INSERT INTO bugle.generation (no, opened_at) VALUES ({generation}, clock_timestamp() - interval '6 hours' * ({GENERATIONS} - {generation}))
                ON CONFLICT (no) DO UPDATE SET opened_at = EXCLUDED.opened_at;
                SELECT setval('bugle.message_seq', ({generation}::bigint << 32) + {each} + 1)",
                per_part = each / PARTITIONS,
            ))
            .await;
    }
    place
        .execute(
            "INSERT INTO bugle.message_key (part, key, gen, id, seq)
            SELECT part, key, 3, id, seq FROM bugle.message WHERE seq >= 3::bigint << 32;
            INSERT INTO bugle.group_cursor (part, grp, ver, cur)
            SELECT p.id, 1, v, (3::bigint << 32) + 150000 FROM bugle.partition p, generate_series(1, 30) AS v;
            INSERT INTO bugle.dead_message (queue, part, group_name, seq, id, key, payload, at, died_at, tries, error)
            SELECT 1, m.part, 'g', m.seq, m.id, m.key, m.payload, m.at, clock_timestamp(), 3, 'no' FROM bugle.message m WHERE m.part = 7 AND m.seq < 20000;
            INSERT INTO bugle.seq_mark (at, seq)
            SELECT clock_timestamp() - interval '1 minute' * n, ((1440 - n) / 360)::bigint << 32 | ((1440 - n) % 360) * 694 FROM generate_series(1, 1439) AS n;
            ANALYZE bugle.message; ANALYZE bugle.message_key; ANALYZE bugle.group_cursor; ANALYZE bugle.partition; ANALYZE bugle.dead_message",
        )
        .await;
    place
}

/// Where a message of the newest generation stands: the fifth of partition 7.
const SEQ: &str = "((3::bigint << 32) + 1 + 5 * 100 + 6)";

/// The statements behind the operator's routes, by their files, with values for their parameters.
fn statements() -> Vec<(&'static str, u64, Vec<&'static str>)> {
    vec![
        ("configure_queue", FEW_PAGES, vec!["'q'", "'{}'::jsonb", "'default'"]),
        ("list_message_queues", PAGES_MAX, vec!["1", "NULL", "NULL", "NULL"]),
        ("list_message_queues", PAGES_MAX, vec!["1", "NULL", "NULL", "'q'"]),
        ("partition_counts", PAGES_MAX, vec!["1"]),
        ("queue_of_partition", FEW_PAGES, vec!["1", "7"]),
        ("tagged_queues", FEW_PAGES, vec!["1", "'shop'", "NULL"]),
        ("list_groups", PAGES_MAX, vec!["1", "NULL"]),
        ("list_groups", PAGES_MAX, vec!["1", "'q'"]),
        ("group_lag", PAGES_MAX, vec!["1", "'g'"]),
        ("list_messages", PAGES_MAX, vec!["1", "'q'", "NULL", "NULL", "NULL", "NULL", "50"]),
        ("list_messages", PAGES_MAX, vec!["1", "'q'", "'p7'", "NULL", "NULL", SEQ, "50"]),
        (
            "list_messages",
            PAGES_MAX,
            vec!["1", "'q'", "NULL", "now() - interval '1 hour'", "NULL", "NULL", "50"],
        ),
        (
            "list_messages",
            PAGES_MAX,
            vec!["1", "'q'", "NULL", "NULL", "now() - interval '12 hours'", "NULL", "50"],
        ),
        ("find_message", FEW_PAGES, vec!["1", "7", "'k15005'"]),
        ("show_message", FEW_PAGES, vec!["7", SEQ]),
        ("groups_of_message", FEW_PAGES, vec!["7", SEQ]),
        ("list_dead_messages", FEW_PAGES, vec!["1", "'q'", "NULL", "20", "0"]),
        ("count_dead_messages", FEW_PAGES, vec!["1", "'q'", "NULL"]),
        ("redrive_dead", FEW_PAGES, vec!["1", "'g'", "7", "NULL", "10"]),
        ("purge_dead", FEW_PAGES, vec!["1", "'g'", "7", "'nobody'"]),
        ("seek_group", FEW_PAGES, vec!["1", "'g'", "'beginning'", "NULL"]),
        ("seek_group", FEW_PAGES, vec!["1", "'g'", "'end'", "NULL"]),
        ("seek_group", FEW_PAGES, vec!["1", "'g'", "'time'", "now() - interval '1 hour'"]),
        ("seek_partition", FEW_PAGES, vec!["1", "'g'", "'p7'"]),
        ("delete_group", FEW_PAGES, vec!["1", "'g'"]),
        ("clear_queue", FEW_PAGES, vec!["1"]),
        ("delete_message_queue", PAGES_MAX, vec!["1"]),
        ("maintenance", FEW_PAGES, vec![]),
        ("set_maintenance", FEW_PAGES, vec!["true", "NULL"]),
        ("extend_leases", FEW_PAGES, vec!["1", "ARRAY[gen_random_uuid()]", "ARRAY[interval '1 minute']"]),
    ]
}

/// Of the path of a message, which has tests of its own, and of the sweep, which nobody waits for.
const NOT_THE_OPERATORS: [&str; 16] = [
    "advance_floors",
    "begin_generation",
    "declare_group",
    "declare_message_queue",
    "declare_partition",
    "drop_patience",
    "droppable_tables",
    "find_message_queue",
    "find_partition",
    "look_messages",
    "make_generations",
    "number_tail",
    "push_messages",
    "settle_messages",
    "transact",
    "trim_messages",
];

fn folder() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/broker/sql")
}

/// Others who make tables beside it let a session forget what it knows of them, and read that again: it is asked until it was left alone.
async fn least_touched(place: &Place, sql: &str, most: u64) -> u64 {
    let mut least = u64::MAX;
    for _ in 0..20 {
        least = least.min(place.db.pages_touched(sql).await.unwrap());
        if least <= most {
            break;
        }
    }
    least
}

#[tokio::test]
async fn what_people_ask_for_reads_no_log_of_a_million_messages() {
    let place = filled().await;
    assert_eq!(place.one::<i64>("SELECT count(*) FROM bugle.message").await, MESSAGES);
    let mut too_many = Vec::new();
    for (name, most, values) in statements() {
        let mut sql = std::fs::read_to_string(folder().join(format!("{name}.sql"))).unwrap();
        for (place, value) in values.iter().enumerate().rev() {
            sql = sql.replace(&format!("${}", place + 1), value);
        }
        assert!(!sql.contains('$'), "{name} has more parameters: {sql}");
        let touched = least_touched(&place, sql.trim_end().trim_end_matches(';'), most).await;
        eprintln!("{touched:5} pages: {name} {values:?}");
        if touched > most {
            too_many.push(format!("{name} {values:?}: {touched} pages"));
        }
    }
    assert_eq!(too_many, Vec::<String>::new());
    let all = place.db.pages_touched("SELECT count(*) FROM bugle.message").await.unwrap();
    assert!(all > 2 * PAGES_MAX, "the log is only {all} pages: nothing would be noticed");
}

#[test]
fn no_statement_is_forgotten() {
    let known: BTreeSet<String> =
        statements().into_iter().map(|(name, ..)| name).chain(NOT_THE_OPERATORS).map(str::to_owned).collect();
    let there: BTreeSet<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(known, there);
}
