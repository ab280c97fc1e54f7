//! Who may do what. Every handler has a [`Scope`] as its first argument, which only the extractor here can make: a route without one is not
//! accepted by `routes::scoped!`, and the broker is not reached without one.

mod grant;
mod guard;
mod jwt;
mod right;
mod scope;

pub use jwt::{Jwt, JwtError};

pub(crate) use grant::Grant;
pub(crate) use guard::refuse_stranger;
pub(crate) use right::{Admin, Configure, Inspect, Move, Need, Pop, Public, Push, Transact};
pub(crate) use scope::{Scope, is_scoped};

use crate::error::Error;
use axum::http::{HeaderValue, StatusCode};
use bugle::Bugle;
use bugle::access::{Keyring, Right, Secret};
use bugle::limits::KEY_BYTES_MAX;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// Where the database could not be asked whether a key was revoked, it is asked again so soon.
const ASK_AGAIN_IN: Duration = Duration::from_secs(1);

/// How callers are known: by API keys, and by tokens of somebody who is trusted.
pub(crate) struct Access {
    bugle: Bugle,
    keyring: Keyring,
    jwt: Option<Jwt>,
    /// Changes when a key may have been revoked.
    control: watch::Receiver<u64>,
    /// There are neither keys nor tokens: everybody who reaches the server may do everything.
    is_open: AtomicBool,
}

impl Access {
    /// Starts the wake engine, which tells of keys that come and go.
    pub(crate) async fn new(bugle: &Bugle, jwt: Option<Jwt>) -> Result<Self, bugle::Error> {
        let is_open = jwt.is_none() && !bugle.access().has_keys().await?;
        let (keyring, control) = (Keyring::new(bugle), bugle.control_changes());
        Ok(Self { bugle: bugle.clone(), keyring, jwt, control, is_open: AtomicBool::new(is_open) })
    }

    /// Is everybody let in?
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// A server that everybody may use is closed when the first key is made. It is never opened again: that the last key was revoked must not
    /// let everybody in.
    pub(crate) async fn close_if_there_are_keys(&self) -> Result<(), bugle::Error> {
        if self.is_open() && self.bugle.access().has_keys().await? {
            tracing::info!("There is an API key now: from here on callers need one.");
            self.is_open.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Control as it is now: a change of it may be a key that was revoked.
    fn control(&self) -> watch::Receiver<u64> {
        let mut control = self.control.clone();
        control.mark_unchanged();
        control
    }

    /// What the caller of a request may do, who has shown this.
    async fn grant(&self, shown: Option<&HeaderValue>) -> Result<Grant, Error> {
        if self.is_open() {
            return Ok(Grant::of(&Right::ALL, None)?);
        }
        let shown = shown.and_then(|value| value.to_str().ok());
        let shown = shown
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let Some((_, shown)) = shown else {
            return Err(unknown("Authentication required: send Authorization: Bearer with an API key"));
        };
        let shown = shown.trim();
        match (Secret::parse(shown), &self.jwt) {
            (Some(secret), _) => self.of_key(&secret).await,
            (None, Some(jwt)) => jwt.grant(shown),
            (None, None) => Err(unknown("Authentication required: what was sent is no API key")),
        }
    }

    async fn of_key(&self, secret: &Secret) -> Result<Grant, Error> {
        let Some(grant) = self.keyring.find(secret).await? else {
            return Err(unknown("Authentication required: the API key is unknown, expired or revoked"));
        };
        let (theirs, ours) = (&grant.namespace, self.bugle.namespace().as_str());
        if theirs != ours {
            let sentence = format!(
                "Insufficient permissions: the key is of namespace {theirs:?}, and this server of {ours:?}"
            );
            return Err(Error::new(StatusCode::FORBIDDEN, sentence));
        }
        let mut subject = format!("key:{}", grant.name);
        subject.truncate(subject.floor_char_boundary(KEY_BYTES_MAX));
        Ok(Grant::new(grant.scopes.clone(), Some(subject)).until(grant.expires))
    }
}

/// Nobody knows the caller.
fn unknown(sentence: &str) -> Error {
    Error::new(StatusCode::UNAUTHORIZED, sentence)
}
