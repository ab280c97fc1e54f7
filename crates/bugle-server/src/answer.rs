//! Values as Queen's wire writes them.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::value::RawValue;
use uuid::Uuid;

/// A moment, in milliseconds.
pub(crate) fn millis(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// A moment, in microseconds: of popped messages alone.
pub(crate) fn micros(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// A payload that passes through as it was pushed. What somebody wrote into the table by hand and is no JSON is answered as a text: a pop that
/// failed because of it would fail for ever.
pub(crate) fn payload(text: &str) -> Box<RawValue> {
    serde_json::from_str(text)
        .or_else(|_| serde_json::value::to_raw_value(text))
        .unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// What the UUID of a queue begins with; as for partitions.
const QUEUE_UUID: u128 = 0x6275_676c_6501_8000_8000_0000_0000_0000;

/// The UUID that stands for a queue's number.
pub(crate) fn queue_id(number: i32) -> Uuid {
    Uuid::from_u128(QUEUE_UUID | u128::from(number.unsigned_abs()))
}
