//! What the jobs and rows of the benchmarks carry.

use serde_json::value::RawValue;

/// About 100 bytes, the size of a reference to what the job is about.
const PAYLOAD: &str =
    r#"{"to": "somebody@example.com", "subject": "Your order has been sent", "order": 4711, "retry": false}"#;

/// One of them.
pub(super) fn payload() -> Box<RawValue> {
    RawValue::from_string(PAYLOAD.to_owned()).unwrap_or_default()
}

/// A statement's worth of them.
pub(super) fn payloads(count: usize) -> Vec<Box<RawValue>> {
    vec![payload(); count]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_is_json_of_about_100_bytes() {
        assert_eq!(payload().get(), PAYLOAD);
        assert!((95..=105).contains(&PAYLOAD.len()), "{}", PAYLOAD.len());
    }
}
