//! Tokens of somebody who is trusted (JSON Web Tokens), with Queen's roles.

use super::grant::Grant;
use super::unknown;
use crate::error::Error;
use bugle::access::Right;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;
use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Shortest secret: as long as the hash that it is used with.
const SECRET_BYTES_MIN: usize = 32;

/// How tokens are checked. The algorithm is chosen here and never by a token.
#[derive(Clone)]
pub struct Jwt {
    key: DecodingKey,
    validation: Validation,
}

/// Why tokens cannot be checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JwtError {
    /// The secret can be guessed.
    #[error("the secret for tokens has {bytes} bytes; use at least 32, such as from `openssl rand -hex 32`")]
    ShortSecret {
        /// How long it is.
        bytes: usize,
    },
    /// The public key cannot be read.
    #[error("the public key for tokens cannot be read: {0}; use an RSA key in PEM form")]
    PublicKey(#[source] jsonwebtoken::errors::Error),
}

impl Jwt {
    /// Tokens signed with a secret that both sides have (HS256).
    pub fn hs256(secret: &[u8]) -> Result<Self, JwtError> {
        if secret.len() < SECRET_BYTES_MIN {
            return Err(JwtError::ShortSecret { bytes: secret.len() });
        }
        Ok(Self::new(DecodingKey::from_secret(secret), Algorithm::HS256))
    }

    /// Tokens signed with a private key, of which this is the public one, in PEM form (RS256).
    pub fn rs256(pem: &[u8]) -> Result<Self, JwtError> {
        Ok(Self::new(DecodingKey::from_rsa_pem(pem).map_err(JwtError::PublicKey)?, Algorithm::RS256))
    }

    fn new(key: DecodingKey, algorithm: Algorithm) -> Self {
        let mut validation = Validation::new(algorithm);
        validation.validate_nbf = true;
        validation.validate_aud = false; // unless an audience is named
        Self { key, validation }
    }

    /// Only tokens of this issuer.
    #[must_use]
    pub fn issuer(mut self, issuer: &str) -> Self {
        self.validation.set_issuer(&[issuer]);
        self.validation.required_spec_claims.insert("iss".to_owned());
        self
    }

    /// Only tokens for this audience.
    #[must_use]
    pub fn audience(mut self, audience: &str) -> Self {
        self.validation.set_audience(&[audience]);
        self.validation.validate_aud = true;
        self.validation.required_spec_claims.insert("aud".to_owned());
        self
    }

    /// When a token with this expiry is not accepted any more.
    fn ends(&self, expiry: Option<f64>) -> Option<Instant> {
        let expiry = Duration::try_from_secs_f64(expiry?).ok()? + Duration::from_secs(self.validation.leeway);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        Instant::now().checked_add(expiry.saturating_sub(now))
    }

    /// What the holder of a token may do.
    pub(super) fn grant(&self, token: &str) -> Result<Grant, Error> {
        let claims: Claims = jsonwebtoken::decode(token, &self.key, &self.validation)
            .map_err(|error| {
                unknown(&format!("Authentication required: the token is not accepted: {error}"))
            })?
            .claims;
        let roles = [claims.role, claims.roles].into_iter().flatten().flat_map(Roles::into_vec);
        let rights: Vec<Right> = roles.flat_map(|role| rights_of(&role)).copied().collect();
        if rights.is_empty() {
            return Ok(Grant::new(Vec::new(), claims.sub)); // somebody, who may do nothing
        }
        Ok(Grant::of(&rights, claims.sub)?.until(self.ends(claims.exp)))
    }
}

impl fmt::Debug for Jwt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jwt").field("algorithms", &self.validation.algorithms).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Claims {
    sub: Option<String>,
    exp: Option<f64>,
    role: Option<Roles>,
    roles: Option<Roles>,
}

/// One role, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Roles {
    One(String),
    Many(Vec<String>),
}

impl Roles {
    fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(role) => vec![role],
            Self::Many(roles) => roles,
        }
    }
}

/// What Queen's roles mean. Each includes those before it.
fn rights_of(role: &str) -> &'static [Right] {
    match role {
        "read-only" => &[Right::Inspect],
        "read-write" => &[Right::Push, Right::Pop, Right::Inspect],
        "admin" => &Right::ALL,
        _ => &[],
    }
}
