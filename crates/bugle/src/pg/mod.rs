//! Everything Bugle needs from PostgreSQL itself: a server, a pool, names, migrations.
pub mod embedded;
