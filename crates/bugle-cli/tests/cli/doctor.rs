//! The doctor on a healthy patient, and on sick ones.

use super::Site;
use bugle_testkit::postgres::{TestServer, hold_snapshot};
use serde_json::Value;
use sqlx::AssertSqlSafe;

fn of_level<'a>(findings: &'a Value, level: &str) -> Vec<&'a Value> {
    findings.as_array().unwrap().iter().filter(|f| f["level"] == level).collect()
}

pub(crate) async fn execute(site: &Site, sql: &str) {
    let sql = sql.replace("bugle.", &format!("{}.", site.db.name()));
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(site.db.pool()).await.unwrap();
}

/// Makes a role that may only read, named after the schema; its address.
pub(crate) async fn create_reader(site: &Site) -> String {
    let role = site.db.name();
    let grants = format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'secret'; GRANT USAGE ON SCHEMA {role} TO {role};
         GRANT SELECT ON ALL TABLES IN SCHEMA {role} TO {role}"
    );
    execute(site, &grants).await;
    let (_, tail) = site.db.url().split_once('@').unwrap();
    format!("postgres://{role}:secret@{tail}")
}

/// Before a test can fail: a role outlives the test's schema.
pub(crate) async fn drop_reader(site: &Site) {
    let role = site.db.name();
    execute(site, &format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn a_healthy_database_has_no_fault() {
    let site = Site::new().await;
    site.enqueue("q", "1");
    let findings = site.json(&["doctor", "--deep", "--max-transaction", "1h"]);
    assert!(of_level(&findings, "fail").is_empty() && of_level(&findings, "warn").is_empty(), "{findings}");
    let checks: Vec<_> = findings.as_array().unwrap().iter().map(|f| f["check"].as_str().unwrap()).collect();
    for check in [
        "server",
        "durability",
        "clock",
        "connections",
        "snapshots",
        "schema",
        "cluster",
        "indexes",
        "dead rows",
        "partitions",
        "locks",
        "paused",
        "stale steps",
        "rights",
        "orphans",
        "counters",
        "workflows",
    ] {
        assert!(checks.contains(&check), "{check} is missing in {checks:?}");
    }
}

#[tokio::test]
async fn the_connections_of_a_node_are_all_counted() {
    let site = Site::new().await;
    let found = |args: &[&str]| {
        let said = site.run(&[&["doctor", "--output", "json"], args].concat()).stdout;
        let findings: Value = serde_json::from_str(&said).unwrap();
        let of = |f: &&Value| f["check"] == "connections";
        let finding = findings.as_array().unwrap().iter().find(of).unwrap().clone();
        (finding["level"].as_str().unwrap().to_owned(), finding["found"].as_str().unwrap().to_owned())
    };
    assert!(
        found(&[]).1.starts_with(
            "a node needs up to 16 (pool 10 + 4 to listen and to look + 2 for each of 1 workers)"
        )
    );
    assert!(found(&["--pool", "2", "--workers", "4"]).1.starts_with("a node needs up to 14 "));
    assert_eq!(found(&["--pool", "9999"]).0, "fail");
}

#[tokio::test]
async fn a_missing_schema_an_invalid_and_a_missing_index_are_faults_with_their_fix() {
    let site = Site::new().await;
    let ran = site.run(&["doctor"]);
    assert_eq!(ran.code, 2, "{}", ran.stdout);
    assert!(ran.stdout.contains("bugle migrate up"), "{}", ran.stdout);
    site.json(&["migrate", "up"]);
    execute(&site, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'bugle.lease_until'::regclass")
        .await;
    execute(&site, "DROP INDEX bugle.due_id").await;
    let ran = site.run(&["doctor", "--output", "table"]);
    assert_eq!(ran.code, 2, "{}", ran.stdout);
    let (schema, said) = (site.db.name(), &ran.stdout);
    assert!(said.contains(&format!("REINDEX INDEX CONCURRENTLY {schema}.lease_until")), "{said}");
    let fix = said.lines().find_map(|line| line.trim().strip_prefix("-> CREATE INDEX")).unwrap();
    execute(&site, &format!("CREATE INDEX{}", fix.replace(" CONCURRENTLY", ""))).await;
    execute(&site, "UPDATE pg_index SET indisvalid = true WHERE indexrelid = 'bugle.lease_until'::regclass")
        .await;
    assert_eq!(site.run(&["doctor"]).code, 0);
}

#[tokio::test]
async fn a_paused_queue_with_jobs_is_told_with_the_command_that_resumes_it() {
    let site = Site::new().await;
    site.json(&["namespace", "create", "shop"]);
    let shop = ["--namespace", "shop"];
    site.json(&[&["enqueue", "e mail", "k", "1"][..], &shop].concat());
    site.json(&[&["enqueue", "e mail", "k", "1", "--delay", "1s"][..], &shop].concat());
    site.enqueue("busy", "1");
    site.json(&[&["queue", "pause", "e mail"][..], &shop].concat());
    let warnings = || {
        let findings = site.json(&["doctor", "--max-transaction", "1h"]);
        let of =
            |f: &Value| [&f["check"], &f["found"], &f["fix"]].map(|text| text.as_str().unwrap().to_owned());
        of_level(&findings, "warn").into_iter().map(of).collect::<Vec<_>>()
    };
    super::eventually("the second one is due as well", || warnings()[0][1].contains("and 2 jobs wait in it"));
    let [[check, found, fix]] = &warnings()[..] else { panic!("{:?}", warnings()) };
    assert_eq!(check, "paused");
    assert!(
        found.starts_with(
            "queue e mail of namespace shop is paused, and 2 jobs wait in it, the first of them for "
        ),
        "{found}"
    );
    assert!(fix.starts_with("bugle queue resume 'e mail' --namespace shop"), "{fix}");
    site.json(&[&["queue", "resume", "e mail"][..], &shop].concat());
    site.json(&["queue", "pause", "busy"]);
    assert!(warnings()[0][1].contains("1 job waits in it"), "{:?}", warnings());
    site.json(&["queue", "resume", "busy"]);
    assert!(warnings().is_empty());
}

#[tokio::test]
async fn who_holds_a_snapshot_or_a_lock_is_named() {
    let site = Site::new().await;
    let id = site.enqueue("q", "1");
    let held = hold_snapshot(site.db.connect_options()).await.unwrap();
    let mut locker = site.db.pool().begin().await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *locker).await.unwrap();
    let sql = format!("SELECT pg_advisory_xact_lock({}.claim_class(), 1)", site.db.name());
    sqlx::query(AssertSqlSafe(sql)).execute(&mut *locker).await.unwrap();
    let mut findings = Value::Null;
    super::eventually("the lock has been held for long", || {
        findings = site.json(&["doctor", "--max-transaction", "0s"]);
        findings.to_string().contains("holds the claim lock")
    });
    let said = findings.to_string();
    assert!(said.contains(&format!("pg_terminate_backend({})", held.pid())), "{said}");
    assert!(said.contains(&format!("process {pid} of")) && said.contains("keeps the dead rows"), "{said}");
    locker.rollback().await.unwrap();
    held.release().await.unwrap();
    assert_eq!(site.state(&id), "ready");
}

#[tokio::test]
async fn orphans_and_stray_rows_are_found() {
    let site = Site::new().await;
    site.enqueue("q", "1");
    let mut worker = site.start_stuck(&["--queue", "q"]);
    worker.signal(rustix::process::Signal::KILL);
    worker.end();
    execute(&site, "DELETE FROM bugle.lease").await;
    execute(&site, "INSERT INTO bugle.failure_default (failed_at, queue, id, attempt, worker, code, message) VALUES ('2001-01-01', 1, 1, 1, 'w', 'c', 'm')").await;
    execute(&site, "DELETE FROM bugle.tally").await;
    let ran = site.run(&["doctor", "--deep"]);
    assert_eq!(ran.code, 2);
    for part in [
        "1 jobs were handed out and nobody holds them",
        ".rebase()",
        "a default partition has rows",
        "counted",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
}

#[tokio::test]
async fn a_role_that_may_only_read_is_told_what_it_lacks() {
    let site = Site::new().await;
    site.json(&["migrate", "up"]);
    let url = create_reader(&site).await;
    let ran = site.run(&["doctor", "--database-url", &url]);
    let refused = site.run(&["enqueue", "q", "k", "--database-url", &url]);
    drop_reader(&site).await;
    assert_eq!(ran.code, 2, "{}", ran.stdout);
    assert!(
        ran.stdout.contains("this role lacks DELETE on") && ran.stdout.contains("GRANT"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("may not make and drop the partitions"), "{}", ran.stdout);
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(refused.stderr.contains("permission denied"), "{}", refused.stderr);
}

#[tokio::test]
async fn a_server_that_may_lose_jobs_is_refused_and_the_doctor_says_why() {
    use bugle::pg::embedded::Options;
    let server = TestServer::with(Options::ephemeral().setting("synchronous_commit", "off")).await.unwrap();
    let url = server.url().unwrap();
    let run = |args: &[&str]| {
        let mut command = super::bugle();
        command.env("DATABASE_URL", &url).args(args);
        super::Ran::of(command)
    };
    let refused = run(&["enqueue", "q", "k"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("synchronous_commit = off"), "{}", refused.stderr);
    let said = run(&["doctor"]);
    assert_eq!(said.code, 2);
    assert!(said.stdout.contains("ALTER SYSTEM SET synchronous_commit = on"), "{}", said.stdout);
    assert_eq!(run(&["enqueue", "q", "k", "--allow-unsafe-database"]).code, 0);
}

#[tokio::test]
async fn a_step_that_nobody_takes_is_told() {
    let site = super::flow::defined(super::flow::DIAMOND).await;
    let stale = || {
        let findings = site.json(&["doctor", "--max-transaction", "1h"]);
        let found = findings.as_array().unwrap().iter().find(|f| f["check"] == "stale steps").unwrap();
        (found["level"].as_str().unwrap().to_owned(), found["found"].to_string())
    };
    super::flow::start(&site, &["order"]);
    assert_eq!(site.run(&["flow", "set", "--stale-after", "1d"]).code, 0);
    assert_eq!(stale().0, "ok", "not yet");
    execute(&site, "UPDATE bugle.job SET due_at = due_at - interval '2 days'").await;
    let (level, found) = stale();
    assert!(
        level == "warn" && found.contains("has been ready for 2d") && found.contains("steps"),
        "{level}: {found}"
    );
    assert_eq!(site.run(&["flow", "steps", "pause"]).code, 0);
    assert_eq!(stale().0, "ok", "it waits because somebody said so");
}
