//! What tests of workers begin with.
use crate::fixture::Fixture;
use bugle::jobs::Backoff;
use bugle::{Error, Job, Worker};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Add {
    pub(crate) n: usize,
}

impl Job for Add {
    const KIND: &'static str = "add";
    const QUEUE: &'static str = "q";
    const MAX_ATTEMPTS: u16 = 3;
}

pub(crate) fn quick(f: &Fixture) -> Worker {
    let backoff =
        Backoff::Exponential { base: Duration::from_millis(1), max: Duration::from_millis(5), jitter: 0.0 };
    f.bugle.worker("q").backoff(backoff).name("w")
}

pub(crate) fn start(worker: Worker) -> (CancellationToken, JoinHandle<Result<(), Error>>) {
    let stop = CancellationToken::new();
    (stop.clone(), tokio::spawn(worker.run(stop)))
}

/// Waits until the counters say so.
pub(crate) async fn settled(f: &Fixture, wanted: &str) {
    let check = async {
        while f.counted().await != wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(30), check).await;
    assert!(in_time.is_ok(), "wanted {wanted}, have {}", f.counted().await);
    assert_eq!(f.counts().await, wanted);
}

/// Something that shall happen soon. The wait is for a broken system alone.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what).await.expect("it did not happen")
}
