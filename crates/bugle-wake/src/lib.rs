//! Bugle's wake engine: work that appears or becomes due reaches whoever waits for it, and an idle fleet leaves the database alone.
//!
//! It knows buckets and instants, not jobs.
