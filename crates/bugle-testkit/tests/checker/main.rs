//! The checker is tested first: for each rule a bad history that only this rule catches, and its repair.

mod books;
mod bounds;
mod chain;
mod early;
mod fencing;
mod legal;
mod loss;
mod messages;
mod million;
mod model;
mod mutations;
mod order;
mod origin;
mod record;
mod rng;
mod script;
mod simulated;
mod simulator;
