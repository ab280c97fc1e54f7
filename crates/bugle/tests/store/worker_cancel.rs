//! Cancelling a job that a worker on another node runs.
use crate::fixture::Fixture;
use crate::work::{Add, quick, settled, soon, start};
use bugle::jobs::State;
use bugle::{Bugle, Ctx, Options, Worker};
use bugle_testkit::proxy::{Direction, Fault, Proxy};
use sqlx::postgres::PgPoolOptions;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

/// A worker with one slot whose handlers end when told to.
fn waiting(worker: Worker) -> (Worker, mpsc::UnboundedReceiver<Ctx>, Arc<Semaphore>) {
    let (started, starts) = mpsc::unbounded_channel();
    let go = Arc::new(Semaphore::new(0));
    let worker = worker.concurrency(1).handle({
        let go = go.clone();
        move |_: Add, ctx: Ctx| {
            started.send(ctx).unwrap();
            let go = go.clone();
            async move { go.acquire().await.unwrap().forget() }
        }
    });
    (worker, starts, go)
}

async fn is_stopped_within_a_second(f: &Fixture, bugle: &Bugle) {
    let other = f.db.bugle().await.unwrap();
    let (worker, mut starts, go) = waiting(bugle.worker("q"));
    let counters = worker.counters();
    let (stop, running) = start(worker);
    let id = f.bugle.enqueue(&Add { n: 0 }).send().await.unwrap();
    let ctx = soon(starts.recv()).await.unwrap();
    assert_eq!(other.cancel_job(id).await.unwrap(), Some(State::Leased));
    let stopped = tokio::time::timeout(Duration::from_secs(1), ctx.stop.cancelled()).await;
    assert!(stopped.is_ok(), "the handler was not told within a second");
    f.bugle.enqueue(&Add { n: 1 }).send().await.unwrap();
    let next = soon(starts.recv()).await.unwrap();
    assert!(next.id != id && !next.stop.is_cancelled(), "its slot is free");
    go.add_permits(1);
    settled(f, "done 1, cancelled 1").await;
    stop.cancel();
    running.await.unwrap().unwrap();
    let add = counters.kind("add");
    assert_eq!((add.cancelled.get(), add.done.get(), add.lost.get()), (1, 1, 0));
}

#[tokio::test]
async fn a_job_cancelled_on_another_node_is_stopped_within_a_second() {
    let f = Fixture::new().await;
    is_stopped_within_a_second(&f, &f.bugle).await;
}

#[tokio::test]
async fn a_node_without_listen_hears_of_it_as_well() {
    let f = Fixture::new().await;
    let mut options = Options { schema: f.bugle.schema().clone(), ..Options::default() };
    options.wake.listen = false;
    let deaf = Bugle::new(f.db.pool().clone(), options).await.unwrap();
    is_stopped_within_a_second(&f, &deaf).await;
}

#[tokio::test]
async fn a_cancel_and_an_end_at_the_same_time_are_one_of_both() {
    let f = Fixture::new().await;
    let other = f.db.bugle().await.unwrap();
    let (worker, mut starts, go) = waiting(quick(&f));
    let (stop, running) = start(worker);
    let mut cancelled = 0;
    for n in 0..40 {
        let id = f.bugle.enqueue(&Add { n }).send().await.unwrap();
        soon(starts.recv()).await.unwrap();
        go.add_permits(1);
        cancelled += usize::from(other.cancel_job(id).await.unwrap().is_some());
        // A handler that was stopped before its permit leaves it behind.
        let wanted = match (n + 1 - cancelled, cancelled) {
            (done, 0) => format!("done {done}"),
            (0, cancelled) => format!("cancelled {cancelled}"),
            (done, cancelled) => format!("done {done}, cancelled {cancelled}"),
        };
        settled(&f, &wanted).await;
        go.forget_permits(1);
    }
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_job_cancelled_while_its_claim_is_on_the_way_is_stopped_when_it_arrives() {
    let f = Fixture::new().await;
    let direct = f.db.connect_options();
    let server = tokio::net::lookup_host((direct.get_host(), direct.get_port())).await.unwrap().next();
    let proxy = Proxy::start(server.unwrap()).await.unwrap();
    let pool = PgPoolOptions::new().connect_with(proxy.rewrite(direct)).await.unwrap();
    let options = Options {
        schema: f.bugle.schema().clone(),
        listener: Some(direct.clone()), // hears of the cancelling before the claim is answered
        ..Options::default()
    };
    let far = Bugle::new(pool, options).await.unwrap();
    let (worker, mut starts, go) = waiting(far.worker("q"));
    let counters = worker.counters();
    let (stop, running) = start(worker);
    f.bugle.enqueue(&Add { n: 0 }).send().await.unwrap();
    soon(starts.recv()).await.unwrap();

    // Its only slot is taken: it looks for nothing until the first job ends, and then it hears no answer.
    let id = f.bugle.enqueue(&Add { n: 1 }).send().await.unwrap();
    let stall = proxy.set(Fault::stall(Direction::ToClient));
    go.add_permits(1);
    settled(&f, "leased 2").await;
    // It polls until its listener is there, so it may have come so far without one.
    let listens = async {
        while !far.node().unwrap().status().listening {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    soon(listens).await;
    let controls = || far.node().unwrap().counters().controls.get();
    let before = controls();
    assert_eq!(f.bugle.cancel_job(id).await.unwrap(), Some(State::Leased));
    let heard = async {
        while controls() == before {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    soon(heard).await;
    assert!(starts.try_recv().is_err(), "not even started");
    stall.lift();
    let ctx = soon(starts.recv()).await.unwrap();
    assert_eq!(ctx.id, id);
    soon(ctx.stop.cancelled()).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!((counters.kind("add").cancelled.get(), counters.kind("add").done.get()), (1, 1));
    far.close().await;
}
