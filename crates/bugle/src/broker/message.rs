//! A message on its way in, and on its way out.

use super::settle::{Settle, Verdict};
use crate::Error;
use crate::limits::{KEY_BYTES_MAX, MESSAGE_BYTES_MAX};
use crate::name::{GroupName, Key, PartitionName, QueueName};
use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use uuid::Uuid;

/// The number of a partition. On the wire it is a UUID that is made from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, sqlx::Type)]
#[sqlx(transparent)]
pub struct PartitionId(pub i32);

/// What the UUID of a partition begins with: version 8, "made by a rule of one's own".
const PARTITION_UUID: u128 = 0x6275_676c_6500_8000_8000_0000_0000_0000;

impl PartitionId {
    /// The UUID that stands for it.
    #[must_use]
    pub fn uuid(self) -> Uuid {
        Uuid::from_u128(PARTITION_UUID | u128::from(self.0.unsigned_abs()))
    }

    /// The partition that a UUID stands for; `None`: it stands for none.
    #[must_use]
    pub fn from_uuid(uuid: Uuid) -> Option<Self> {
        let number = uuid.as_u128() ^ PARTITION_UUID;
        i32::try_from(number).ok().filter(|number| *number > 0).map(Self)
    }
}

/// As it is on the wire.
impl Serialize for PartitionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.uuid().serialize(serializer)
    }
}

/// A message to be pushed: checked once, here.
#[derive(Debug, Clone)]
pub struct Message {
    pub(super) queue: QueueName,
    pub(super) partition: PartitionName,
    pub(super) key: Option<Key>,
    pub(super) trace: Option<Uuid>,
    pub(super) sub: Option<String>,
    pub(super) payload: Box<RawValue>,
}

impl Message {
    /// A message for the partition `Default` of a queue, without a key.
    pub fn new(queue: &str, payload: Box<RawValue>) -> Result<Self, Error> {
        let bytes = payload.get().len();
        if bytes > MESSAGE_BYTES_MAX {
            return Err(Error::Invalid {
                what: "payload",
                fault: format!("is {bytes} bytes long, over the limit of {MESSAGE_BYTES_MAX}"),
                next: "store the data elsewhere and push a reference to it",
            });
        }
        let (queue, partition) = (QueueName::parse(queue)?, PartitionName::default());
        Ok(Self { queue, partition, key: None, trace: None, sub: None, payload })
    }

    /// Another partition than `Default`.
    pub fn partition(mut self, name: &str) -> Result<Self, Error> {
        self.partition = PartitionName::parse(name)?;
        Ok(self)
    }

    /// Same key, same message: a second push with it into this partition is answered with the first, for a day at least.
    pub fn key(mut self, key: &str) -> Result<Self, Error> {
        self.key = Some(Key::parse(key)?);
        Ok(self)
    }

    /// A trace that it belongs to.
    #[must_use]
    pub fn trace(mut self, trace: Uuid) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Who pushes it, if that was proven.
    pub fn pushed_by(mut self, sub: &str) -> Result<Self, Error> {
        if sub.len() > KEY_BYTES_MAX || sub.contains('\0') {
            return Err(Error::Invalid {
                what: "subject",
                fault: format!("is {} bytes long, or contains a zero", sub.len()),
                next: "use at most 255 bytes",
            });
        }
        self.sub = Some(sub.to_owned());
        Ok(self)
    }
}

/// A message in a consumer's hands.
#[derive(Debug, Clone)]
pub struct Delivered {
    /// Its id.
    pub id: Uuid,
    /// The caller's key, if it was pushed with one.
    pub key: Option<String>,
    /// The trace that it belongs to.
    pub trace: Option<Uuid>,
    /// Who pushed it.
    pub sub: Option<String>,
    /// When it was pushed, by the database's clock.
    pub at: DateTime<Utc>,
    /// Its partition.
    pub partition: PartitionId,
    /// The partition's name.
    pub partition_name: Arc<str>,
    /// Its place in the log: rising in its partition, in the order of commits.
    pub seq: i64,
    /// Its number in its partition, without gaps.
    pub n: i64,
    /// How many claims in a row have come to nothing here.
    pub tries: i32,
    /// When the lease of its partition ends; `None`: it was acked by the claim.
    pub until: Option<DateTime<Utc>>,
    /// The payload, as JSON text.
    pub payload: String,
}

/// What one pop brought: messages of one or more partitions under one lease.
#[derive(Debug, Clone)]
pub struct Popped {
    /// The queue.
    pub queue: QueueName,
    /// The group that it was claimed for.
    pub group: GroupName,
    /// The lease's token.
    pub token: Uuid,
    /// They were acked by the claim: there is no lease.
    pub auto_ack: bool,
    /// The messages, partition by partition, each in its order.
    pub messages: Vec<Delivered>,
}

impl Popped {
    /// What settles each of its messages, in their order.
    pub fn receipts(&self) -> impl Iterator<Item = Receipt> + '_ {
        self.messages.iter().map(|message| Receipt {
            partition: message.partition,
            group: self.group.clone(),
            token: self.token,
            seq: message.seq,
        })
    }

    /// Its partitions, each once.
    #[must_use]
    pub fn partitions(&self) -> Vec<PartitionId> {
        let mut partitions: Vec<_> = self.messages.iter().map(|message| message.partition).collect();
        partitions.dedup();
        partitions
    }
}

/// Proof of a claim of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub(super) partition: PartitionId,
    pub(super) group: GroupName,
    pub(super) token: Uuid,
    pub(super) seq: i64,
}

impl Receipt {
    /// What shall become of the message.
    #[must_use]
    pub fn settle(&self, verdict: Verdict) -> Settle {
        Settle::by_seq(self.partition, self.group.clone(), Some(self.token), self.seq, verdict)
    }
}

/// For a person or a script to carry from a pop to an ack: partition, place, token and group, with dots between them.
impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}", self.partition.0, self.seq, self.token, self.group)
    }
}

impl FromStr for Receipt {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut parts = text.splitn(4, '.');
        let mut next = || parts.next().unwrap_or_default();
        let (partition, seq, token, group) = (next(), next(), next(), next());
        match (partition.parse(), seq.parse(), Uuid::parse_str(token)) {
            (Ok(partition), Ok(seq), Ok(token)) => {
                Ok(Self { partition: PartitionId(partition), group: GroupName::parse(group)?, token, seq })
            }
            _ => Err(Error::Invalid {
                what: "receipt",
                fault: format!("is {text:?}"),
                next: "give it as the pop printed it: partition, place, token and group with dots between them",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_read_as_it_was_printed() {
        let group = GroupName::parse("a.b group").unwrap();
        let receipt = Receipt { partition: PartitionId(7), group, token: Uuid::now_v7(), seq: 1 << 40 };
        assert_eq!(receipt.to_string().parse::<Receipt>().unwrap(), receipt);
        for bad in ["", "7", "7.1.x.g", "7.1", "a.1.01997b1e-0000-7000-8000-000000000000.g"] {
            assert!(bad.parse::<Receipt>().unwrap_err().to_string().contains("receipt"), "{bad}");
        }
    }

    #[test]
    fn a_partition_is_found_by_the_uuid_that_is_made_from_it() {
        for id in [1, 77, i32::MAX] {
            assert_eq!(PartitionId::from_uuid(PartitionId(id).uuid()), Some(PartitionId(id)));
        }
        assert_eq!(PartitionId(1).uuid().get_version_num(), 8);
        assert_eq!(PartitionId::from_uuid(Uuid::now_v7()), None);
        assert_eq!(PartitionId::from_uuid(PartitionId(0).uuid()), None);
    }
}
