//! What a server knows of API keys: asked of the database once in some seconds, and anew when it is told.

use super::keys::Usable;
use super::secret::Hash;
use super::{Access, Grant, Secret};
use crate::fuse::{Batch, Fuse};
use crate::{Bugle, Error};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// A key is asked for anew after so long at the latest: so long a revoked one may still work on a node that nobody can tell.
pub const KEPT: Duration = Duration::from_secs(5);

/// A key's use is noted no more often.
const NOTED_EVERY: Duration = Duration::from_mins(1);

/// Keys that are remembered; above that it begins anew.
const KEYS_MAX: usize = 10_000;

/// Finds API keys by their secrets. Cheap to clone; the clones know the same.
#[derive(Clone)]
pub struct Keyring {
    access: Access,
    /// Another number: something was revoked, or that may have been missed.
    control: watch::Receiver<u64>,
    known: Arc<Mutex<HashMap<Hash, Known>>>,
    finds: Arc<Fuse<Finds>>,
}

struct Known {
    grant: Arc<Grant>,
    /// What control said before it was asked for.
    control: u64,
    until: Instant,
    noted: Option<Instant>,
}

impl Keyring {
    /// Knows no key yet. Starts the wake engine of the handle, which tells of revoked keys.
    #[must_use]
    pub fn new(bugle: &Bugle) -> Self {
        let control = bugle.wake().node.control_changes();
        Self { access: bugle.access(), control, known: Arc::default(), finds: Arc::default() }
    }

    /// What the key with this secret allows; `None`: there is none, or it is revoked or expired. Those who ask for unknown keys at the
    /// same time are answered by one statement.
    pub async fn find(&self, secret: &Secret) -> Result<Option<Arc<Grant>>, Error> {
        let hash = secret.hash();
        let control = *self.control.borrow();
        if let Some(grant) = self.recall(&hash, control) {
            return Ok(Some(grant));
        }
        // What is known is as old as the question, not as the answer: a revocation in between is not seen.
        let asked = Instant::now();
        let found = self.finds.call(&Finds(self.access.clone()), (), hash).await;
        let found = found.unwrap_or_else(|| Err(Error::timed_out()))?;
        let mut known = self.lock();
        let Some((grant, left)) = found else {
            known.remove(&hash);
            return Ok(None);
        };
        if known.len() >= KEYS_MAX {
            known.clear();
        }
        let noted = known.get(&hash).and_then(|known| known.noted);
        let until = asked + left.unwrap_or(KEPT).min(KEPT);
        let is_due = noted.is_none_or(|noted| asked.duration_since(noted) >= NOTED_EVERY);
        let noted = if is_due { Some(asked) } else { noted };
        known.insert(hash, Known { grant: grant.clone(), control, until, noted });
        if is_due {
            self.note_use(grant.id);
        }
        Ok(Some(grant))
    }

    fn recall(&self, hash: &Hash, control: u64) -> Option<Arc<Grant>> {
        let known = self.lock();
        let known =
            known.get(hash).filter(|known| known.control == control && Instant::now() < known.until)?;
        Some(known.grant.clone())
    }

    /// Beside the request: nobody waits for it, and should it fail, the next one is a minute away.
    fn note_use(&self, id: i32) {
        let access = self.access.clone();
        tokio::spawn(async move {
            if let Err(error) = access.note_use(&[id]).await {
                tracing::warn!(%error, key = id, "the use of an API key could not be noted");
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Hash, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keys that several requests ask for at once.
#[derive(Clone)]
struct Finds(Access);

impl Batch for Finds {
    type Key = ();
    type Call = Hash;
    type Answer = Result<Option<Usable>, Error>;
    type Kept = ();

    const MOST: usize = 1_000;

    async fn make(&self, (): &(), (): &mut (), calls: Vec<Hash>) -> Vec<Self::Answer> {
        match self.0.find_all(&calls).await {
            Ok(found) => calls.iter().map(|hash| Ok(found.get(hash).cloned())).collect(),
            Err(error) => calls.iter().map(|_| Err(error.again())).collect(),
        }
    }
}
