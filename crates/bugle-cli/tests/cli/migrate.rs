//! The schema, by the command and by hand.

use super::{Ran, Site, bugle};
use serde_json::json;
use sqlx::PgPool;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Everything about a schema that matters: columns, constraints, indexes, functions, views.
const SHAPE: &str = r"
SELECT line FROM (
  SELECT format('%s.%s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
    pg_get_expr(d.adbin, d.adrelid)) AS line
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
  LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum WHERE c.relnamespace = $1::regnamespace
  UNION ALL SELECT format('%s %s', conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace = $1::regnamespace
  UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = $1
  UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = $1::regnamespace
  UNION ALL SELECT definition FROM pg_views WHERE schemaname = $1
  UNION ALL SELECT format('%s %s', relname, reloptions) FROM pg_class WHERE relnamespace = $1::regnamespace
) s ORDER BY line";

async fn shape(pool: &PgPool, schema: &str) -> Vec<String> {
    let lines: Vec<String> = sqlx::query_scalar(SHAPE).bind(schema).fetch_all(pool).await.unwrap();
    // The classes of advisory locks derive from the name, which a function shows in hexadecimal.
    let bytes: String = schema.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    let mut lines: Vec<_> =
        lines.iter().map(|line| line.replace(schema, "SCHEMA").replace(&bytes, "BYTES")).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn the_script_gives_the_same_schema_as_the_command() {
    let (by_command, by_hand) = (Site::new().await, Site::new().await);
    assert_eq!(by_command.json(&["migrate", "up"])["applied"], json!(bugle::pg::migrate::CORE.files.len()));
    let script = by_hand.run(&["migrate", "sql"]);
    assert_eq!(script.code, 0);
    let mut psql = Command::new("psql")
        .args(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", by_hand.db.url()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    psql.stdin.take().unwrap().write_all(script.stdout.as_bytes()).unwrap();
    assert!(psql.wait().unwrap().success());
    let one = shape(by_command.db.pool(), by_command.db.name()).await;
    let two = shape(by_hand.db.pool(), by_hand.db.name()).await;
    for (one, two) in one.iter().zip(&two) {
        assert_eq!(one, two);
    }
    assert!(one.len() == two.len() && one.len() > 100, "{} and {} lines", one.len(), two.len());
    // And the command finds nothing left to do there.
    assert_eq!(by_hand.json(&["migrate", "up"])["applied"], 0);
    assert_eq!(by_hand.run(&["enqueue", "q", "k", "--no-migrate"]).code, 0);
}

#[tokio::test]
async fn status_tells_what_is_missing() {
    let site = Site::new().await;
    let before = site.run(&["migrate", "status"]);
    assert_eq!(before.code, 4, "{}", before.stderr);
    assert!(before.stdout.contains("\"applied_at\":null"), "{}", before.stdout);
    site.json(&["migrate", "up"]);
    let after = site.run(&["migrate", "status", "--output", "table"]);
    assert_eq!(after.code, 0);
    assert!(!after.stdout.contains("not yet"), "{}", after.stdout);
}

#[test]
fn the_script_needs_no_database() {
    let mut command = bugle();
    command.args(["migrate", "sql", "--schema", "jobs", "--database-url", "postgres://127.0.0.1:1/none"]);
    let ran = Ran::of(command);
    assert_eq!(ran.code, 0);
    assert!(ran.stdout.contains("CREATE TABLE jobs.job ("), "{}", ran.stdout);
}
