//! Names, checked once at the edge; afterwards the type is the proof.

use crate::Error;
use crate::limits::{KEY_BYTES_MAX, NAME_BYTES_MAX, SCHEMA_NAME_BYTES_MAX};
use std::fmt;

/// A schema name: 1 to 48 bytes, a lower-case letter, then lower-case letters, digits or `_`.
///
/// The only text that is ever put into SQL: everything else is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaName(Box<str>);

impl SchemaName {
    /// Checks `name`.
    pub fn parse(name: &str) -> Result<Self, Error> {
        let legal = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_');
        let begins_well = name.starts_with(|c: char| c.is_ascii_lowercase());
        // PostgreSQL keeps names that begin with pg_ for itself.
        if begins_well
            && name.len() <= SCHEMA_NAME_BYTES_MAX
            && name.bytes().all(legal)
            && !name.starts_with("pg_")
        {
            return Ok(Self(name.into()));
        }
        Err(Error::Invalid {
            what: "schema name",
            fault: format!("is {:?} ({} bytes)", shorten(name), name.len()),
            next: "use 1 to 48 lower-case letters, digits or _, beginning with a letter but not with pg_",
        })
    }

    /// The name itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A file of SQL written for the schema `bugle`, made to speak of this schema.
    #[must_use]
    pub fn place_in(&self, sql: &str) -> String {
        if &*self.0 == "bugle" { sql.to_owned() } else { sql.replace("bugle.", &format!("{}.", self.0)) }
    }
}

impl Default for SchemaName {
    fn default() -> Self {
        Self("bugle".into())
    }
}

impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! checked_name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:expr, $next:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub struct $name(Box<str>);

        impl $name {
            /// Checks `text`: neither empty nor too long (in bytes, not characters), and nothing that cannot be printed.
            pub fn parse(text: &str) -> Result<Self, Error> {
                check_text($what, text, $max, $next)?;
                Ok(Self(text.into()))
            }

            /// The name itself.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

checked_name!(
    /// A namespace: names, keys and limits live inside one.
    NamespaceName, "namespace name", NAME_BYTES_MAX, "use 1 to 255 bytes without control characters"
);
checked_name!(
    /// A queue inside a namespace.
    QueueName, "queue name", NAME_BYTES_MAX, "use 1 to 255 bytes without control characters"
);
checked_name!(
    /// What sort of job it is: chooses the handler.
    Kind, "kind", NAME_BYTES_MAX, "use 1 to 255 bytes without control characters"
);
checked_name!(
    /// The caller's idempotency key: same key, same job.
    Key, "key", KEY_BYTES_MAX, "use 1 to 255 bytes without control characters, such as a hash of this one"
);

checked_name!(
    /// A partition of a queue of messages: an ordered lane.
    PartitionName, "partition name", NAME_BYTES_MAX, "use 1 to 255 bytes without control characters"
);
checked_name!(
    /// The name of an API key, for people.
    ApiKeyName, "API key name", NAME_BYTES_MAX, "use 1 to 255 bytes without control characters"
);
checked_name!(
    /// A consumer group of a queue of messages.
    GroupName, "group name", NAME_BYTES_MAX, "use 1 to 255 bytes without control characters"
);

impl Default for PartitionName {
    fn default() -> Self {
        Self("Default".into())
    }
}

impl Default for NamespaceName {
    fn default() -> Self {
        Self("default".into())
    }
}

fn check_text(what: &'static str, text: &str, max: usize, next: &'static str) -> Result<(), Error> {
    let fault = if text.is_empty() {
        "is empty".to_owned()
    } else if text.len() > max {
        format!("is {} bytes long, over the limit of {max}: {:?}", text.len(), shorten(text))
    } else if let Some(c) = text.chars().find(|c| c.is_control()) {
        format!("contains the control character {c:?}: {:?}", shorten(text))
    } else {
        return Ok(());
    };
    Err(Error::Invalid { what, fault, next })
}

/// The beginning of a text that may be long, for an error message.
fn shorten(text: &str) -> String {
    const SHOWN: usize = 60;
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    text.chars().take(SHOWN).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_names_are_plain_and_fit_into_48_bytes() {
        for good in ["bugle", "a", "b_2", &"a".repeat(48)] {
            assert_eq!(SchemaName::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "Bugle", "2b", "_b", "pg_bugle", "a-b", "a.b", "a\"b", "é", &"a".repeat(49)] {
            let error = SchemaName::parse(bad).unwrap_err().to_string();
            assert!(error.contains("schema name"), "{error}");
        }
    }

    #[test]
    fn another_schema_takes_the_place_of_bugle_in_sql() {
        let other = SchemaName::parse("other").unwrap();
        assert_eq!(other.place_in("SELECT bugle.enqueue('bugle')"), "SELECT other.enqueue('bugle')");
    }

    #[test]
    fn names_are_measured_in_bytes() {
        let name = "é".repeat(128);
        let error = QueueName::parse(&name).unwrap_err().to_string();
        assert!(error.contains("256 bytes"), "{error}");
        assert!(QueueName::parse(&"é".repeat(127)).is_ok());
        assert!(Kind::parse("").unwrap_err().to_string().contains("empty"));
        assert!(Key::parse("a\u{0}b").unwrap_err().to_string().contains("control character"));
    }
}
