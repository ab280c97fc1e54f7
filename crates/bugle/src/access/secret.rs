//! The secret of an API key.

use crate::Error;
use rand::TryRng as _;
use rand::rngs::SysRng;
use sha2::{Digest as _, Sha256};
use std::fmt::{self, Write as _};

/// What every secret begins with, so that scanners of published code find it.
const PREFIX: &str = "bugle_";
const RANDOM_BYTES: usize = 32;

/// What whoever has an API key shows: `bugle_` and 256 random bits in hexadecimal. Never printed by accident: `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

/// SHA-256 of a secret: what the database knows.
pub(super) type Hash = [u8; 32];

impl Secret {
    /// A new one, from the operating system's generator.
    pub(super) fn generate() -> Result<Self, Error> {
        let mut bytes = [0; RANDOM_BYTES];
        SysRng.try_fill_bytes(&mut bytes).map_err(|error| {
            Error::Unsafe(format!("the system gave no random numbers for a key: {error}"))
        })?;
        let mut text = PREFIX.to_owned();
        for byte in bytes {
            let _ = write!(text, "{byte:02x}"); // a String takes everything
        }
        Ok(Self(text.into()))
    }

    /// What a client sent; `None`: it cannot be one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX)?;
        let is_one = digits.len() == 2 * RANDOM_BYTES
            && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        is_one.then(|| Self(text.into()))
    }

    /// The secret itself, to be shown once.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Keys are found by this, so no secret is ever compared with another, and no time that it takes tells anything of one.
    pub(super) fn hash(&self) -> Hash {
        Sha256::digest(self.0.as_bytes()).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}...")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_as_it_was_shown_and_hidden_elsewhere() {
        let secret = Secret::generate().unwrap();
        assert_eq!(Secret::parse(secret.reveal()).unwrap(), secret);
        assert_ne!(Secret::generate().unwrap(), secret);
        assert_eq!(format!("{secret:?}"), "bugle_...");
        let digits = "0".repeat(64);
        for bad in ["", "bugle_", &digits, &format!("bugle_{digits}0"), &format!("bugle_{}", "G".repeat(64))]
        {
            assert_eq!(Secret::parse(bad), None, "{bad}");
        }
    }
}
