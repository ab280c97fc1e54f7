//! A private PostgreSQL server, started and stopped by Bugle.
