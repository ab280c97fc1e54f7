//! What handlers are given: shared things, a key, a time limit.
use crate::fixture::Fixture;
use crate::work::{Add, quick, settled, soon, start};
use bugle::{Ctx, Job, Shared};
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

#[derive(Default)]
struct Seen(Mutex<Vec<(usize, String)>>);

async fn note(job: Add, seen: Shared<Seen>, ctx: Ctx) -> Result<(), std::io::Error> {
    seen.0.0.lock().unwrap().push((job.n, ctx.idempotency_key()));
    if ctx.attempt < 2 { Err(std::io::Error::other("again")) } else { Ok(()) }
}

#[tokio::test]
async fn plain_functions_take_shared_things_and_a_key_that_stays() {
    let f = Fixture::new().await;
    let seen = std::sync::Arc::new(Seen::default());
    let refused = quick(&f).handle(note).run(CancellationToken::new()).await.unwrap_err().to_string();
    assert!(refused.contains("Seen>, which is not shared; give it one with `share`"), "{refused}");

    // Something that is shared already may be shared with others as well.
    let worker = quick(&f).share(Seen::default()).share(seen.clone()).handle(
        |job: Add, all: Shared<std::sync::Arc<Seen>>, ctx: Ctx| note(job, Shared((*all).clone()), ctx),
    );
    let (stop, running) = start(worker);
    f.bugle.enqueue_many(&[Add { n: 1 }, Add { n: 2 }]).send().await.unwrap();
    settled(&f, "done 2").await;
    stop.cancel();
    running.await.unwrap().unwrap();
    let mut seen = seen.0.lock().unwrap().clone();
    seen.sort();
    assert_eq!(seen.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [1, 1, 2, 2]);
    assert_eq!(seen[0].1, seen[1].1, "the same in every attempt");
    assert_ne!(seen[1].1, seen[2].1, "and of no other job");
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Stuck;

impl Job for Stuck {
    const KIND: &'static str = "stuck";
    const QUEUE: &'static str = "q";
    const MAX_ATTEMPTS: u16 = 1;
    const TIMEOUT: Option<Duration> = Some(Duration::from_millis(20));
}

#[tokio::test]
async fn a_job_whose_time_is_up_is_interrupted_and_has_failed() {
    let f = Fixture::new().await;
    let (started, mut starts) = mpsc::unbounded_channel();
    let note = started.clone();
    let worker = quick(&f)
        .timeout(Duration::from_millis(50))
        .handle(move |_: Stuck, ctx: Ctx| {
            started.send(ctx.stop).unwrap();
            std::future::pending::<()>()
        })
        .handle(move |_: Add, ctx: Ctx| {
            note.send(ctx.stop).unwrap();
            std::future::pending::<()>()
        });
    let counters = worker.counters();
    let (stop, running) = start(worker);
    let by_kind = f.bugle.enqueue(&Stuck).send().await.unwrap();
    let by_worker = f.bugle.enqueue(&Add { n: 0 }).max_attempts(1).send().await.unwrap();
    for _ in 0..2 {
        soon(soon(starts.recv()).await.unwrap().cancelled()).await;
    }
    settled(&f, "dead 2").await;
    stop.cancel();
    running.await.unwrap().unwrap();
    for (id, limit) in [(by_kind, "20ms"), (by_worker, "50ms")] {
        let failed = f.bugle.show_job(id).await.unwrap().unwrap().failures;
        assert_eq!((failed[0].code.as_str(), failed[0].message.contains(limit)), ("timeout", true));
    }
    assert_eq!((counters.kind("stuck").timeouts.get(), counters.kind("add").dead.get()), (1, 1));
    assert!(starts.recv().await.is_none(), "the handlers are gone");
}
