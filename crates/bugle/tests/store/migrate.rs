//! Migrations: once each, by anybody, in any schema.
use bugle::Bugle;
use bugle::name::SchemaName;
use bugle::pg::migrate::{CORE, Error, File, Policy, Set};
use bugle_testkit::postgres::TestDb;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool};

const FILES: [File; 3] = [
    File { version: 1, name: "one", sql: "CREATE TABLE bugle.one (a int);" },
    File {
        version: 2,
        name: "two",
        sql: "CREATE TABLE bugle.two (a int); INSERT INTO bugle.one VALUES (1);",
    },
    File {
        version: 3,
        name: "index",
        sql: "-- outside a transaction\nDROP INDEX CONCURRENTLY IF EXISTS bugle.one_a;\nCREATE INDEX CONCURRENTLY one_a ON bugle.one (a);\n",
    },
];
static ONE: Set = set(FILES.split_at(1).0);
static TWO: Set = set(FILES.split_at(2).0);
static ALL: Set = set(&FILES);
static CHANGED: Set = set(&[File { version: 1, name: "one", sql: "CREATE TABLE bugle.one (b int);" }]);

const fn set(files: &'static [File]) -> Set {
    Set { name: "test", files, next: "ring the janitor" }
}

async fn place() -> (TestDb, SchemaName) {
    let db = TestDb::schema().await.unwrap();
    let schema = db.schema_name().unwrap();
    (db, schema)
}

async fn count(db: &TestDb, table: &str) -> i64 {
    let sql = db.sql(&format!("SELECT count(*) FROM bugle.{table}")).unwrap();
    sqlx::query_scalar(sql).fetch_one(db.pool()).await.unwrap()
}

#[tokio::test]
async fn every_file_is_applied_once() {
    let (db, schema) = place().await;
    assert_eq!(ONE.up(db.pool(), &schema).await.unwrap(), 1);
    assert_eq!(ALL.up(db.pool(), &schema).await.unwrap(), 2);
    assert_eq!(ALL.up(db.pool(), &schema).await.unwrap(), 0);
    assert_eq!(count(&db, "one").await, 1);
    let status = ALL.status(db.pool(), &schema).await.unwrap();
    assert!(status.iter().all(|s| s.applied_at.is_some()) && status.len() == 3);
}

#[tokio::test]
async fn a_changed_file_is_refused() {
    let (db, schema) = place().await;
    ONE.up(db.pool(), &schema).await.unwrap();
    for answer in [CHANGED.up(db.pool(), &schema).await.map(drop), CHANGED.verify(db.pool(), &schema).await] {
        assert!(matches!(answer, Err(Error::Changed { version: 1, .. })), "{answer:?}");
    }
}

#[tokio::test]
async fn an_older_version_works_on_a_newer_schema_but_does_not_migrate_it() {
    let (db, schema) = place().await;
    TWO.up(db.pool(), &schema).await.unwrap();
    ONE.verify(db.pool(), &schema).await.unwrap();
    assert_eq!(ONE.up(db.pool(), &schema).await.unwrap(), 0, "nothing to do");
    let sql = db.sql("DELETE FROM bugle.migration WHERE version = 1").unwrap();
    sqlx::query(sql).execute(db.pool()).await.unwrap();
    let answer = ONE.up(db.pool(), &schema).await;
    assert!(matches!(answer, Err(Error::Foreign { version: 2, .. })), "{answer:?}");
}

#[tokio::test]
async fn a_node_that_may_only_look_says_what_is_missing() {
    let (db, schema) = place().await;
    assert!(matches!(ALL.verify(db.pool(), &schema).await, Err(Error::Behind { missing: 3, .. })));
    ONE.up(db.pool(), &schema).await.unwrap();
    let error = ALL.ensure(db.pool(), &schema, Policy::Verify).await.unwrap_err();
    assert!(matches!(error, Error::Behind { missing: 2, .. }));
    assert!(error.to_string().ends_with("needs; ring the janitor"), "each set says what to do: {error}");
    let error = CORE.verify(db.pool(), &schema).await.unwrap_err();
    assert!(error.to_string().ends_with("needs; run `bugle migrate up`"), "{error}");
}

#[tokio::test]
async fn a_role_without_rights_to_change_the_schema_can_work() {
    let (db, schema) = place().await;
    CORE.up(db.pool(), &schema).await.unwrap();
    let role = format!("{schema}_app");
    let grants = format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'app';
         GRANT USAGE ON SCHEMA {schema} TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role};"
    );
    sqlx::raw_sql(AssertSqlSafe(grants)).execute(db.pool()).await.unwrap();
    let pool =
        PgPool::connect_with(db.connect_options().clone().username(&role).password("app")).await.unwrap();
    let options = bugle::Options { schema: schema.clone(), migrate: Policy::Verify, ..Default::default() };
    let bugle = Bugle::new(pool.clone(), options.clone()).await.unwrap();
    let payload = serde_json::value::RawValue::from_string("1".into()).unwrap();
    let id = bugle.enqueue_raw("q", "k", payload).send().await.unwrap();
    let queue = bugle.queue("q").await.unwrap();
    let look = queue.claim("w", 1, std::time::Duration::from_secs(30)).await.unwrap();
    assert_eq!(queue.ack(&[look.jobs[0].receipt], &[]).await.unwrap(), [id]);
    // With the policy that applies, nothing is missing, so nothing is tried that it may not do.
    let options = bugle::Options { migrate: Policy::Apply, ..options };
    Bugle::new(pool.clone(), options).await.unwrap();
    pool.close().await;
    sqlx::raw_sql(AssertSqlSafe(format!("DROP OWNED BY {role}; DROP ROLE {role}")))
        .execute(db.pool())
        .await
        .unwrap();
}

#[tokio::test]
async fn any_number_of_nodes_may_start_at_once() {
    let (db, schema) = place().await;
    let mut nodes = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let (pool, schema) = (db.pool().clone(), schema.clone());
        // The last file makes an index CONCURRENTLY: it waits for every snapshot, also those of migrators that wait for their turn.
        nodes.spawn(async move { ALL.up(&pool, &schema).await.unwrap() });
    }
    let applied: usize = nodes.join_all().await.into_iter().sum();
    assert_eq!(applied, 3, "each file once, by one of them");
    assert_eq!(count(&db, "one").await, 1);
}

#[tokio::test]
async fn a_killed_migrator_can_be_run_again() {
    let (db, schema) = place().await;
    // The migrator stops at the second file: somebody holds a lock that it needs. There it is killed.
    ONE.up(db.pool(), &schema).await.unwrap();
    let mut blocker = PgConnection::connect_with(db.connect_options()).await.unwrap();
    sqlx::raw_sql(db.sql("BEGIN; LOCK TABLE bugle.one").unwrap()).execute(&mut blocker).await.unwrap();
    let (pool, name) = (db.pool().clone(), schema.clone());
    let migrator = tokio::spawn(async move { ALL.up(&pool, &name).await });
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE application_name = $1 AND wait_event_type = 'Lock' AND query LIKE '%CREATE TABLE%'";
    while sqlx::query_scalar::<_, i64>(kill).bind(db.name()).fetch_one(&mut blocker).await.unwrap() == 0 {
        // Read anew: inside a transaction pg_stat_activity is a snapshot.
        sqlx::raw_sql("SELECT pg_stat_clear_snapshot()").execute(&mut blocker).await.unwrap();
    }
    assert!(matches!(migrator.await.unwrap(), Err(Error::Failed { version: 2, .. })));
    sqlx::raw_sql("ROLLBACK").execute(&mut blocker).await.unwrap();
    assert_eq!(ALL.up(db.pool(), &schema).await.unwrap(), 2, "nothing of the second file was kept");
    assert_eq!(count(&db, "one").await, 1);
}

#[tokio::test]
async fn an_index_left_invalid_by_a_killed_run_is_made_anew() {
    let (db, schema) = place().await;
    TWO.up(db.pool(), &schema).await.unwrap();
    // What a killed CREATE INDEX CONCURRENTLY leaves behind.
    sqlx::raw_sql(db.sql("CREATE INDEX one_a ON bugle.one (a)").unwrap()).execute(db.pool()).await.unwrap();
    sqlx::raw_sql(
        db.sql("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'bugle.one_a'::regclass").unwrap(),
    )
    .execute(db.pool())
    .await
    .unwrap();
    ALL.up(db.pool(), &schema).await.unwrap();
    let valid = db.sql("SELECT indisvalid FROM pg_index WHERE indexrelid = 'bugle.one_a'::regclass").unwrap();
    assert!(sqlx::query_scalar::<_, bool>(valid).fetch_one(db.pool()).await.unwrap());
}

#[tokio::test]
async fn an_index_arrives_while_a_writer_is_at_work() {
    let (db, schema) = place().await;
    TWO.up(db.pool(), &schema).await.unwrap();
    let mut writer = PgConnection::connect_with(db.connect_options()).await.unwrap();
    sqlx::raw_sql(db.sql("BEGIN; INSERT INTO bugle.one VALUES (2)").unwrap())
        .execute(&mut writer)
        .await
        .unwrap();
    let (pool, name) = (db.pool().clone(), schema.clone());
    let migrator = tokio::spawn(async move { ALL.up(&pool, &name).await.unwrap() });
    let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1 AND query LIKE '%CREATE INDEX%' AND wait_event_type = 'Lock')";
    while !sqlx::query_scalar::<_, bool>(waits).bind(db.name()).fetch_one(db.pool()).await.unwrap() {
        tokio::task::yield_now().await;
    }
    // The index waits for the open writer; other writers do not wait for the index.
    sqlx::raw_sql(db.sql("INSERT INTO bugle.one VALUES (3)").unwrap()).execute(db.pool()).await.unwrap();
    sqlx::raw_sql("COMMIT").execute(&mut writer).await.unwrap();
    assert_eq!(migrator.await.unwrap(), 1);
}

#[tokio::test]
async fn the_printed_script_makes_the_same_schema() {
    let by_hand = TestDb::database().await.unwrap();
    let schema = by_hand.schema_name().unwrap();
    sqlx::raw_sql(AssertSqlSafe(CORE.script(&schema))).execute(by_hand.pool()).await.unwrap();
    CORE.verify(by_hand.pool(), &schema).await.unwrap();
    assert_eq!(CORE.up(by_hand.pool(), &schema).await.unwrap(), 0);
    by_hand.bugle().await.unwrap();
}

#[tokio::test]
async fn several_bugles_in_one_database_do_not_meet() {
    let (one, two) = (TestDb::schema().await.unwrap(), TestDb::schema().await.unwrap());
    let (a, b) = (one.bugle().await.unwrap(), two.bugle().await.unwrap());
    let payload = serde_json::value::RawValue::from_string("1".into()).unwrap();
    a.enqueue_raw("q", "k", payload).send().await.unwrap();
    // Somebody holds the claim lock of the same queue number in the other one.
    let queue = b.queue("q").await.unwrap();
    let mut session = PgConnection::connect_with(one.connect_options()).await.unwrap();
    let lock = one.sql("BEGIN; SELECT pg_advisory_xact_lock(bugle.claim_class(), 1)").unwrap();
    sqlx::raw_sql(lock).execute(&mut session).await.unwrap();
    let lease = std::time::Duration::from_secs(30);
    assert!(queue.claim("w", 1, lease).await.unwrap().jobs.is_empty(), "neither its jobs nor its locks");
    sqlx::raw_sql("ROLLBACK").execute(&mut session).await.unwrap();
    assert_eq!(a.queue("q").await.unwrap().claim("w", 1, lease).await.unwrap().jobs.len(), 1);
}

#[tokio::test]
async fn a_schema_prepared_for_a_role_that_cannot_make_one_is_enough() {
    let (db, schema) = place().await;
    let role = format!("{schema}_owner");
    let prepare = format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'own'; REVOKE CREATE ON DATABASE {0} FROM {role}; ALTER SCHEMA {schema} OWNER TO {role}",
        db.connect_options().get_database().unwrap()
    );
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(db.pool()).await.unwrap();
    let pool =
        PgPool::connect_with(db.connect_options().clone().username(&role).password("own")).await.unwrap();
    assert_eq!(CORE.up(&pool, &schema).await.unwrap(), CORE.files.len());
    pool.close().await;
    let undo = format!("REASSIGN OWNED BY {role} TO CURRENT_USER; DROP OWNED BY {role}; DROP ROLE {role}");
    sqlx::raw_sql(AssertSqlSafe(undo)).execute(db.pool()).await.unwrap();
}
