//! The bugle command.
fn main() {}
