//! The primitives that the engine's shared types are built on. A test explores those very types under another scheduler by
//! exchanging this module's mutex (feature `explore`).

use std::future::{Future, poll_fn};
use std::task::{Poll, Waker};

#[cfg(feature = "explore")]
use shuttle::sync as std_sync;
#[cfg(not(feature = "explore"))]
use std::sync as std_sync;

/// A mutex whose holder never panics half-way, so that a poisoned one is as good as any.
#[derive(Default)]
pub(crate) struct Mutex<T>(std_sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(std_sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> std_sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// "Look at the state again": remembered when nobody waits, so it cannot be lost. One waiter.
#[derive(Default)]
pub(crate) struct Signal(Mutex<Raised>);

#[derive(Default)]
struct Raised {
    raised: bool,
    waiter: Option<Waker>,
}

impl Signal {
    pub(crate) fn raise(&self) {
        let waiter = {
            let mut state = self.0.lock();
            state.raised = true;
            state.waiter.take()
        };
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }

    /// Waits until it is raised, and lowers it.
    pub(crate) fn raised(&self) -> impl Future<Output = ()> {
        poll_fn(|context| {
            let mut state = self.0.lock();
            if std::mem::take(&mut state.raised) {
                return Poll::Ready(());
            }
            state.waiter = Some(context.waker().clone());
            Poll::Pending
        })
    }
}
