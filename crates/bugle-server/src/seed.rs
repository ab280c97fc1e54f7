//! The environment variables of the design that the broker comes from (seed 003). They are accepted, and say what became of them.

/// What each meant, and what it means now.
const VARIABLES: [(&str, &str); 3] = [
    (
        "POLL_WORKER_COUNT",
        "no threads are reserved for waiting pops: however many wait, one look at a time serves them all",
    ),
    (
        "POLL_INTERVAL_MS",
        "waiting pops are not polled for: a push wakes them (for a queue to be polled, see bugle queue mode)",
    ),
    (
        "USE_PRIORITY_DISPATCH",
        "looks for waiting pops always go before ordinary work, on a connection of their own",
    ),
];

/// A sentence for each variable that `is_set` knows.
pub fn seed_variables(is_set: impl Fn(&str) -> bool) -> Vec<String> {
    VARIABLES
        .iter()
        .filter(|(name, _)| is_set(name))
        .map(|(name, meaning)| format!("{name} is set and changes nothing: {meaning}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_is_set_says_what_it_means_now() {
        assert!(seed_variables(|_| false).is_empty());
        let told = seed_variables(|name| name == "POLL_INTERVAL_MS");
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("POLL_INTERVAL_MS is set and changes nothing: "), "{told:?}");
    }
}
