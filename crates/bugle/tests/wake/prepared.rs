//! Two-phase commit: PostgreSQL refuses to prepare a transaction that has rung.
use bugle::pg::embedded;
use bugle::{Bugle, Options};
use bugle_testkit::postgres::TestServer;
use sqlx::postgres::PgListener;
use sqlx::{Connection as _, PgConnection};

const ENQUEUE: &str = "SELECT bugle.enqueue('q', 'k')";

async fn run(session: &mut PgConnection, sql: &'static str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(sql).execute(session).await.map(drop)
}

#[tokio::test]
async fn a_prepared_transaction_rings_by_hand() {
    let options = embedded::Options::ephemeral().setting("max_prepared_transactions", "4");
    let server = TestServer::with(options).await.unwrap();
    let bugle = Bugle::new(server.pool().unwrap(), Options::default()).await.unwrap();
    bugle.queue("q").await.unwrap();
    let connect = async || PgConnection::connect_with(&server.connect_options().unwrap()).await.unwrap();
    let (mut producer, mut sleeper) = (connect().await, connect().await);
    let mut ear = PgListener::connect_with(bugle.pool()).await.unwrap();
    let channel = "SELECT bugle.bell_channel()";
    let channel: String = sqlx::query_scalar(channel).fetch_one(&mut producer).await.unwrap();
    ear.listen(&channel).await.unwrap();
    let sit = async |sleeper: &mut PgConnection| -> String {
        let sit =
            "SELECT (bugle.sit(ARRAY[bugle.bucket_of(bugle.find_queue('default', 'q'))], '{false}'))[1]";
        sqlx::query_scalar(sit).fetch_one(sleeper).await.unwrap()
    };

    // Nobody sleeps: nothing is in the way, and the shared lock is kept until COMMIT PREPARED.
    run(&mut producer, "BEGIN").await.unwrap();
    run(&mut producer, ENQUEUE).await.unwrap();
    run(&mut producer, "PREPARE TRANSACTION 'one'").await.unwrap();
    assert_eq!(sit(&mut sleeper).await, "shallow", "whoever would sleep now would miss it");
    run(&mut producer, "COMMIT PREPARED 'one'").await.unwrap();
    assert_eq!(sit(&mut sleeper).await, "bell");

    // Somebody sleeps: the ring is in the way.
    run(&mut producer, "BEGIN").await.unwrap();
    run(&mut producer, ENQUEUE).await.unwrap();
    let refused = run(&mut producer, "PREPARE TRANSACTION 'two'").await.unwrap_err().to_string();
    assert!(refused.contains("LISTEN, UNLISTEN, or NOTIFY"), "{refused}");
    run(&mut producer, "BEGIN; SET LOCAL bugle.ring = 'off'").await.unwrap();
    run(&mut producer, ENQUEUE).await.unwrap();
    run(&mut producer, "PREPARE TRANSACTION 'three'").await.unwrap();
    run(&mut producer, "COMMIT PREPARED 'three'").await.unwrap();
    run(&mut producer, "SELECT bugle.ring_queue('q')").await.unwrap();
    assert_eq!(ear.recv().await.unwrap().payload(), "1:1", "the first that is heard");
    assert_eq!(ear.recv().await.unwrap().payload(), "65:-1", "and for those who wait for ends");
    run(&mut producer, ENQUEUE).await.unwrap();
    assert_eq!(ear.recv().await.unwrap().payload(), "1:1", "the switch ended with its transaction");
    let jobs: i64 =
        sqlx::query_scalar("SELECT count(*) FROM bugle.job").fetch_one(&mut producer).await.unwrap();
    assert_eq!(jobs, 3);
    drop((ear, bugle));
    server.stop().await.unwrap();
}
