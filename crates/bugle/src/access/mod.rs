//! Who may do what over the network: API keys, each of one namespace, with the queues and the rights that it is for.
//!
//! A key is made once and its secret shown once; the database has its hash alone. A server asks a [`Keyring`], which remembers keys for
//! [`KEPT`] and is told when one is revoked.
//!
//! ```
//! use bugle::Bugle;
//! use bugle::access::{Keyring, NewKey, Right, Scope};
//! use bugle::pg::embedded::{Options, Server};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = Server::start(Options::ephemeral()).await?;
//!     let bugle = Bugle::connect(&server.url()).await?;
//!
//!     let scope = Scope::new("orders.", [Right::Push, Right::Pop])?;
//!     let (secret, _) = bugle.access().create(&NewKey::new("shop")?.scope(scope)).await?;
//!
//!     let keyring = Keyring::new(&bugle);
//!     let grant = keyring.find(&secret).await?.ok_or("no such key")?;
//!     assert!(grant.allows(Right::Push, "orders.new") && !grant.allows(Right::Push, "payroll"));
//!
//!     bugle.close().await;
//!     server.stop().await?;
//!     Ok(())
//! }
//! ```

mod keyring;
mod keys;
mod scope;
mod secret;
mod statements;

pub use keyring::{KEPT, Keyring};
pub use keys::{Grant, KeyRow, NewKey};
pub use scope::{Right, Scope};
pub use secret::Secret;

use crate::Bugle;
use statements::Statements;
use std::sync::Arc;

/// The API keys of a [`Bugle`]'s namespace.
#[derive(Clone)]
pub struct Access {
    bugle: Bugle,
    statements: Arc<Statements>,
}

impl Bugle {
    /// The API keys of this handle's namespace.
    #[must_use]
    pub fn access(&self) -> Access {
        Access { bugle: self.clone(), statements: Arc::new(Statements::new(self.schema())) }
    }
}
