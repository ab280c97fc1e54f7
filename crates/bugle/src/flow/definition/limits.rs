//! What a definition may be at most.

/// Longest text of a definition, as it is read and in its canonical form.
pub const DEFINITION_BYTES_MAX: usize = 1_048_576;
/// Most steps of a definition.
pub const STEPS_MAX: usize = 1_000;
/// Most edges of a definition, over all its steps.
pub const EDGES_MAX: usize = 10_000;
/// Longest name of a step.
pub const STEP_NAME_BYTES_MAX: usize = 100;
/// Longest description.
pub const DESCRIPTION_BYTES_MAX: usize = 4_000;
/// Longest JSON pointer to the list of a map.
pub const POINTER_BYTES_MAX: usize = 1_000;
/// Highest version.
pub const VERSION_MAX: u32 = 2_147_483_647;
/// Most items of a map at once, where it is limited at all.
pub const CONCURRENCY_MAX: u32 = 10_000;
/// Most domain events of a step.
pub const EVENTS_MAX: usize = 100;
/// Attempts of a step that does not say how many it has.
pub const ATTEMPTS_DEFAULT: u16 = 5;
/// The queue of steps that do not say theirs.
pub const QUEUE_DEFAULT: &str = "steps";

/// Most faults that are kept of one text: who has a thousand wants another file, not a longer list.
pub(super) const FAULTS_MAX: usize = 1_000;
/// Deepest nesting of a text: a definition needs five levels.
pub(super) const DEPTH_MAX: usize = 16;
/// Most values of a text, those that aliases repeat included: a few short lines of aliases can stand for billions.
pub(super) const VALUES_MAX: usize = 200_000;
