//! One PostgreSQL server for a whole test run, a schema for each test, and controls for faults.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use bugle_testkit::postgres::{TestDb, TestServer};
//!
//! let db = TestDb::schema().await?;       // for most tests: its own schema on the shared server
//! sqlx::query("SELECT 1").execute(db.pool()).await?;
//!
//! let mut server = TestServer::own().await?; // for a test that hurts its server
//! server.crash().await?;
//! server.restart().await?;
//! # Ok(())
//! # }
//! ```
//!
//! The shared server is the one that `BUGLE_TEST_DATABASE_URL` names (`with-postgres` sets it for a
//! whole `cargo test`), else one that this process starts when the first test asks. Everything done to
//! the shared server is done with SQL, so any superuser's URL will do.

mod database;
mod faults;
mod flush;
mod server;
mod shared;

pub use database::TestDb;
pub use faults::{Backend, HeldSnapshot, hold_snapshot, terminate_backend};
pub use flush::FailingFlush;
pub use server::TestServer;
pub use shared::{URL_VARIABLE, options};
