//! Every fault of the proxy against a real PostgreSQL: what the client saw, what the server holds, what was hit.
mod bench;
mod gates;
mod network;
mod notifications;
mod partitions;
mod raw;
mod server;
mod startup;
mod statements;
