//! Everything Bugle needs from PostgreSQL itself: a server, a pool, migrations.
pub mod connect;
pub mod embedded;
pub mod migrate;
