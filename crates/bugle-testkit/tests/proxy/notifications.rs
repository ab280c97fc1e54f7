//! Lost notifications.
use bugle_testkit::proxy::Fault;
use sqlx::Executor;
use sqlx::postgres::{PgListener, PgPoolOptions};

use super::bench::{Bench, options, soon};

#[tokio::test]
async fn notifications_vanish_and_queries_do_not() -> anyhow::Result<()> {
    let mut bench = Bench::new("lost_wakes").await?;
    let pool = PgPoolOptions::new().max_connections(1).connect_with(bench.proxy.rewrite(&options()?)).await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen("wakes").await?;
    let drop_all = bench.proxy.set(Fault::drop_notifications());
    bench.direct.execute("SELECT pg_notify('wakes', 'lost')").await?;
    soon(drop_all.has_hit(1)).await?;
    let one: i32 = soon(sqlx::query_scalar("SELECT 1").fetch_one(&mut listener)).await??;
    assert_eq!(one, 1);
    bench.proxy.heal();
    bench.direct.execute("SELECT pg_notify('wakes', 'heard')").await?;
    assert_eq!(soon(listener.recv()).await??.payload(), "heard", "the lost one does not come back");
    assert_eq!(drop_all.hits(), 1);
    Ok(())
}
