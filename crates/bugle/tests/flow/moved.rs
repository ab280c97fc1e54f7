//! Runs moved to another database: all that belongs to them, row by row.

use crate::fixture::Place;
use bugle::flow::RunId;
use bugle::flow::archive::{ImportOptions, Imported, Which};

/// Everything that belongs to runs, as text, without what is the database's own: its numbers of queues, definitions and jobs. What nobody would do
/// anything with is left out: jobs of steps that have gone on, reminders of what has ended, requests to match signals.
/// A step that somebody runs is a step that was given back.
const ROWS: &str = "
WITH runs AS (
  SELECT r.*, d.name AS definition_name, d.version FROM bugle.run r JOIN bugle.definition d ON d.id = r.definition WHERE $1::bigint[] IS NULL OR r.id = ANY ($1)
), steps AS (
  SELECT s.*, s.state = 'running' OR EXISTS (
    SELECT FROM bugle.flow_event e WHERE e.run = s.run AND e.no = s.no AND e.idx = s.idx AND e.cause = 'release' AND e.actor = 'import') AS is_released
  FROM bugle.step s JOIN runs r ON r.id = s.run
), jobs AS (
  SELECT j.*, q.name AS queue_name, q.id = f.engine AS is_reminder
  FROM (
    SELECT queue, lane, attempt, NULL AS due_at, max_attempts, kind, extra - 'lost' AS extra, payload FROM bugle.job
    UNION ALL SELECT queue, lane, attempt, due_at, max_attempts, kind, extra, payload FROM bugle.due
  ) j
  JOIN bugle.queue q ON q.id = j.queue
  JOIN bugle.flow f ON f.namespace = q.namespace
  WHERE q.holds = 'steps' AND j.kind <> 'match'
)
SELECT 'run ' || (to_jsonb(r) - 'definition' - 'namespace')::text FROM runs r
UNION ALL
SELECT 'step ' || (CASE WHEN s.is_released
  THEN to_jsonb(s) - 'since' || jsonb_build_object('state', 'ready', 'token', NULL, 'worker', NULL, 'attempt', CASE s.state WHEN 'running' THEN greatest(s.attempt - 1, 0) ELSE s.attempt END)
  ELSE to_jsonb(s) END)::text FROM steps s
UNION ALL
SELECT 'value ' || to_jsonb(v)::text FROM bugle.flow_value v JOIN runs r ON r.id = v.run
UNION ALL
SELECT 'event ' || (to_jsonb(e) - 'filed_at')::text FROM bugle.flow_event e JOIN runs r ON r.id = e.run WHERE e.actor IS DISTINCT FROM 'import'
UNION ALL
SELECT DISTINCT 'definition ' || (to_jsonb(d) - 'id' - 'namespace')::text FROM bugle.definition d JOIN runs r ON r.definition = d.id
UNION ALL
SELECT DISTINCT 'definition step ' || (to_jsonb(s) - 'definition' - 'queue')::text || q.name FROM bugle.definition_step s JOIN runs r ON r.definition = s.definition JOIN bugle.queue q ON q.id = s.queue
UNION ALL
SELECT DISTINCT 'definition edge ' || (to_jsonb(e) - 'definition')::text || r.definition_name || r.version FROM bugle.definition_edge e JOIN runs r ON r.definition = e.definition
UNION ALL
SELECT 'wait ' || (to_jsonb(w) - 'namespace')::text FROM bugle.signal_wait w JOIN steps s ON s.run = w.run AND s.no = w.no AND s.idx = 0 AND s.epoch = w.epoch AND s.state = 'waiting'
UNION ALL
SELECT 'signal ' || (to_jsonb(g) - 'namespace')::text FROM bugle.signal g WHERE $1::bigint[] IS NULL
UNION ALL
SELECT 'key ' || (to_jsonb(k) - 'queue')::text FROM bugle.job_key k JOIN runs r ON r.id = k.id
UNION ALL
SELECT 'job ' || (to_jsonb(j) - 'queue' - 'attempt')::text || CASE WHEN s.is_released THEN '' ELSE j.attempt::text END
FROM jobs j JOIN steps s ON NOT j.is_reminder AND j.payload = jsonb_build_array(s.run, s.no, s.idx, s.epoch) AND s.state IN ('ready', 'running', 'waiting')
UNION ALL
SELECT 'reminder ' || (to_jsonb(j) - 'queue')::text
FROM jobs j JOIN steps s ON j.is_reminder AND j.payload = jsonb_build_array(s.run, s.no, s.idx, s.epoch) AND s.state IN ('ready', 'running', 'waiting')
UNION ALL
SELECT 'reminder ' || (to_jsonb(j) - 'queue')::text FROM jobs j JOIN runs r ON j.is_reminder AND j.kind = 'end_run' AND (j.payload->>0)::bigint = r.id AND r.ended_at IS NULL
ORDER BY 1";

pub(crate) async fn rows(place: &Place, runs: Option<&[RunId]>) -> Vec<String> {
    sqlx::query_scalar(place.db.sql(ROWS).unwrap()).bind(runs).fetch_all(place.db.pool()).await.unwrap()
}

pub(crate) async fn exported(place: &Place, which: Which<'_>) -> Vec<u8> {
    let mut file = Vec::new();
    place.bugle.flow().export(which, &mut file).await.unwrap();
    file
}

pub(crate) async fn imported(place: &Place, file: &[u8]) -> Imported {
    place.bugle.flow().import(&mut &file[..], ImportOptions::default()).await.unwrap()
}

/// Moves runs (`None`: all) to another place, and compares the two.
pub(crate) async fn compare_moved(from: &Place, to: &Place, runs: Option<&[RunId]>) {
    let file = exported(from, runs.map_or(Which::All, Which::Runs)).await;
    let (before, after) = (rows(from, runs).await, {
        imported(to, &file).await;
        rows(to, runs).await
    });
    assert!(before.len() > 3, "{before:?}");
    let of = |a: &[String], b: &[String]| {
        a.iter().filter(|row| !b.contains(row)).cloned().collect::<Vec<_>>().join("\n")
    };
    assert!(before == after, "only there:\n{}\nonly here:\n{}", of(&before, &after), of(&after, &before));
    to.audit().await;
}
