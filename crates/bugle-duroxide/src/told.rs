//! What claims tell of their instances.
//!
//! For every activity duroxide reads the whole history of its instance, to learn the name of its orchestration. That read comes right behind
//! the claim, from the same task. The claim has told how far the history goes; if all of that is in memory, the database need not be asked
//! again. What others write between the two calls is not in the answer, as it would not be if the read had been that much faster.

use crate::cache::Stand;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tokio::task;

/// Tasks that are remembered: more than dispatchers of a node. Those that have ended are forgotten when there are more.
const TASKS_MAX: usize = 4_096;

/// What the last claim of each task has told.
#[derive(Default)]
pub(crate) struct Told(Mutex<HashMap<task::Id, (String, Stand)>>);

impl Told {
    /// This task has claimed work of an instance, whose history went so far.
    pub(crate) fn note(&self, instance: &str, stand: Stand) {
        let Some(task) = task::try_id() else { return };
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= TASKS_MAX {
            told.clear();
        }
        told.insert(task, (instance.to_owned(), stand));
    }

    /// How far the history of an instance went, if that is what the last claim of this task has told. Only once.
    pub(crate) fn take(&self, instance: &str) -> Option<Stand> {
        let task = task::try_id()?;
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&task);
        told.and_then(|(of, stand)| (of == instance).then_some(stand))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const STAND: Stand = Stand { incarnation: 1, execution: 1, last_event: 3 };

    #[tokio::test]
    async fn only_the_task_that_claimed_is_told_and_only_once() {
        let told = Arc::new(Told::default());
        let other = told.clone();
        let claims = tokio::spawn(async move {
            told.note("i", STAND);
            let stranger = tokio::spawn(async move { other.take("i") }).await.unwrap();
            (stranger, told.take("i"), told.take("i"))
        });
        assert_eq!(claims.await.unwrap(), (None, Some(STAND), None));
    }

    #[tokio::test]
    async fn a_read_of_another_instance_ends_it() {
        let read = tokio::spawn(async {
            let told = Told::default();
            told.note("i", STAND);
            (told.take("j"), told.take("i"))
        });
        assert_eq!(read.await.unwrap(), (None, None));
    }

    #[tokio::test]
    async fn tasks_that_are_gone_are_not_kept() {
        let told = Arc::new(Told::default());
        for _ in 0..TASKS_MAX + 10 {
            let told = told.clone();
            tokio::spawn(async move { told.note("i", STAND) }).await.unwrap();
        }
        assert_eq!(told.0.lock().unwrap().len(), 10);
    }
}
