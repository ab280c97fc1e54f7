//! What people ask for does not read the table of runs, nor those of steps and events: the statements of lists, on a hundred thousand runs. Pages
//! are counted, not time.

use crate::fixture::{Place, spec};
use serde_json::json;
use std::collections::BTreeSet;

const RUNS: i64 = 100_000;
/// For a page of a list, with what the index says of each row.
const PAGES_MAX: u64 = 400;
/// For counts, which walk along an index up to their limit.
const COUNT_PAGES_MAX: u64 = 1_200;

/// A hundred thousand runs of four definitions of two steps, of which one in a hundred has failed and one in a thousand is open, each with its events.
async fn filled() -> Place {
    let place = Place::new().await;
    for name in ["one", "two", "three", "four"] {
        let mut spec = spec(&["a", "b < a"], &json!({}));
        spec["name"] = json!(name);
        place.define(&spec).await;
    }
    let fill = format!(
        "INSERT INTO bugle.run (id, namespace, definition, state, steps_left, created_at, started_at, ended_at)
        SELECT i, d.namespace, d.id, CASE WHEN i % 1000 = 0 THEN 'queued' WHEN i % 100 = 1 THEN 'failed' WHEN i % 5000 = 2 THEN 'cancelled' ELSE 'succeeded' END, 0,
          now() - interval '1 second' * ({RUNS} - i), now(), CASE WHEN i % 1000 > 0 THEN now() - interval '1 second' * ({RUNS} - i) END
        FROM generate_series(1, {RUNS}) AS i
        JOIN bugle.definition d ON d.id = 1 + (i / 100) % 4;
        SELECT setval('bugle.job_id', {RUNS} + 1);
        INSERT INTO bugle.step (run, no, state, parents_left, since, why, message)
        SELECT r.id, no, CASE WHEN r.state = 'failed' AND no = 1 THEN 'failed' ELSE 'succeeded' END, 0, r.created_at, 'code', 'message'
        FROM bugle.run r CROSS JOIN generate_series(1, 2) AS no;
        INSERT INTO bugle.flow_value (run, no, idx, epoch, value) SELECT r.id, 0, 0, 1, '{{}}' FROM bugle.run r;
        INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, to_state)
        SELECT r.created_at, r.id, no, 0, 1, 'start', 'ready' FROM bugle.run r CROSS JOIN generate_series(0, 2) AS no;
        ANALYZE bugle.run; ANALYZE bugle.step; ANALYZE bugle.flow_event; ANALYZE bugle.flow_value"
    );
    sqlx::raw_sql(place.db.sql(&fill).unwrap()).execute(place.db.pool()).await.unwrap();
    place
}

/// A run in the middle, which failed.
const RUN: &str = "50001::bigint";

/// The statements by which people look, by their files, with values for their parameters.
fn statements() -> Vec<(&'static str, u64, Vec<&'static str>)> {
    let list = |values: Vec<&'static str>| ("list_runs", PAGES_MAX, values);
    vec![
        list(vec!["'default'", "NULL", "NULL", "NULL::timestamptz", "NULL::timestamptz", "NULL", "20"]),
        list(vec!["'default'", "'two'", "NULL", "NULL::timestamptz", "NULL::timestamptz", "NULL", "20"]),
        list(vec![
            "'default'",
            "NULL",
            "'cancelled'",
            "NULL::timestamptz",
            "NULL::timestamptz",
            "NULL",
            "20",
        ]),
        list(vec!["'default'", "'two'", "'queued'", "NULL::timestamptz", "NULL::timestamptz", "NULL", "20"]),
        list(vec![
            "'default'",
            "NULL",
            "NULL",
            "now() - interval '1 minute'",
            "NULL::timestamptz",
            "NULL",
            "20",
        ]),
        list(vec!["'default'", "'nobody'", "NULL", "NULL::timestamptz", "NULL::timestamptz", "NULL", "20"]),
        list(vec![
            "'default'",
            "NULL",
            "'failed'",
            "NULL::timestamptz",
            "now() - interval '40000 s'",
            "60000",
            "20",
        ]),
        ("count_runs", COUNT_PAGES_MAX, vec!["'default'", "NULL", "200"]),
        ("list_definitions", COUNT_PAGES_MAX, vec!["'default'", "NULL", "200"]),
        ("show_definition", PAGES_MAX, vec!["'default'", "'two'", "NULL"]),
        ("show_run", PAGES_MAX, vec![RUN, "'default'"]),
        ("show_steps", PAGES_MAX, vec![RUN, "'default'", "20"]),
        ("count_elements", PAGES_MAX, vec![RUN]),
        (
            "list_events",
            PAGES_MAX,
            vec![RUN, "'default'", "NULL::timestamptz", "NULL::timestamptz", "NULL", "100"],
        ),
        ("defined_steps", PAGES_MAX, vec![RUN]),
        ("list_outputs", PAGES_MAX, vec![RUN]),
        ("why_steps", PAGES_MAX, vec![RUN]),
        ("list_dead_runs", PAGES_MAX, vec!["'default'", "NULL", "NULL::timestamptz", "NULL", "20"]),
        (
            "list_dead_runs",
            PAGES_MAX,
            vec!["'default'", "'two'", "now() - interval '40000 s'", "60000", "20"],
        ),
        ("dead_steps", PAGES_MAX, vec![RUN, "100"]),
        ("list_attempts", PAGES_MAX, vec![RUN, "100"]),
        ("export_header", PAGES_MAX, vec![]),
        ("export_runs", PAGES_MAX, vec!["'default'", "now() - interval '40000 s'", "60000", "20"]),
        ("export_run", PAGES_MAX, vec![RUN, "'default'"]),
        ("export_definition", PAGES_MAX, vec!["1"]),
        ("export_values", PAGES_MAX, vec![RUN]),
        ("export_events", PAGES_MAX, vec![RUN]),
        ("export_notes", PAGES_MAX, vec![RUN]),
        ("export_signals", PAGES_MAX, vec!["'default'"]),
        ("rebuilt_steps", PAGES_MAX, vec![RUN]),
        ("rebuilt_edges", PAGES_MAX, vec![RUN]),
        ("has_flow", PAGES_MAX, vec!["'default'"]),
        ("list_settings", PAGES_MAX, vec!["NULL"]),
        ("list_settings", PAGES_MAX, vec!["'default'"]),
        ("list_step_queues", PAGES_MAX, vec!["'default'"]),
        ("step_fate", PAGES_MAX, vec![RUN, "1::smallint", "0", "1", "7"]),
        ("renew_step", PAGES_MAX, vec!["1", "2::smallint", "7", "8", "9", RUN, "1::smallint", "0", "1"]),
    ]
}

/// Those that change something, and that have tests of their own.
const NOT_FOR_LOOKING: [&str; 30] = [
    "list_routes",
    "lock_settings",
    "set_routes",
    "begin_steps",
    "cancel_run",
    "define",
    "import_definition",
    "import_end",
    "import_events",
    "import_notes",
    "import_run",
    "import_signal",
    "import_steps",
    "import_values",
    "list_spaces",
    "pause_flow",
    "pause_run",
    "reserve_numbers",
    "resolve_step",
    "restart_from",
    "resume_run",
    "retry_step",
    "run_engine",
    "save_checkpoint",
    "send_signal",
    "set_flow",
    "set_flow_mode",
    "settle_step",
    "skip_step",
    "start_run",
];

fn folder() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/flow/sql")
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
async fn what_people_ask_for_reads_no_table_of_a_hundred_thousand_runs() {
    let place = filled().await;
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
    let all = place.db.pages_touched("SELECT count(*) FROM bugle.step WHERE message <> ''").await.unwrap();
    assert!(all > 2 * COUNT_PAGES_MAX, "the steps are only {all} pages: nothing would be noticed");
}

#[test]
fn no_statement_is_forgotten() {
    let known: BTreeSet<String> =
        statements().into_iter().map(|(name, ..)| name).chain(NOT_FOR_LOOKING).map(str::to_owned).collect();
    let there: BTreeSet<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(known, there);
}
