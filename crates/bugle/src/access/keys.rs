//! Making, listing and revoking API keys, and finding one by its secret.

use super::secret::Hash;
use super::{Access, Right, Scope, Secret};
use crate::Error;
use crate::jobs::enqueue::interval;
use crate::limits::API_KEY_SCOPES_MAX;
use crate::name::ApiKeyName;
use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::types::Json;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A key to be made: checked once, here.
#[derive(Debug, Clone)]
pub struct NewKey {
    name: ApiKeyName,
    scopes: Vec<Scope>,
    lifetime: Option<Duration>,
}

impl NewKey {
    /// A key that never expires, as yet without a scope.
    pub fn new(name: &str) -> Result<Self, Error> {
        Ok(Self { name: ApiKeyName::parse(name)?, scopes: Vec::new(), lifetime: None })
    }

    /// It is for this as well.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scopes.push(scope);
        self
    }

    /// It may be used for so long.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }
}

/// A key, as a list shows it.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct KeyRow {
    /// Its number.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// `active`, `expired` or `revoked`.
    pub state: String,
    /// What it is for.
    #[sqlx(json)]
    pub scopes: Vec<Scope>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// From when on it may not be used any more.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was revoked.
    pub revoked_at: Option<DateTime<Utc>>,
    /// When it was last used, to a minute or so.
    pub used_at: Option<DateTime<Utc>>,
}

/// What a key that may be used allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The key's number.
    pub id: i32,
    /// The key's name.
    pub name: String,
    /// The namespace that it belongs to: it opens no other.
    pub namespace: String,
    /// What it is for there.
    pub scopes: Vec<Scope>,
    /// From when on it may not be used any more, by the clock of this process; `None`: for ever.
    pub expires: Option<Instant>,
}

impl Grant {
    /// Does it allow this with a queue?
    #[must_use]
    pub fn allows(&self, right: Right, queue: &str) -> bool {
        self.scopes.iter().any(|scope| scope.allows(right, queue))
    }
}

#[derive(sqlx::FromRow)]
struct Found {
    hash: Vec<u8>,
    id: i32,
    name: String,
    namespace: String,
    scopes: Json<Vec<Scope>>,
    seconds_left: Option<f64>,
}

/// A key that was found, and how long it may be used; `None`: for ever.
pub(super) type Usable = (Arc<Grant>, Option<Duration>);

impl Access {
    /// Makes a key in this namespace. The secret is told here and nowhere else.
    pub async fn create(&self, key: &NewKey) -> Result<(Secret, KeyRow), Error> {
        let scopes = key.scopes.len();
        if scopes == 0 || scopes > API_KEY_SCOPES_MAX {
            let fault = format!("{:?} has {scopes} scopes", key.name.as_str());
            return Err(Error::Invalid { what: "API key", fault, next: "give it 1 to 100 of them" });
        }
        let lifetime = key.lifetime.map(|lifetime| interval("lifetime", lifetime)).transpose()?;
        let secret = Secret::generate()?;
        let row = sqlx::query_as(self.statements.create_key())
            .bind(self.bugle.namespace_number())
            .bind(key.name.as_str())
            .bind(secret.hash().as_slice())
            .bind(Json(&key.scopes))
            .bind(lifetime)
            .fetch_one(self.bugle.pool())
            .await
            .map_err(Error::executing)?;
        Ok((secret, row))
    }

    /// The keys of this namespace, those that were revoked included, the newest last.
    pub async fn list(&self) -> Result<Vec<KeyRow>, Error> {
        sqlx::query_as(self.statements.list_keys())
            .bind(self.bugle.namespace_number())
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }

    /// Revokes a key of this namespace: every node refuses it within [`KEPT`](super::KEPT), and most often at once. `false`: there is none of that name.
    pub async fn revoke(&self, name: &str) -> Result<bool, Error> {
        let name = ApiKeyName::parse(name)?;
        sqlx::query_scalar(self.statements.revoke_key())
            .bind(self.bugle.namespace_number())
            .bind(name.as_str())
            .fetch_one(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }

    /// Was there ever a key, in any namespace? One that was revoked or has expired counts: a server that was closed by it stays closed.
    pub async fn has_keys(&self) -> Result<bool, Error> {
        sqlx::query_scalar(self.statements.has_keys())
            .fetch_one(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }

    /// What the keys with these secrets allow, of whatever namespace, with one statement.
    pub(super) async fn find_all(&self, hashes: &[Hash]) -> Result<HashMap<Hash, Usable>, Error> {
        let now = Instant::now(); // before it is asked: it may be too early, and not too late
        let asked: Vec<&[u8]> = hashes.iter().map(<[u8; 32]>::as_slice).collect();
        let rows: Vec<Found> = sqlx::query_as(self.statements.find_keys())
            .bind(asked)
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)?;
        let usable = |row: Found| {
            let Found { hash, id, name, namespace, scopes: Json(scopes), seconds_left } = row;
            let left = seconds_left.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
            let hash = Hash::try_from(hash).ok()?;
            let expires = left.and_then(|left| now.checked_add(left));
            Some((hash, (Arc::new(Grant { id, name, namespace, scopes, expires }), left)))
        };
        Ok(rows.into_iter().filter_map(usable).collect())
    }

    /// Notes that keys are used.
    pub(super) async fn note_use(&self, ids: &[i32]) -> Result<(), Error> {
        let noted = sqlx::query(self.statements.note_use()).bind(ids).execute(self.bugle.pool()).await;
        noted.map(drop).map_err(Error::executing)
    }
}
