//! Interleavings forced with gates.
use bugle_testkit::proxy::Clients;
use sqlx::{Connection, Executor};

use super::bench::{Bench, soon};

#[tokio::test]
async fn another_session_commits_between_two_statements() -> anyhow::Result<()> {
    let mut bench = Bench::new("between").await?;
    let mut a = bench.client_named("a").await?;
    let mut b = bench.client_named("b").await?;
    let gate = bench.proxy.gate_on(Clients::application("a"), "second look");
    let session_a = tokio::spawn(async move {
        let mut transaction = a.begin().await?;
        let first: i64 = sqlx::query_scalar("/* first look */ SELECT count(*) FROM between")
            .fetch_one(&mut *transaction)
            .await?;
        let second: i64 = sqlx::query_scalar("/* second look */ SELECT count(*) FROM between")
            .fetch_one(&mut *transaction)
            .await?;
        transaction.commit().await?;
        anyhow::Ok((first, second))
    });
    soon(gate.arrived()).await?;
    assert_eq!(gate.waiting(), 1);
    bench.enqueue(&mut b, 1).await?;
    assert_eq!(bench.held().await?, [1]);
    gate.open();
    assert_eq!(soon(session_a).await???, (0, 1));
    Ok(())
}

#[tokio::test]
async fn a_query_held_at_the_gate_has_not_looked_yet() -> anyhow::Result<()> {
    let mut bench = Bench::new("looked").await?;
    let mut a = bench.client().await?;
    let sql = "/* look */ SELECT count(*) FROM looked";
    // Prepared already: only its Bind can be held, and PostgreSQL takes the snapshot there.
    sqlx::query(sql).execute(&mut a).await?;
    let gate = bench.proxy.gate("look");
    let look = tokio::spawn(async move { sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut a).await });
    soon(gate.arrived()).await?;
    bench.direct.execute("INSERT INTO looked VALUES (1)").await?;
    gate.open();
    assert_eq!(soon(look).await???, 1);
    Ok(())
}

#[tokio::test]
async fn statements_are_admitted_one_at_a_time_in_the_order_of_arrival() -> anyhow::Result<()> {
    let mut bench = Bench::new("one_by_one").await?;
    let gate = bench.proxy.gate("INTO one_by_one");
    let mut inserts = Vec::new();
    for n in 1..=2_i32 {
        let mut client = bench.client().await?;
        inserts.push(tokio::spawn(async move {
            sqlx::query("INSERT INTO one_by_one VALUES ($1)").bind(n).execute(&mut client).await
        }));
        soon(gate.arrivals(u64::try_from(n)?)).await?;
    }
    assert_eq!(bench.held().await?, [0; 0]);
    gate.admit_one();
    soon(inserts.remove(0)).await???;
    assert_eq!((bench.held().await?, gate.waiting()), (vec![1], 1));
    gate.admit_one();
    soon(inserts.remove(0)).await???;
    assert_eq!(bench.held().await?, [1, 2]);
    Ok(())
}

#[tokio::test]
async fn healing_leaves_a_gate_shut_and_dropping_it_opens_it() -> anyhow::Result<()> {
    let mut bench = Bench::new("dropped_gate").await?;
    let mut client = bench.client().await?;
    let gate = bench.proxy.gate("INTO dropped_gate");
    bench.proxy.heal();
    let insert =
        tokio::spawn(async move { client.execute("INSERT INTO dropped_gate VALUES (1)").await.map(drop) });
    soon(gate.arrived()).await?;
    assert_eq!(bench.held().await?, [0; 0]);
    drop(gate);
    soon(insert).await???;
    assert_eq!(bench.held().await?, [1]);
    assert_eq!(bench.proxy.report().len(), 1);
    assert_eq!(bench.proxy.report()[0].1, 1);
    Ok(())
}
