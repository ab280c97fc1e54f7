//! What a worker that is not Rust holds of a step: a text.

use super::begin::Place;
use crate::Error;
use crate::jobs::Receipt;
use crate::name::QueueName;
use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::time::Duration;

/// Proof of the claim of a step: what [`StepQueue::settle`](super::StepQueue::settle) and the others must be shown. It is written and read as a
/// text, which may change from version to version: its holder keeps it as it is. Worthless once the step was handed out anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepReceipt {
    pub(super) queue: QueueName,
    pub(super) job: Receipt,
    pub(super) place: Place,
    /// Nothing else was claimed with it: its end closes the lease.
    pub(super) alone: bool,
    /// When the step is tried again after this attempt, if it fails: by its rule, worked out when it was claimed. `None`: never.
    pub(super) retry_in: Option<Duration>,
}

/// What every receipt begins with: the form, and its version.
const PREFIX: &str = "step1";

impl StepReceipt {
    /// The queue that the step was claimed from. Anybody can write a receipt, so check that the caller may work there.
    #[must_use]
    pub fn queue(&self) -> &str {
        self.queue.as_str()
    }
}

impl fmt::Display for StepReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Receipt { lane, x, id, token }, Place(run, no, index, epoch)) = (self.job, self.place);
        let alone = i64::from(self.alone);
        let retry = self.retry_in.map_or(-1, |wait| i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
        write!(f, "{PREFIX}.{lane}.{x}.{id}.{token}.{run}.{no}.{index}.{epoch}.{alone}.{retry}.")?;
        self.queue.as_str().bytes().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for StepReceipt {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        read(text).ok_or_else(|| {
            let mut shown = String::new();
            let _ = write!(shown, "{:?}", text.chars().take(60).collect::<String>());
            Error::Invalid {
                what: "receipt",
                fault: format!("is {shown}"),
                next: "send the receipt that the claim answered, as it was",
            }
        })
    }
}

fn read(text: &str) -> Option<StepReceipt> {
    let mut parts = text.strip_prefix(PREFIX)?.strip_prefix('.')?.split('.');
    let mut number = || parts.next()?.parse::<i64>().ok();
    let job = Receipt { lane: number()?.try_into().ok()?, x: number()?, id: number()?, token: number()? };
    let place =
        Place(number()?, number()?.try_into().ok()?, number()?.try_into().ok()?, number()?.try_into().ok()?);
    let alone = number()? == 1;
    let retry_in = u64::try_from(number()?).ok().map(Duration::from_millis);
    let (hex, None) = (parts.next()?, parts.next()) else { return None };
    let digits =
        hex.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let queue = String::from_utf8(digits.collect::<Option<Vec<u8>>>()?).ok()?;
    Some(StepReceipt { queue: QueueName::parse(&queue).ok()?, job, place, alone, retry_in })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_read_as_it_was_written() {
        for retry_in in [None, Some(Duration::from_millis(1_500))] {
            let receipt = StepReceipt {
                queue: QueueName::parse("Packen, é.2").unwrap(),
                job: Receipt { lane: 2, x: 7, id: 8, token: i64::MAX },
                place: Place(9, 1, 0, 3),
                alone: true,
                retry_in,
            };
            assert_eq!(receipt.to_string().parse::<StepReceipt>().unwrap(), receipt);
        }
    }

    #[test]
    fn what_is_no_receipt_is_refused() {
        let good = "step1.2.7.8.5.9.1.0.3.1.-1.71";
        assert_eq!(good.parse::<StepReceipt>().unwrap().queue(), "q");
        for bad in [
            "",
            "step1",
            "step2.2.7.8.5.9.1.0.3.1.-1.71",
            "step1.2.7.8.5.9.1.0.3.1.-1.",
            "step1.2.7.8.5.9.1.0.3.1.-1.7",
            "step1.2.7.8.5.9.1.0.3.1.-1.71.1",
            "step1.99999.7.8.5.9.1.0.3.1.-1.71",
            "step1.2.7.8.5.9.1.0.3.1.-1.00",
            "step1.2.7.8.5.9.1.0.3.1.-1.éé",
        ] {
            let error = bad.parse::<StepReceipt>().unwrap_err().to_string();
            assert!(error.starts_with("receipt is \"") && error.ends_with("as it was"), "{error}");
        }
    }
}
