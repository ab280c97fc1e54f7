//! Transactions whose beginning is interrupted. With the pool's own `begin` in the place of Bugle's, and without the watch over handlers, what is
//! written here afterwards is told to be there and is not.
use crate::fixture::Fixture;
use crate::work::Add;
use bugle::pg::connect;
use bugle::{Bugle, Ctx, Options};
use bugle_testkit::proxy::{Proxy, Statement};
use bugle_testkit::until;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A handle with a single connection that goes through a proxy, and looks on a connection of their own.
async fn far(f: &Fixture) -> (Proxy, Bugle) {
    let direct = f.db.connect_options();
    let server = tokio::net::lookup_host((direct.get_host(), direct.get_port())).await.unwrap().next();
    let proxy = Proxy::start(server.unwrap()).await.unwrap();
    let connect = proxy.rewrite(direct);
    let pool = connect::pool(&connect::Options { connections_max: 1, ..connect.into() }).await.unwrap();
    let options = Options { schema: f.bugle.schema().clone(), ..Options::default() };
    (proxy, Bugle::new(pool, options).await.unwrap())
}

async fn jobs(f: &Fixture) -> i64 {
    let sql = f.db.sql("SELECT count(*) FROM bugle.job WHERE payload->>'n' = '1'").unwrap();
    sqlx::query_scalar(sql).fetch_one(f.db.pool()).await.unwrap()
}

fn begins() -> Statement {
    Statement::matching("BEGIN", |sql| sql == "BEGIN")
}

#[tokio::test]
async fn a_beginning_that_is_dropped_leaves_no_transaction_behind() {
    let f = Fixture::new().await;
    let (proxy, far) = far(&f).await;
    let gate = proxy.gate(begins());
    let asking = tokio::spawn({
        let far = far.clone();
        async move { far.begin().await.map(drop) }
    });
    gate.arrived().await;
    asking.abort();
    asking.await.unwrap_err();
    gate.open();
    far.enqueue(&Add { n: 1 }).send().await.unwrap();
    assert_eq!(jobs(&f).await, 1, "whoever was told so has written it");
    far.close().await;
}

#[tokio::test]
async fn a_handler_that_is_interrupted_while_it_begins_a_transaction_loses_nobodys_work() {
    let f = Fixture::new().await;
    let (proxy, far) = far(&f).await;
    let gate = proxy.gate(begins());
    let pool = far.pool().clone();
    let worker = f.bugle.worker("q").timeout(Duration::from_millis(200)).handle(move |_: Add, _: Ctx| {
        let pool = pool.clone();
        async move { pool.begin().await.map(drop) }
    });
    let counters = worker.counters();
    let stop = CancellationToken::new();
    let running = tokio::spawn(worker.run(stop.clone()));
    f.bugle.enqueue(&Add { n: 0 }).max_attempts(1).send().await.unwrap();
    gate.arrived().await;
    until("it is interrupted", async || counters.kind("add").timeouts.get() == 1).await;
    gate.open();
    far.enqueue(&Add { n: 1 }).send().await.unwrap();
    assert_eq!(jobs(&f).await, 1, "whoever was told so has written it");
    stop.cancel();
    running.await.unwrap().unwrap();
    far.close().await;
}
