//! Calls of many callers at once, made together. For Bugle's own crates.
//!
//! A call that finds nobody at work for its key is made at once; those that come meanwhile are made together, with one statement, when
//! that is done. Nobody is held back for company, and everybody is answered after the commit of their own. Eight callers then wait
//! for one flush instead of eight.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// What can be made together.
pub trait Batch: Clone + Send + Sync + 'static {
    /// Only calls with the same key are made together.
    type Key: Clone + Eq + Hash + Send + Sync + 'static;
    /// What one caller wants.
    type Call: Send + 'static;
    /// What becomes of it.
    type Answer: Send + 'static;
    /// What is kept from one batch to the next while they follow each other: a connection, say.
    type Kept: Default + Send;

    /// Most that one batch may weigh, unless one call alone is heavier.
    const MOST: usize;

    /// What a call counts.
    #[must_use]
    fn weight(_: &Self::Call) -> usize {
        1
    }

    /// Makes calls: one answer for each, in their order.
    fn make(
        &self,
        key: &Self::Key,
        kept: &mut Self::Kept,
        calls: Vec<Self::Call>,
    ) -> impl Future<Output = Vec<Self::Answer>> + Send;
}

/// Makes calls together.
pub struct Fuse<B: Batch>(Arc<Mutex<Keys<B>>>);

/// The calls that wait, key by key. A key is here while somebody is at work for it.
type Keys<B> = HashMap<<B as Batch>::Key, Vec<Waiting<B>>>;

struct Waiting<B: Batch> {
    call: B::Call,
    answer: oneshot::Sender<B::Answer>,
}

impl<B: Batch> Default for Fuse<B> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<B: Batch> Fuse<B> {
    /// Makes a call, alone or with others. `None`: whoever made it is gone with its runtime, perhaps after the statement was sent.
    ///
    /// Whoever drops the future does not learn what became of the call: others are made with it.
    pub async fn call(&self, batch: &B, key: B::Key, call: B::Call) -> Option<B::Answer> {
        let (answer, answered) = oneshot::channel();
        let is_first = {
            let mut keys = self.lock();
            let is_first = !keys.contains_key(&key);
            keys.entry(key.clone()).or_default().push(Waiting { call, answer });
            is_first
        };
        if is_first {
            let fuse = Self(self.0.clone());
            tokio::spawn(Maker { batch: batch.clone(), fuse, key, has_ended: false }.run());
        }
        answered.await.ok()
    }

    /// The next calls to be made. None: there are none, and the maker is gone from this moment on.
    fn take(&self, key: &B::Key) -> Option<Vec<Waiting<B>>> {
        let mut keys = self.lock();
        let waiting = keys.get_mut(key).filter(|waiting| !waiting.is_empty());
        let Some(waiting) = waiting else {
            keys.remove(key);
            return None;
        };
        let mut weight = 0;
        let fits = |waiting: &&Waiting<B>| {
            weight += B::weight(&waiting.call);
            weight <= B::MOST
        };
        let most = waiting.iter().take_while(fits).count().max(1);
        Some(waiting.drain(..most).collect())
    }

    fn lock(&self) -> MutexGuard<'_, Keys<B>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes what waits for one key until nothing does.
struct Maker<B: Batch> {
    batch: B,
    fuse: Fuse<B>,
    key: B::Key,
    has_ended: bool,
}

impl<B: Batch> Drop for Maker<B> {
    /// One that panics, or whose runtime ends: those who wait for it learn that nobody will answer, and the next call starts another.
    fn drop(&mut self) {
        if !self.has_ended {
            self.fuse.lock().remove(&self.key);
        }
    }
}

impl<B: Batch> Maker<B> {
    async fn run(mut self) {
        let mut kept = B::Kept::default();
        // Those who were woken together with the first caller, and are about to call, get in as well.
        tokio::task::yield_now().await;
        while let Some(waiting) = self.fuse.take(&self.key) {
            let (calls, answers): (Vec<_>, Vec<_>) =
                waiting.into_iter().map(|Waiting { call, answer }| (call, answer)).unzip();
            let made = self.batch.make(&self.key, &mut kept, calls).await;
            for (answer, made) in answers.into_iter().zip(made) {
                let _ = answer.send(made); // whoever asked may be gone
            }
            // Those who were just answered and have more to do get in first: without it they would find nobody, one by one.
            tokio::task::yield_now().await;
        }
        self.has_ended = true;
    }
}
