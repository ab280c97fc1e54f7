//! A TCP proxy that hurts the PostgreSQL protocol on purpose.
