//! Connections cut around a statement that the proxy recognises.
use bugle_testkit::proxy::{Clients, Fault, Statement};
use sqlx::{AssertSqlSafe, Connection, Executor};

use super::bench::{Bench, is_broken, soon};
use super::raw::RawSession;

#[tokio::test]
async fn a_cut_after_the_answer_is_an_error_for_what_has_happened() -> anyhow::Result<()> {
    let mut bench = Bench::new("cut_after_answer").await?;
    let mut client = bench.client().await?;
    let cut = bench.proxy.set(Fault::cut_after_answer("enqueue"));
    let error = bench.enqueue(&mut client, 1).await.unwrap_err();
    assert!(is_broken(&error), "{error}");
    assert_eq!(bench.held().await?, [1]);
    assert_eq!(cut.hits(), 1);
    Ok(())
}

#[tokio::test]
async fn a_cut_before_forwarding_is_an_error_for_what_has_not_happened() -> anyhow::Result<()> {
    let mut bench = Bench::new("cut_before_forward").await?;
    let mut client = bench.client_named("unlucky").await?;
    let cut = bench.proxy.set(Fault::cut_before_forward("enqueue"));
    let error = bench.enqueue(&mut client, 1).await.unwrap_err();
    assert!(is_broken(&error), "{error}");
    // The session is over, so what it did not do by now it will never do.
    bench.until("SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'unlucky'").await?;
    assert_eq!(bench.held().await?, [0; 0]);
    assert_eq!(cut.hits(), 1);
    Ok(())
}

#[tokio::test]
async fn a_cut_after_forwarding_is_an_error_for_what_happens_later() -> anyhow::Result<()> {
    let mut bench = Bench::new("cut_after_forward").await?;
    let mut client = bench.client().await?;
    bench.enqueue(&mut client, 1).await?;
    let cut = bench.proxy.set(Fault::cut_after_forward("enqueue"));
    bench.direct.execute("BEGIN; LOCK TABLE cut_after_forward").await?;
    let error = soon(bench.enqueue(&mut client, 2)).await?.unwrap_err();
    assert!(is_broken(&error), "{error}");
    assert_eq!(bench.held().await?, [1], "the lock keeps it out, and the client has its error already");
    bench.direct.execute("COMMIT").await?;
    bench.until("SELECT count(*) = 2 FROM cut_after_forward").await?;
    assert_eq!(cut.hits(), 1);
    Ok(())
}

#[tokio::test]
async fn a_prepared_statement_is_recognised_when_its_text_no_longer_travels() -> anyhow::Result<()> {
    let mut bench = Bench::new("prepared_again").await?;
    let mut client = bench.client().await?;
    bench.enqueue(&mut client, 1).await?;
    bench.enqueue(&mut client, 2).await?;
    assert_eq!(client.cached_statements_size(), 1, "the third use has no Parse");
    let cut = bench.proxy.set(Fault::cut_before_forward("enqueue"));
    bench.enqueue(&mut client, 3).await.unwrap_err();
    assert_eq!(bench.held().await?, [1, 2]);
    assert_eq!(cut.hits(), 1);
    Ok(())
}

#[tokio::test]
async fn statements_without_a_name_and_simple_queries_are_recognised() -> anyhow::Result<()> {
    let mut bench = Bench::new("other_protocols").await?;
    let cut = bench.proxy.set(Fault::cut_after_answer("INTO other_protocols"));
    let unnamed = sqlx::query("INSERT INTO other_protocols VALUES ($1)").bind(1).persistent(false);
    unnamed.execute(&mut bench.client().await?).await.unwrap_err();
    bench.client().await?.execute("INSERT INTO other_protocols VALUES (2)").await.unwrap_err();
    assert_eq!(bench.held().await?, [1, 2]);
    assert_eq!(cut.hits(), 2);
    Ok(())
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_has_happened() -> anyhow::Result<()> {
    let mut bench = Bench::new("commit_answered").await?;
    let mut client = bench.client().await?;
    let cut = bench.proxy.set(Fault::cut_after_answer(Statement::commit()));
    let mut transaction = client.begin().await?;
    bench.enqueue(&mut transaction, 1).await?;
    let error = transaction.commit().await.unwrap_err();
    assert!(is_broken(&error), "{error}");
    assert_eq!(bench.held().await?, [1]);
    assert_eq!(cut.hits(), 1);
    Ok(())
}

#[tokio::test]
async fn a_commit_that_is_not_forwarded_has_not_happened() -> anyhow::Result<()> {
    let mut bench = Bench::new("commit_unsent").await?;
    let mut client = bench.client().await?;
    let cut = bench.proxy.set(Fault::cut_before_forward(Statement::commit()));
    let mut transaction = client.begin().await?;
    bench.enqueue(&mut transaction, 1).await?;
    transaction.commit().await.unwrap_err();
    // Waits for the end of the transaction that was cut.
    bench.direct.execute("BEGIN; LOCK TABLE commit_unsent; COMMIT").await?;
    assert_eq!(bench.held().await?, [0; 0]);
    assert_eq!(cut.hits(), 1);
    Ok(())
}

#[tokio::test]
async fn only_the_next_matches_are_hit() -> anyhow::Result<()> {
    let mut bench = Bench::new("next_matches").await?;
    let cut = bench.proxy.set(Fault::cut_before_forward("enqueue").next(2));
    for n in 1..=3 {
        let mut client = bench.client().await?;
        assert_eq!(bench.enqueue(&mut client, n).await.is_ok(), n == 3);
    }
    assert_eq!(bench.held().await?, [3]);
    assert_eq!(cut.hits(), 2);
    Ok(())
}

#[tokio::test]
async fn the_dice_decide_and_the_same_seed_decides_the_same() -> anyhow::Result<()> {
    let mut bench = Bench::new("dice").await?;
    let mut rounds = Vec::new();
    for _ in 0..2 {
        let cut = bench.proxy.set(Fault::cut_after_answer("enqueue").with_probability(0.5, 7));
        let mut failed = Vec::new();
        for n in 0..12 {
            let mut client = bench.client().await?;
            failed.push(bench.enqueue(&mut client, n).await.is_err());
        }
        let failures = failed.iter().filter(|failed| **failed).count();
        assert!((1..12).contains(&failures), "{failures}");
        assert_eq!(usize::try_from(cut.hits())?, failures);
        rounds.push(failed);
        bench.proxy.heal();
    }
    assert_eq!(rounds[0], rounds[1]);
    assert_eq!(bench.held().await?.len(), 24, "each of them has happened");
    Ok(())
}

#[tokio::test]
async fn only_the_named_application_suffers() -> anyhow::Result<()> {
    let mut bench = Bench::new("named").await?;
    let (mut victim, mut other) = (bench.client_named("victim").await?, bench.client_named("other").await?);
    let cut = bench.proxy.set(Fault::cut_before_forward(Statement::any()).on(Clients::application("victim")));
    bench.enqueue(&mut victim, 1).await.unwrap_err();
    bench.enqueue(&mut other, 2).await?;
    assert_eq!(bench.held().await?, [2]);
    assert_eq!(cut.hits(), 1);
    Ok(())
}

#[tokio::test]
async fn megabytes_pass_and_are_recognised() -> anyhow::Result<()> {
    let mut bench = Bench::new("big").await?;
    let mut client = bench.client().await?;
    let payload = "x".repeat(5 << 20);
    let insert = "INSERT INTO big (n, payload) VALUES ($1, $2) RETURNING payload";
    let back: String = sqlx::query_scalar(insert).bind(1).bind(&payload).fetch_one(&mut client).await?;
    assert!(back == payload, "unchanged both ways");
    let script = AssertSqlSafe(format!("INSERT INTO big (n, payload) VALUES (2, '{payload}')"));
    client.execute(script).await?;
    let cut = bench.proxy.set(Fault::cut_after_answer("INTO big"));
    sqlx::query(insert).bind(3).bind(&payload).execute(&mut client).await.unwrap_err();
    assert_eq!(bench.held().await?, [1, 2, 3]);
    assert_eq!(cut.hits(), 1);
    Ok(())
}

#[tokio::test]
async fn of_requests_sent_together_only_the_matching_answer_is_lost() -> anyhow::Result<()> {
    let mut bench = Bench::new("pipelined").await?;
    let mut session = RawSession::open(&bench.proxy, "pipelining").await?;
    let cut = bench.proxy.set(Fault::cut_after_answer("enqueue"));
    let requests = [
        RawSession::message(b'Q', b"INSERT INTO pipelined VALUES (1)\0")?,
        RawSession::message(b'P', b"\0/* enqueue */ INSERT INTO pipelined VALUES (2)\0\0\0")?,
        RawSession::message(b'B', b"\0\0\0\0\0\0\0\0")?,
        RawSession::message(b'E', b"\0\0\0\0\0")?,
        RawSession::message(b'S', b"")?,
        RawSession::message(b'Q', b"SELECT 1\0")?,
    ];
    session.send(&requests.concat()).await?;
    let first = soon(session.read_until(b'Z')).await??;
    assert_eq!(first[0], (b'C', b"INSERT 0 1\0".to_vec()));
    soon(session.read_until(b'Z')).await?.unwrap_err();
    assert_eq!(bench.held().await?, [1, 2]);
    assert_eq!(cut.hits(), 1);
    Ok(())
}

#[tokio::test]
async fn a_copy_is_one_request() -> anyhow::Result<()> {
    let mut bench = Bench::new("copied").await?;
    let mut client = bench.client().await?;
    let mut copy = client.copy_in_raw("COPY copied (n) FROM STDIN").await?;
    copy.send(&b"1\n2\n"[..]).await?;
    copy.finish().await?;
    let cut = bench.proxy.set(Fault::cut_after_answer("enqueue"));
    soon(bench.enqueue(&mut client, 3)).await?.unwrap_err();
    assert_eq!(bench.held().await?, [1, 2, 3]);
    assert_eq!(cut.hits(), 1);
    Ok(())
}
